"""The life of a server as its operator sees it: first start, next starts, a lost token, a second server."""

import json
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from postroom.bootstrap import Founded
from postroom.cli.banner import exports, started
from postroom.config import load
from tests.postroom.conftest import run
from tests.postroom.serverproc import ServerProcess, clean_environment

COMMAND_SECONDS = 30


def postroom(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run one command in a process of its own, for those that open the data directory."""
    return subprocess.run(
        [sys.executable, "-m", "postroom", *words],
        env=clean_environment(**environment),
        capture_output=True,
        text=True,
        timeout=COMMAND_SECONDS,
        stdin=subprocess.DEVNULL,
    )


def test_the_first_start_prints_the_token_once_and_three_commands_that_work(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "data") as server:
        said = "\n".join(server.said)
        assert f"export POSTROOM_URL={server.url}" in said
        send = run("send", "demo", "--data", "{}", POSTROOM_URL=server.url)
        messages = run("messages", "demo", POSTROOM_URL=server.url, POSTROOM_TOKEN=server.token)
        create = run("inbox", "create", POSTROOM_URL=server.url, POSTROOM_TOKEN=server.token)
        assert (send.exit_code, messages.exit_code, create.exit_code) == (0, 0, 0)
        token = server.token
    assert server.exit_code == 0
    with ServerProcess(tmp_path / "data") as again:
        assert "POSTROOM_TOKEN" not in "\n".join(again.said)
        listed = run("messages", "demo", "--json", POSTROOM_URL=again.url, POSTROOM_TOKEN=token)
        assert [message["seq"] for message in json.loads(listed.stdout)["messages"]] == [1]
    assert again.exit_code == 0


def test_the_first_start_prints_both_lines_on_the_usual_port_too() -> None:
    config = load(environment={}, flags={})
    said = started(
        "http://127.0.0.1:8025", config, Founded(is_new=True, admin_token="prm_admin_x", demo=True)
    )
    assert "  export POSTROOM_URL=http://127.0.0.1:8025\n  export POSTROOM_TOKEN=prm_admin_x\n" in said


@pytest.mark.parametrize(
    ("listens", "reached"),
    [
        ("http://0.0.0.0:8025", "http://127.0.0.1:8025"),
        ("http://[::]:8025", "http://[::1]:8025"),
        ("http://10.0.0.1:8025", "http://10.0.0.1:8025"),
    ],
)
def test_the_address_to_export_is_one_that_can_be_called(listens: str, reached: str) -> None:
    assert exports(listens, "x")[0] == f"  export POSTROOM_URL={reached}"


def test_a_server_with_a_public_url_says_where_it_listens_and_where_senders_reach_it(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "data", PUBLIC_URL="https://hooks.example/post/") as server:
        said = "\n".join(server.said)
        assert server.url.startswith("http://127.0.0.1:")
        assert "Senders reach it at https://hooks.example/post (PUBLIC_URL)." in said
        assert f"export POSTROOM_URL={server.url}" in said
        create = run("inbox", "create", "--json", POSTROOM_URL=server.url, POSTROOM_TOKEN=server.token)
        assert json.loads(create.stdout)["ingest_url"].startswith("https://hooks.example/post/in/")


def test_a_server_whose_reading_is_off_recommends_no_reading_and_says_why(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "data", READ_API_ENABLED="false") as server:
        said = "\n".join(server.said)
        assert "Reading is switched off (READ_API_ENABLED)" in said
        assert "messages demo" not in said
        access = {"POSTROOM_URL": server.url, "POSTROOM_TOKEN": server.token}
        assert run("send", "demo", "--data", "{}", **access).exit_code == 0
        assert run("inbox", "show", "demo", **access).exit_code == 0
        for words in (
            ["messages", "demo"],
            ["message", "demo", "1"],
            ["raw", "demo", "1"],
            ["wait", "demo", "--after", "0"],
            ["tail", "-f", "demo"],
            ["inbox", "list"],
        ):
            refused = run(*words, **access)
            assert refused.exit_code == 5, words
            assert "Reading is switched off on this server (READ_API_ENABLED)." in refused.stderr
        stranger = run("messages", "demo", POSTROOM_URL=server.url, POSTROOM_TOKEN="x")
        assert stranger.exit_code == 4, "who is no caller is told nothing of the server"


@pytest.mark.parametrize("module", ["click", "msgspec", "postroom.cli.commands", "trio", "web.app"])
def test_ctrl_c_during_the_start_ends_in_one_sentence(tmp_path: Path, module: str) -> None:
    """Python itself says what it has just imported, so the signal falls into the middle of the start."""
    words = ["serve", "--data-dir", str(tmp_path / "data"), "--bind", "127.0.0.1:0"]
    with subprocess.Popen(
        [sys.executable, "-X", "importtime", "-m", "postroom", *words],
        env=clean_environment(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        text=True,
    ) as process:
        assert process.stderr is not None
        sent = False
        said = []
        for line in process.stderr:
            if not line.startswith("import time:"):
                said.append(line)
            elif not sent and line.split("|")[-1].strip() == module:
                process.send_signal(signal.SIGINT)
                sent = True
        assert sent
        assert process.wait(COMMAND_SECONDS) in (0, 130)
    if process.returncode == 130:
        assert said[-1] == "postroom: interrupted.\n"
    assert "Traceback" not in "".join(said)


def test_init_makes_the_directory_that_serve_then_uses(tmp_path: Path) -> None:
    data_dir = str(tmp_path / "data")
    made = postroom("init", "--data-dir", data_dir, "--json")
    assert made.returncode == 0, made.stderr
    token = json.loads(made.stdout)["token"]
    again = postroom("init", "--data-dir", data_dir)
    assert again.returncode == 0
    assert "nothing was changed" in again.stdout
    with ServerProcess(Path(data_dir)) as server:
        assert run("inbox", "list", POSTROOM_URL=server.url, POSTROOM_TOKEN=token).exit_code == 0


def test_a_lost_admin_token_is_replaced_offline(tmp_path: Path) -> None:
    data_dir = str(tmp_path / "data")
    old = json.loads(postroom("init", "--data-dir", data_dir, "--json").stdout)["token"]
    refused = postroom("token", "reset-admin", "--data-dir", data_dir)
    assert refused.returncode == 2
    assert "--yes" in refused.stderr
    reset = postroom("token", "reset-admin", "--data-dir", data_dir, "--yes", "--json")
    assert reset.returncode == 0, reset.stderr
    new = json.loads(reset.stdout)["token"]
    with ServerProcess(Path(data_dir)) as server:
        assert run("inbox", "list", POSTROOM_URL=server.url, POSTROOM_TOKEN=old).exit_code == 4
        assert run("inbox", "list", POSTROOM_URL=server.url, POSTROOM_TOKEN=new).exit_code == 0


def test_a_reset_does_not_make_a_directory_of_a_mistyped_path(tmp_path: Path) -> None:
    result = postroom("token", "reset-admin", "--data-dir", str(tmp_path / "typo"), "--yes")
    assert result.returncode == 1
    assert str(tmp_path / "typo") in result.stderr
    assert not (tmp_path / "typo").exists()


def test_a_second_server_on_the_directory_is_refused_in_one_sentence(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "data"):
        second = postroom("serve", "--data-dir", str(tmp_path / "data"), "--bind", "127.0.0.1:0")
        reset = postroom("token", "reset-admin", "--data-dir", str(tmp_path / "data"), "--yes")
    for refused in (second, reset):
        assert refused.returncode == 1
        assert len(refused.stderr.splitlines()) == 1
        assert refused.stderr.startswith("postroom: ")
        assert refused.stdout == ""


def test_a_taken_address_is_said_in_one_sentence(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        bind = f"127.0.0.1:{taken.getsockname()[1]}"
        result = postroom("serve", "--data-dir", str(tmp_path / "data"), "--bind", bind)
    assert result.returncode == 1
    assert f"{bind} is in use by another program" in result.stderr.splitlines()[-1]
    assert "Traceback" not in result.stderr


def test_a_first_start_that_finds_its_address_taken_loses_no_admin_token(tmp_path: Path) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        host, port = other.getsockname()
        refused = postroom("serve", "--data-dir", str(tmp_path / "data"), "--bind", f"{host}:{port}")
    assert refused.returncode == 1
    with ServerProcess(tmp_path / "data") as server:
        assert run("token", "list", POSTROOM_URL=server.url, POSTROOM_TOKEN=server.token).exit_code == 0


def test_an_address_of_another_machine_is_refused_by_its_name(tmp_path: Path) -> None:
    refused = postroom("serve", "--data-dir", str(tmp_path / "data"), "--bind", "192.0.2.1:8025")
    assert refused.returncode == 1
    assert "cannot listen on 192.0.2.1:8025" in refused.stderr.splitlines()[-1]


def test_a_bad_setting_stops_the_start_before_anything_is_made(tmp_path: Path) -> None:
    result = postroom("serve", "--data-dir", str(tmp_path / "data"), POSTROOM_PAGE_BYTES="1")
    assert result.returncode == 2
    assert result.stderr.startswith("postroom: POSTROOM_PAGE_BYTES must be a size from 16 KiB")
    assert not (tmp_path / "data").exists()


def test_another_configured_admin_token_stops_the_start(tmp_path: Path) -> None:
    data_dir = str(tmp_path / "data")
    postroom("init", "--data-dir", data_dir)
    result = postroom("serve", "--data-dir", data_dir, "--bind", "127.0.0.1:0", POSTROOM_ADMIN_TOKEN="x" * 40)
    assert result.returncode == 2
    assert "POSTROOM_ADMIN_TOKEN" in result.stderr
    assert "x" * 40 not in result.stderr
    assert "Traceback" not in result.stderr


def test_json_logs_are_json_lines(tmp_path: Path) -> None:
    process = subprocess.run(
        [sys.executable, "-c", PROGRAM_THAT_LOGS],
        capture_output=True,
        text=True,
        timeout=COMMAND_SECONDS,
        check=True,
    )
    lines = [json.loads(line) for line in process.stderr.splitlines()]
    assert [line["event"] for line in lines] == ["ours", "theirs", "failed"]
    assert {line["level"] for line in lines} == {"warning", "error"}
    assert lines[0]["inbox"] == "demo"
    assert "exception" in lines[2]
    assert process.stdout == ""


PROGRAM_THAT_LOGS = """
import logging, structlog
from postroom import logs
logs.configure("json", "warning")
log = structlog.get_logger("postroom.test")
log.info("too quiet")
log.warning("ours", inbox="demo")
logging.getLogger("somebody.else").warning("theirs")
try:
    raise ValueError("x")
except ValueError:
    log.exception("failed")
"""
