"""`docs/operations.md`: its examples print what the page says, and the commands behind it fail as they should."""

import json
from pathlib import Path

import apsw

from storage.lock import DATABASE_NAME
from tests.postroom.conftest import run
from tests.postroom.serverproc import ServerProcess
from tests.postroom.tour import OPERATIONS, as_printed, differences


def test_the_examples_print_what_the_page_says(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "data") as server:
        for command, said, real in differences(OPERATIONS, as_printed, server):
            assert said == real, command


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
