"""The files of the data directory: for their owner alone, and never somebody else's files through a link."""

import logging
import os
from pathlib import Path

import pytest
from click.testing import CliRunner

from postroom.cli.commands import program
from storage.errors import DataDirectoryError
from storage.lifefile import LIFE_NAME, Life, LifeFile, Place
from storage.lock import DATABASE_NAME, LOCK_NAME, prepare_directory
from storage.options import StorageOptions
from storage.space import RESERVE_NAME
from storage.sqlite import open_offline
from tests.live.api import Api
from tests.live.harness import Server

THEIRS = b"a file of somebody else's, of which nothing may be lost"


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


def opened(directory: Path) -> None:
    with open_offline(StorageOptions(data_dir=directory), create=True):
        pass


def test_every_file_of_a_busy_server_is_its_owners_alone_whatever_the_umask(tmp_path: Path) -> None:
    umask = os.umask(0)
    try:
        with Server(tmp_path / "data") as server, Api(server.url, server.token) as api:
            slug = api.inbox()
            api.send(slug, bytes(1024 * 1024))  # which waits for its verdict in a file
            backup = api.ok("POST", "/backups", {}, status=202)["id"]
            while api.get(f"/backups/{backup}")["state"] == "copying":
                pass
            modes = {path.name: mode(path) for path in server.data_dir.iterdir()}
            held = {
                link.resolve().name
                for link in Path(f"/proc/{server.pid}/fd").iterdir()
                if str(server.data_dir) in os.readlink(link)
            }
    finally:
        os.umask(umask)
    assert mode(tmp_path / "data") == 0o700
    assert set(modes.values()) == {0o600}
    assert {DATABASE_NAME, f"{DATABASE_NAME}-wal", LIFE_NAME, LOCK_NAME, RESERVE_NAME} <= modes.keys()
    assert any(name.startswith("postroom.backup-") for name in modes)
    assert {name for name in held if "(deleted)" not in name} <= modes.keys()


@pytest.mark.parametrize(
    "name",
    [LOCK_NAME, RESERVE_NAME, LIFE_NAME, f"{LIFE_NAME}.new"],
    ids=["lock", "reserve", "life", "new life"],
)
def test_nothing_is_written_through_a_link_that_was_put_into_the_directory(tmp_path: Path, name: str) -> None:
    theirs = tmp_path / "theirs"
    theirs.write_bytes(THEIRS)
    directory = tmp_path / "data"
    opened(directory)
    (directory / name).unlink(missing_ok=True)
    (directory / name).symlink_to(theirs)
    try:
        opened(directory)
    except (DataDirectoryError, OSError) as refused:
        assert "symbolic links" in str(refused)  # noqa: PT017 - a start that works is right as well
    assert theirs.read_bytes() == THEIRS


def test_a_note_of_a_running_server_replaces_a_link_too(tmp_path: Path) -> None:
    theirs = tmp_path / "theirs"
    theirs.write_bytes(THEIRS)
    (tmp_path / LIFE_NAME).symlink_to(theirs)
    note = Life("ab" * 16, 7, Place(1, 2, 3))
    file = LifeFile(tmp_path / LIFE_NAME)
    assert file.note(note)
    assert theirs.read_bytes() == THEIRS
    assert file.read() == note
    assert not (tmp_path / LIFE_NAME).is_symlink()


def test_a_directory_that_others_can_write_to_is_warned_of(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "somebody's").touch()
    tmp_path.chmod(0o777)
    with caplog.at_level(logging.WARNING):
        prepare_directory(tmp_path, create=True)
    assert "others can write to the data directory" in caplog.text
    caplog.clear()
    tmp_path.chmod(0o755)
    with caplog.at_level(logging.WARNING):
        prepare_directory(tmp_path, create=True)
    assert caplog.text == ""


def test_a_directory_with_other_files_keeps_its_permissions_at_every_start(tmp_path: Path) -> None:
    """`/tmp` for instance, which nobody else could use any more."""
    (tmp_path / "somebody's").touch()
    tmp_path.chmod(0o755)
    opened(tmp_path)
    opened(tmp_path)
    assert mode(tmp_path) == 0o755


@pytest.mark.parametrize(
    "command", [("backup", "--force"), ("raw", "{slug}", "1", "--output")], ids=["backup", "raw"]
)
@pytest.mark.parametrize("end", ["", ".partial"])
def test_a_file_that_is_fetched_replaces_a_link_and_not_what_it_leads_to(
    server: Server, api: Api, tmp_path: Path, command: tuple[str, ...], end: str
) -> None:
    slug = api.inbox()
    api.send(slug, b"the body")
    theirs = tmp_path / "theirs"
    theirs.write_bytes(THEIRS)
    file = tmp_path / "fetched"
    file.with_name(file.name + end).symlink_to(theirs)
    environment = {"POSTROOM_URL": server.url, "POSTROOM_TOKEN": server.token}
    words = [*(word.format(slug=slug) for word in command), str(file)]
    done = CliRunner().invoke(program, words, env=environment)
    assert done.exit_code == 0, done.output
    assert theirs.read_bytes() == THEIRS
    assert not file.is_symlink()
    assert file.stat().st_size > 0
    if command[0] == "backup":
        assert mode(file) == 0o600
