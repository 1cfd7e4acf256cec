"""`docs/operations.md`: its examples print what the page says, and the commands behind it fail as they should."""

import json
import re
import subprocess
import sys
from pathlib import Path

import apsw

from storage.lock import DATABASE_NAME
from tests.postroom.conftest import run
from tests.postroom.serverproc import ServerProcess, clean_environment
from tests.postroom.tour import OPERATIONS, SYSTEM_PATH, as_printed, differences

COMMAND_SECONDS = 30


def test_the_examples_print_what_the_page_says(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "data") as server:
        for command, said, real in differences(OPERATIONS, as_printed, server):
            assert said == real, command


class Typed(ServerProcess):
    """A server as a line of a shell starts it."""

    def __init__(self, line: str, directory: Path, environment: dict[str, str]) -> None:
        super().__init__(directory)
        self._command = ["bash", "-c", line]
        self._directory = directory
        self._environment = environment


def test_the_commands_around_a_stopped_server_do_what_the_page_says(tmp_path: Path) -> None:
    """In the order of the page, on one data directory; a server that is started is ready, and then stopped."""
    environment = clean_environment(
        PATH=f"{Path(sys.executable).parent}:{SYSTEM_PATH}", POSTROOM_BIND="127.0.0.1:0"
    )
    began = 0
    for block in re.findall(r"<!-- stopped -->\n```sh\n(.*?)```", OPERATIONS.read_text(), re.S):
        for line in block.replace("/new/place", str(tmp_path / "place")).splitlines():
            if " serve" in line:
                began += 1
                with Typed(line, tmp_path, environment) as server:
                    assert not any("new epoch" in said for said in server.said)
                assert server.exit_code == 0, line
                continue
            done = subprocess.run(
                ["bash", "-c", line],
                cwd=tmp_path,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=COMMAND_SECONDS,
            )
            assert done.returncode == 0, (line, done.stdout)
    assert began == 2
    for key in ("secret-key", "new-key"):
        assert (tmp_path / key).stat().st_mode & 0o077 == 0
    assert run("verify", "--data-dir", str(tmp_path / "place")).exit_code == 0


def test_verify_prints_each_finding_and_fails(tmp_path: Path) -> None:
    assert run("init", "--data-dir", str(tmp_path)).exit_code == 0
    assert run("verify", "--data-dir", str(tmp_path)).exit_code == 0
    database = tmp_path / DATABASE_NAME
    db = apsw.Connection(str(database))
    db.execute("UPDATE inbox_head SET dropped_rows = 7").fetchall()
    db.close()
    result = run("verify", str(database), "--json")
    assert result.exit_code == 1
    document = json.loads(result.stdout)
    assert document["checked"] == str(database)
    assert document["findings"] == ["inbox demo: it has numbered 0 messages, keeps 0 and has dropped 7"]
    assert "1 finding in" in result.stderr


def test_commands_on_nothing_make_nothing(tmp_path: Path) -> None:
    nowhere = tmp_path / "typo"
    for words in (
        ("verify", "--data-dir", str(nowhere)),
        ("verify", str(nowhere)),
        ("epochs", "renew", "--yes", "--data-dir", str(nowhere)),
        ("restore", str(nowhere), "--data-dir", str(tmp_path / "data")),
    ):
        result = run(*words)
        assert result.exit_code == 1, words
        assert len(result.stderr.splitlines()) == 1
    assert list(tmp_path.iterdir()) == []


def test_epochs_are_renewed_only_on_a_yes(tmp_path: Path) -> None:
    run("init", "--data-dir", str(tmp_path))
    assert run("epochs", "renew", "--data-dir", str(tmp_path)).exit_code == 2
    result = run("epochs", "renew", "--data-dir", str(tmp_path), "--yes", "--json")
    assert json.loads(result.stdout) == {"data_dir": str(tmp_path), "inboxes": 1}
