"""`postroom drain` as a harness runs it: printed now, acknowledged by the next call, never in an agent's way."""

import json
import os
import socket
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from postroom.cli.commands import program
from postroom.cli.digest import LEAST_BYTES
from postroom.cli.drain import LEAST_SECONDS, within
from postroom.client import Unreachable
from postroom.draining import BYTES_PER_TOKEN
from tests.postroom.conftest import run
from tests.postroom.drained import Letter, item, page
from tests.postroom.scriptedserver import ScriptedServer, answer
from tests.postroom.test_cli import fine, sentence

TOKEN = "prm_agent_of_the_tests"
CALL_SECONDS = 2.0
"""What one call may take."""
LOADING_SECONDS = 20
SPARE_SECONDS = 0.6
"""For what a call does beside waiting, on a busy machine."""

Drain = Callable[..., Result]

ONE, TWO, THREE = (item(Letter(seq, f"id-{seq}", score)) for seq, score in ((1, 0.5), (2, 0.9), (3, 0.7)))


@pytest.fixture
def drain(tmp_path: Path) -> Drain:
    """Run the command on a server, with a state directory of the test's own."""

    def call(server: ScriptedServer | str, *words: str, **environment: str) -> Result:
        url = server if isinstance(server, str) else server.url
        asked = {"POSTROOM_URL": url, "POSTROOM_TOKEN": TOKEN, "XDG_STATE_HOME": str(tmp_path / "state")}
        return run("drain", *words, **(asked | environment))

    return call


def pages(*documents: bytes) -> list[bytes]:
    return [answer(document) for document in documents]


def asked(server: ScriptedServer) -> list[dict[str, Any]]:
    """Return the bodies of all calls, without the size of the page."""
    assert {(one.method, one.target) for one in server.asked} <= {("POST", "/v1/inbox:pull")}
    return [
        {name: value for name, value in json.loads(one.body).items() if name != "limit"}
        for one in server.asked
    ]


def shown(result: Result) -> list[str]:
    """Return the numbers of the items that a digest tells of, in its order."""
    return [line.split(" ", 1)[0] for line in fine(result).splitlines() if line.startswith("#")]


def state(tmp_path: Path) -> Path:
    [file] = (tmp_path / "state" / "postroom" / "drain").iterdir()
    return file


# -- turn by turn ----------------------------------------------------------------------------------------------


def test_what_one_call_prints_the_next_one_acknowledges(drain: Drain) -> None:
    first = page([TWO, ONE], 0, 3)
    with ScriptedServer(*pages(first, first, page([], 3, 3), page([], 3, 3))) as server:
        assert shown(drain(server)) == ["#2", "#1"]
        result = drain(server)
        assert (fine(result), result.stderr) == ("", "")
        assert fine(drain(server)) == ""
    assert asked(server) == [{}, {}, {"ack": 3}, {}]


def test_new_items_are_printed_by_the_call_that_acknowledges_the_old_ones(drain: Drain) -> None:
    answers = page([TWO, ONE], 0, 2), page([TWO, ONE, THREE], 0, 3), page([THREE], 2, 3)
    with ScriptedServer(*pages(*answers)) as server:
        assert shown(drain(server)) == ["#2", "#1"]
        assert shown(drain(server)) == ["#3"]
    assert asked(server) == [{}, {}, {"ack": 2}]


