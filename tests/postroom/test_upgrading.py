"""What `docs/install.md` says of upgrading and of going back, with databases of an older and of a newer Postroom."""

import json
from pathlib import Path

import apsw

from storage.lock import DATABASE_NAME
from tests.postroom.conftest import run
from tests.postroom.serverproc import ServerProcess
from tests.postroom.tour import INSTALL, as_printed, differences
from tests.storage.older import go_back


def client(server: ServerProcess, token: str, *words: str) -> str:
    result = run(*words, POSTROOM_URL=server.url, POSTROOM_TOKEN=token)
    assert result.exit_code == 0, result.stderr
    return result.stdout


def page(server: ServerProcess, token: str) -> tuple[str, int]:
    """Return epoch and newest number of the inbox `demo`, as a reader who has read nothing gets them."""
    document = json.loads(client(server, token, "messages", "demo", "--after", "0", "--json"))
    return document["epoch"], document["next_after"]


def started(data: Path) -> tuple[str, tuple[str, int]]:
    """Make a data directory with one message; return the admin token and what a reader has of it."""
    with ServerProcess(data) as server:
        client(server, server.token, "send", "demo", "--data", "kept")
        return server.token, page(server, server.token)


def rows(data: Path) -> list[object]:
    """Return what a refused start must leave as it is."""
    with apsw.Connection(str(data / DATABASE_NAME), flags=apsw.SQLITE_OPEN_READONLY) as database:
        tables = ("schema_step", "message", "entry", "inbox_head")
        return [database.execute(f"SELECT * FROM {table}").fetchall() for table in tables]  # noqa: S608 - names of ours


def test_the_examples_print_what_the_page_says(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "data") as server:
        for command, said, real in differences(INSTALL, as_printed, server):
            assert said == real, command


def test_the_first_start_brings_an_older_database_up_and_readers_notice_nothing(tmp_path: Path) -> None:
    token, seen = started(tmp_path / "data")
    with_steps = apsw.Connection(str(tmp_path / "data" / DATABASE_NAME))
    go_back(with_steps, 5)
    with_steps.close()
    with ServerProcess(tmp_path / "data") as server:
        assert page(server, token) == seen
        client(server, token, "inbox", "set", "demo", "--search")
    assert run("verify", "--data-dir", str(tmp_path / "data")).exit_code == 0


def test_a_newer_database_is_refused_untouched_and_the_backup_is_the_way_back(tmp_path: Path) -> None:
    data, backup, back = tmp_path / "data", tmp_path / "before.db", tmp_path / "went-back"
    token, seen = started(data)
    with ServerProcess(data) as server:
        client(server, token, "backup", str(backup))
        client(server, token, "send", "demo", "--data", "since")
    database = apsw.Connection(str(data / DATABASE_NAME))
    database.execute("INSERT INTO schema_step SELECT max(n) + 1, 'later', 0 FROM schema_step").fetchall()
    database.close()
    before = rows(data)
    refused = run("serve", "--data-dir", str(data), "--bind", "127.0.0.1:0")
    assert refused.exit_code == 1
    assert "was written by a newer Postroom" in refused.stderr
    assert rows(data) == before
    assert run("restore", str(backup), "--data-dir", str(back)).exit_code == 0
    with ServerProcess(back) as server:
        epoch, latest = page(server, token)
        assert (epoch != seen[0], latest) == (True, seen[1])
