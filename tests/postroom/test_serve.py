"""The life of a server as its operator sees it: first start, next starts, a lost token, a second server."""

import json
import socket
import subprocess
import sys
from pathlib import Path

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