def test_what_did_not_fit_comes_with_the_next_turn_and_is_not_acknowledged_before(drain: Drain) -> None:
    long = [item(Letter(seq, f"id-{seq}", seq / 10, text="x" * 300)) for seq in (5, 4, 3, 2, 1)]
    least = str(LEAST_BYTES // BYTES_PER_TOKEN)
    with ScriptedServer(*pages(*[page(long, 0, 5)] * 3, page([], 5, 5))) as server:
        first = drain(server, "--budget-tokens", least)
        assert "More messages are waiting" in first.stdout
        second = drain(server, "--budget-tokens", least)
        assert "More messages are waiting" not in second.stdout
        assert [shown(first), shown(second)] == [["#5", "#4", "#3"], ["#2", "#1"]]
        assert fine(drain(server)) == ""
    assert asked(server) == [{}, {}, {}, {"ack": 5}]


def test_another_message_under_a_number_that_was_shown_is_new(drain: Drain) -> None:
    other = item(Letter(1, "id-of-another-life", 0.5))
    with ScriptedServer(*pages(page([ONE], 0, 1), page([other], 0, 1))) as server:
        assert shown(drain(server)) == ["#1"]
        assert shown(drain(server)) == ["#1"]
    assert asked(server) == [{}, {}]


def test_rows_that_nobody_may_see_are_passed_until_there_is_something(drain: Drain) -> None:
    answers = (
        page([], 0, 4, has_more=True),
        page([], 4, 8, has_more=True),
        page([ONE | {"delivery_seq": 9}], 8, 9),
    )
    with ScriptedServer(*pages(*answers)) as server:
        assert shown(drain(server)) == ["#9"]
    assert asked(server) == [{}, {"ack": 4}, {"ack": 8}]


def test_a_page_is_no_larger_than_the_budget_can_use(drain: Drain) -> None:
    with ScriptedServer(*pages(*[page([], 0, 0)] * 2)) as server:
        drain(server, "--budget-tokens", "600")
        drain(server, "--budget-tokens", "100000")
    assert [json.loads(one.body)["limit"] for one in server.asked] == [15, 100]


def test_json_is_what_the_server_sent_as_much_as_fits_and_at_least_one(drain: Drain) -> None:
    large = item(Letter(4, "id-4", 1.0, text="x" * 10_000 + "\u202e"))
    body = page([large, TWO, ONE], 0, 4, has_more=True).replace(b'"score": 0.9', b'"score": 0.90')
    with ScriptedServer(*pages(body, body)) as server:
        first = json.loads(fine(drain(server, "--json")))
        assert first == {"items": [large], "more": True}
        second = fine(drain(server, "--json"))
        assert '"score": 0.90' in second
        assert json.loads(second) == {"items": [TWO, ONE], "more": True}


def test_json_of_nothing_is_a_document_too(drain: Drain) -> None:
    with ScriptedServer(*pages(page([], 0, 0))) as server:
        assert json.loads(fine(drain(server, "--json"))) == {"items": [], "more": False}


# -- what it remembers -----------------------------------------------------------------------------------------


def test_the_state_is_a_small_file_that_nobody_else_reads_and_that_names_nobody(
    drain: Drain, tmp_path: Path
) -> None:
    with ScriptedServer(*pages(page([TWO, ONE], 0, 2))) as server:
        fine(drain(server))
    file = state(tmp_path)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    assert json.loads(file.read_text()) == {"shown": [[1, "id-1"], [2, "id-2"]]}
    assert TOKEN not in file.name


def test_each_token_and_each_server_has_a_state_of_its_own(drain: Drain, tmp_path: Path) -> None:
    with ScriptedServer(*pages(*[page([ONE], 0, 1)] * 2)) as server:
        assert shown(drain(server)) == ["#1"]
        assert shown(drain(server, POSTROOM_TOKEN="prm_agent_another")) == ["#1"]
    assert len(list((tmp_path / "state" / "postroom" / "drain").iterdir())) == 2


def test_a_state_that_cannot_be_read_is_begun_anew(drain: Drain, tmp_path: Path) -> None:
    with ScriptedServer(*pages(*[page([ONE], 0, 1)] * 2)) as server:
        fine(drain(server))
        state(tmp_path).write_text('{"shown": 1')
        assert shown(drain(server)) == ["#1"]
        assert json.loads(state(tmp_path).read_text()) == {"shown": [[1, "id-1"]]}


def test_without_a_place_for_the_state_messages_still_come_and_are_shown_again(
    drain: Drain, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    nowhere = str(tmp_path / "file" / "state")
    with ScriptedServer(*pages(*[page([ONE], 0, 1)] * 2)) as server:
        for _ in range(2):
            result = drain(server, XDG_STATE_HOME=nowhere)
            assert shown(result) == ["#1"]
            assert "cannot remember what was shown" in result.stderr


# -- never in the way ------------------------------------------------------------------------------------------


def quiet(result: Result) -> str:
    """Return the one line of a call that did nothing, and did no harm."""
    assert (result.exit_code, result.stdout) == (0, "")
    [line] = result.stderr.splitlines()
    assert line.startswith("postroom: ")
    assert line.endswith("New messages have to wait.")
    return line


@pytest.mark.parametrize("words", [(), ("--json",)])
def test_a_server_that_is_away_is_one_line_on_stderr(drain: Drain, words: tuple[str, ...]) -> None:
    with ScriptedServer() as nobody:
        url = nobody.url
    assert "No server answers" in quiet(drain(url, *words))


@pytest.mark.parametrize(
    "status",
    [
        "429 Too Many Requests",
        "503 Service Unavailable",
        "502 Bad Gateway",
        "404 Not Found",
        "400 Bad Request",
    ],
)
def test_a_server_that_is_busy_or_another_one_is_one_line_on_stderr(drain: Drain, status: str) -> None:
    busy = b'{"error":{"code":"busy","message":"Later."}}'
    with ScriptedServer(answer(busy, status=status)) as server:
        quiet(drain(server))


def test_a_server_that_never_answers_is_given_up_in_time(drain: Drain) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        began = time.monotonic()
        line = quiet(drain(f"http://127.0.0.1:{silent.getsockname()[1]}"))
        assert time.monotonic() - began < CALL_SECONDS
    assert "did not answer in time" in line


def test_a_closed_output_is_a_failure_and_acknowledges_nothing(tmp_path: Path) -> None:
    with ScriptedServer() as server:
        variables = {"POSTROOM_URL": server.url, "POSTROOM_TOKEN": TOKEN, "XDG_STATE_HOME": str(tmp_path)}
        done = subprocess.run(
            ["sh", "-c", 'exec "$0" -m postroom drain >&-', sys.executable],
            env={**os.environ, **variables},
            stderr=subprocess.PIPE,
            timeout=LOADING_SECONDS,
            check=False,
        )
    assert (done.returncode, done.stderr) == (1, b"postroom: standard output is closed.\n")
    assert list(tmp_path.rglob("*.json")) == []


def test_a_program_that_took_long_to_load_waits_less(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        asked = {
            "POSTROOM_URL": f"http://127.0.0.1:{silent.getsockname()[1]}",
            "POSTROOM_TOKEN": TOKEN,
            "XDG_STATE_HOME": str(tmp_path),
        }
        began = time.monotonic()
        quiet(CliRunner().invoke(program, ["drain"], env=asked, obj=began - 60))
        assert time.monotonic() - began < LEAST_SECONDS + SPARE_SECONDS


def test_the_hook_loads_no_server_and_no_other_command() -> None:
    script = (
        "import sys; sys.argv = ['postroom', 'drain', '--help']\n"
        "from postroom.__main__ import main\n"
        "try: main()\n"
        "except SystemExit as end: print(end.code, sorted({'trio', 'structlog', 'quart'} & sys.modules.keys()))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=LOADING_SECONDS, check=True
    )
    assert done.stdout.startswith("Usage: postroom drain [OPTIONS]")
    assert done.stdout.splitlines()[-1] == "0 []"


def test_whatever_a_request_hangs_in_the_deadline_holds() -> None:
    never = threading.Event()
    try:
        with pytest.raises(Unreachable):
            within(0.05, never.wait)
    finally:
        never.set()


def test_a_deadline_passes_results_and_errors_on() -> None:
    def fails() -> None:
        raise ValueError("mine")

    assert within(10, lambda: None) is None
    with pytest.raises(ValueError, match="mine"):
        within(10, fails)


def test_what_was_shown_is_kept_while_the_server_is_away(drain: Drain) -> None:
    with ScriptedServer(*pages(page([ONE], 0, 1))) as server:
        assert shown(drain(server)) == ["#1"]
        url = server.url
    quiet(drain(url))
    port = int(url.rpartition(":")[2])
    with ScriptedServer(*pages(page([ONE], 0, 1), page([], 1, 1)), port=port) as server:
        assert fine(drain(server)) == ""
    assert asked(server) == [{}, {"ack": 1}]


@pytest.mark.parametrize("code", ["unauthenticated", "permission_denied"])
def test_a_token_that_is_no_agent_s_is_told_so_in_a_sentence(drain: Drain, code: str) -> None:
    refusal = json.dumps({"error": {"code": code, "message": "No."}}).encode()
    status = "401 Unauthorized" if code == "unauthenticated" else "403 Forbidden"
    with ScriptedServer(answer(refusal, status=status)) as server:
        assert code in sentence(drain(server), 4)
    sentence(drain("http://127.0.0.1:1", POSTROOM_TOKEN=""), 4)


@pytest.mark.parametrize(
    ("words", "url"),
    [
        (("--budget-tokens", "499"), "http://127.0.0.1:1"),
        (("--budget-tokens", "many"), "http://127.0.0.1:1"),
        (("--no-such-option",), "http://127.0.0.1:1"),
        ((), "ftp://127.0.0.1"),
    ],
)
def test_no_mistake_ends_with_the_code_that_blocks_a_turn(
    drain: Drain, words: tuple[str, ...], url: str
) -> None:
    result = drain(url, *words)
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr
