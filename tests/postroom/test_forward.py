"""`forward`: what arrives at the other address is what the sender sent, and what is not says so."""

import json
import socket
import threading
from io import BytesIO
from types import TracebackType
from typing import Self

import pytest

from postroom.forwarding import REDACTED, Forwardable, Original, Target, headers_to_send
from tests.postroom.commandproc import CommandProcess
from tests.postroom.conftest import Command, run
from tests.postroom.scriptedserver import Asked, ScriptedServer, answer
from tests.postroom.serverproc import ServerProcess
from tests.postroom.test_cli import fine, sentence
from web.claims import REDACTED as REDACTED_BY_THE_SERVER

OK = answer(b"{}")
BAD = answer(b"no", status="500 Internal Server Error")
LARGE = b"0123456789abcdef" * 80_000
"""1.25 MiB: in pieces in the store, in a file on its way."""


def inbox(command: Command, slug: str) -> str:
    fine(command("inbox", "create", slug, "--no-token"))
    return slug


def closed_url() -> str:
    """Return an address where nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return f"http://127.0.0.1:{listener.getsockname()[1]}"


def test_method_path_query_headers_and_body_are_the_original_ones(command: Command) -> None:
    slug = inbox(command, "forward-whole")
    words = ["--put", "--path", "/a%2Fb//../c?x=1&x=", "-H", "X-One: 1", "-H", "X-Two: é", "-H", "X-One: 2"]
    body = b'{"n": 1.10,\r\n "b": "\xff"}'
    fine(command("send", slug, *words, "--content-type", "application/odd", stdin=body))
    with ScriptedServer(OK) as target:
        shown = fine(command("forward", slug, "--to", f"{target.url}/hook/", "--after", "0", "--once"))
    [asked] = target.asked
    assert (asked.method, asked.target, asked.body) == ("PUT", "/hook/a%2Fb//../c?x=1&x=", body)
    ours = [(name, value) for name, value in asked.headers if name.startswith("x-")]
    assert ours == [("x-one", "1"), ("x-two", "é".encode().decode("latin-1")), ("x-one", "2")]
    assert header(asked, "content-type") == ["application/odd"]
    assert header(asked, "content-length") == [str(len(body))]
    assert header(asked, "host") == [target.url.removeprefix("http://")]
    assert header(asked, "transfer-encoding") == []
    assert "PUT /hook/a%2Fb//../c?x=1&x=  200" in shown


def test_a_header_is_sent_once_and_none_is_added(command: Command) -> None:
    slug = inbox(command, "forward-headers")
    fine(command("send", slug, "--data", "x", "-H", "User-Agent: original", "-H", "Accept: a/b"))
    stored = json.loads(fine(command("message", slug, "1", "--json")))["untrusted"]["headers"]
    with ScriptedServer(OK) as target:
        fine(command("forward", slug, "--to", target.url, "--after", "0", "--once"))
    sent = {name.lower() for name, _ in target.asked[0].headers}
    assert sent == {name for name, _ in stored} - {"connection"}


def test_redacted_headers_are_left_out_and_named(command: Command) -> None:
    slug = inbox(command, "forward-redacted")
    fine(command("send", slug, "--data", "x", "-H", "Authorization: Bearer s3cret", "-H", "X-Api-Key: k"))
    with ScriptedServer(OK, OK) as target:
        words = ["forward", slug, "--to", target.url, "--after", "0", "--once"]
        result = command(*words)
        line = json.loads(fine(command(*words, "--json")))
    assert "(without authorization, x-api-key: redacted)" in fine(result)
    assert result.stderr.splitlines() == ["Not sent, as they belong to a connection: connection."]
    assert line["redacted"] == ["authorization", "x-api-key"]
    assert (line["seq"], line["status"], line["error"]) == (1, 200, None)
    assert line["left_out"] == ["connection"]
    for asked in target.asked:
        assert header(asked, "authorization") == header(asked, "x-api-key") == []


def test_a_large_body_arrives_whole_and_an_empty_one_empty(command: Command) -> None:
    slug = inbox(command, "forward-bodies")
    fine(command("send", slug, stdin=LARGE))
    fine(command("send", slug, stdin=b""))
    with ScriptedServer(OK, OK) as target:
        fine(command("forward", slug, "--to", target.url, "--after", "0", "--once"))
    assert [asked.body for asked in target.asked] == [LARGE, b""]
    assert [header(asked, "content-length") for asked in target.asked] == [[str(len(LARGE))], ["0"]]


def test_once_sends_everything_after_the_cursor_in_order_and_ends(command: Command) -> None:
    slug = inbox(command, "forward-once")
    for n in range(5):
        fine(command("send", slug, "--data", str(n)))
    with ScriptedServer(*[OK] * 4) as target:
        fine(command("forward", slug, "--to", target.url, "--after", "1", "--once"))
    assert [asked.body for asked in target.asked] == [b"1", b"2", b"3", b"4"]


def test_only_one_message_is_sent_when_one_is_asked_for(command: Command) -> None:
    slug = inbox(command, "forward-only")
    for n in range(3):
        fine(command("send", slug, "--data", str(n)))
    with ScriptedServer(OK) as target:
        fine(command("forward", slug, "--to", target.url, "--only", "2"))
    assert [asked.body for asked in target.asked] == [b"1"]
    for seq in ("4", "9"):
        absent = command("forward", slug, "--to", closed_url(), "--only", seq)
        assert f"has no message {seq}" in sentence(absent, 5)


def test_a_failure_is_shown_and_the_next_message_sent_all_the_same(command: Command) -> None:
    slug = inbox(command, "forward-on")
    for text in ("a", "b", "c"):
        fine(command("send", slug, "--data", text))
    with ScriptedServer(OK, BAD, OK) as target:
        result = command("forward", slug, "--to", target.url, "--after", "0", "--once")
    assert result.exit_code == 1
    assert [line.split("  ")[-2] for line in result.stdout.splitlines()] == ["200", "500", "200"]
    assert "1 of the messages was not taken" in result.stderr


def test_with_stop_on_error_it_ends_there_and_says_how_to_go_on(command: Command) -> None:
    slug = inbox(command, "forward-stop")
    for text in ("a", "b", "c"):
        fine(command("send", slug, "--data", text))
    with ScriptedServer(OK, BAD) as target:
        words = ["forward", slug, "--to", target.url, "--after", "0", "--once", "--stop-on-error"]
        result = command(*words)
    assert result.exit_code == 1
    assert "stopped at message 2" in result.stderr
    words = result.stderr.splitlines()[-1].split("go on with it: ")[1].split()
    with ScriptedServer(OK, OK) as target:
        fine(command("forward", slug, "--to", target.url, "--once", *words))
    assert [asked.body for asked in target.asked] == [b"b", b"c"]


def test_an_address_where_nobody_listens_is_said(command: Command) -> None:
    slug = inbox(command, "forward-nobody")
    fine(command("send", slug, "--data", "x"))
    result = command("forward", slug, "--to", closed_url(), "--after", "0", "--once")
    assert result.exit_code == 1
    assert "failed: nobody listens there" in result.stdout


def test_what_is_no_answer_is_said(command: Command) -> None:
    slug = inbox(command, "forward-odd")
    fine(command("send", slug, "--data", "x"))
    with ScriptedServer(b"SSH-2.0-\x1b[2J\r\n") as target:
        result = command("forward", slug, "--to", target.url, "--after", "0", "--once")
    assert result.exit_code == 1
    assert "failed: it gave no complete HTTP answer  " in result.stdout


def test_new_messages_are_sent_as_they_come(server: ServerProcess, command: Command) -> None:
    slug = inbox(command, "forward-live")
    fine(command("send", slug, "--data", "old"))
    client = {"POSTROOM_URL": server.url, "POSTROOM_TOKEN": server.token}
    with ScriptedServer(OK, OK) as target:
        words = ["forward", slug, "--to", target.url, "--after", "1"]
        with CommandProcess(*words, **client) as forwarding:
            for text in ("new", "newer"):
                fine(command("send", slug, "--data", text))
                assert "200" in forwarding.line()
    assert [asked.body for asked in target.asked] == [b"new", b"newer"]


def test_a_message_that_cannot_be_fetched_at_present_is_fetched_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    slept: list[float] = []
    monkeypatch.setattr("postroom.cli.forward.time.sleep", slept.append)
    message = {"inbox": "demo", "seq": 1, "epoch": "e", "size": 1, "method": "POST", "untrusted": {}}
    page = {"messages": [message], "latest_seq": 1, "epoch": "e", "gap": False, "next_after": 1}
    page_answer = answer(json.dumps(page).encode())
    busy = answer(b'{"error": {"code": "busy", "message": "."}}', status="503 Service Unavailable")
    body = answer(b"x", "application/octet-stream")
    with ScriptedServer(page_answer, page_answer, busy, body) as server, ScriptedServer(OK) as target:
        words = ["forward", "demo", "--to", target.url, "--after", "0", "--once", "--url", server.url]
        result = run(*words, POSTROOM_TOKEN="x")
    assert fine(result).split("  ")[-2] == "200"
    assert "Trying again" in result.stderr
    assert len(slept) == 1
    assert [asked.body for asked in target.asked] == [b"x"]


def test_a_message_that_is_gone_when_it_is_fetched_is_said(command: Command) -> None:
    message = {"inbox": "demo", "seq": 1, "epoch": "e", "size": 1, "method": "POST", "untrusted": {}}
    page = {"messages": [message], "latest_seq": 1, "epoch": "e", "gap": False, "next_after": 1}
    page_answer = answer(json.dumps(page).encode())
    gone = answer(b'{"error": {"code": "not_found", "message": "."}}', status="404 Not Found")
    with ScriptedServer(page_answer, page_answer, gone) as server:
        words = ["forward", "demo", "--to", closed_url(), "--after", "0", "--once", "--url", server.url]
        result = run(*words, POSTROOM_TOKEN="x")
    assert result.exit_code == 1
    assert "failed: no longer kept" in result.stdout


class DrippingServer:
    """Gives one connection `begin` and then, for as long as it is there, a byte now and then."""

    def __init__(self, begin: bytes) -> None:
        self._begin = begin
        self._stopped = threading.Event()

    def __enter__(self) -> Self:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.settimeout(10)
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopped.set()
        self._thread.join(10)
        self._listener.close()

    def _serve(self) -> None:
        connection, _ = self._listener.accept()
        with connection:
            connection.settimeout(10)
            connection.recv(65_536)
            try:
                connection.sendall(self._begin)
                while not self._stopped.wait(0.05):
                    connection.sendall(b"x")
            except OSError:
                pass  # the client has had enough


@pytest.mark.parametrize(
    "begin",
    [b"HTTP/1.1 200 OK\r\nX-Long: ", b"HTTP/1.1 200 OK\r\nContent-Length: 9999\r\n\r\n"],
    ids=["head", "body"],
)
def test_the_time_limit_is_one_for_the_whole_answer(begin: bytes) -> None:
    message = Forwardable("demo", 1, "e", 1, Original())
    with DrippingServer(begin) as dripping, Target(dripping.url, timeout_seconds=0.4) as target:
        outcome = target.send(message, BytesIO(b"x"))
    assert (outcome.status, outcome.error) == (None, "no complete answer in time")
    assert 300 < outcome.milliseconds < 3000


def test_a_target_whose_answer_came_too_late_gets_the_next_message() -> None:
    late = b"HTTP/1.1 200 OK\r\nContent-Length: 9999\r\n\r\n"
    with ScriptedServer(late, OK) as server, Target(server.url, timeout_seconds=5) as target:
        sent = [target.send(Forwardable("demo", n, "e", 1, Original()), BytesIO(b"x")) for n in (1, 2)]
    assert [outcome.status for outcome in sent] == [None, 200]


@pytest.mark.parametrize("seconds", ["nan", "inf", "0", "1e9"])
def test_a_time_limit_that_is_none_is_refused(command: Command, seconds: str) -> None:
    result = command("forward", "demo", "--to", closed_url(), "--timeout", seconds)
    assert result.exit_code == 2
    assert "'--timeout'" in result.stderr


def test_a_redirect_is_not_followed_and_a_failure(command: Command) -> None:
    slug = inbox(command, "forward-redirect")
    fine(command("send", slug, "--data", "x"))
    away = b"HTTP/1.1 302 Found\r\nLocation: /elsewhere\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
    with ScriptedServer(away) as target:
        words = ["forward", slug, "--to", target.url, "--after", "0", "--once"]
        result = command(*words)
    assert result.exit_code == 1
    assert "  302 (a redirect, not followed)  " in result.stdout
    assert len(target.asked) == 1


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (["--to", "ftp://127.0.0.1"], "--to takes"),
        (["--to", "http://user:pw@127.0.0.1/"], "--to takes"),
        (["--to", "http://127.0.0.1/#x"], "--to takes"),
        (["--to", "http://127.0.0.1", "--once"], "--once needs --after"),
        (["--to", "http://127.0.0.1", "--only", "1", "--once"], "--only sends one message"),
        (["--to", "http://127.0.0.1", "--epoch", "x"], "--epoch needs --after"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_wrong_usage_is_said_in_one_sentence(command: Command, words: list[str], hint: str) -> None:
    assert hint in sentence(command("forward", "demo", *words), 2)


# -- what is sent, decided -----------------------------------------------------------------------------------


def test_the_redaction_is_recognised_by_the_server_s_own_word() -> None:
    assert REDACTED_BY_THE_SERVER == REDACTED


def test_headers_of_the_first_connection_are_left_out_with_those_it_names() -> None:
    original = [
        ("host", "hooks.example.org"),
        ("connection", "keep-alive, X-Mine"),
        ("transfer-encoding", "chunked"),
        ("x-mine", "1"),
        ("X-Kept", "2"),
        ("expect", "100-continue"),
        ("cookie", REDACTED),
        ("x-kept", "\xe9"),
    ]
    headers = headers_to_send(original)
    assert headers.sent == [(b"X-Kept", b"2"), (b"x-kept", b"\xe9")]
    assert headers.redacted == ("cookie",)
    assert headers.left_out == ("connection", "transfer-encoding", "x-mine", "expect")


@pytest.mark.parametrize(
    ("to", "path", "query", "expected"),
    [
        ("http://h", "", "", b"/"),
        ("http://h/", "/a", "", b"/a"),
        ("http://h/base/", "/a", "q=1", b"/base/a?q=1"),
        ("http://h/base", "", "q", b"/base?q"),
        ("http://h/base?key=1", "//x", "a=%2F", b"/base//x?key=1&a=%2F"),
        ("http://h", "/\xff", "", b"/\xff"),
    ],
)
def test_the_target_s_path_and_query_come_first(to: str, path: str, query: str, expected: bytes) -> None:
    with Target(to, timeout_seconds=1) as target:
        assert target.request_target(Original(path=path, query=query)) == expected


def header(asked: Asked, name: str) -> list[str]:
    return [value for key, value in asked.headers if key.lower() == name]
