"""A full disk, a real one: a small tmpfs of its own, filled to the last byte beside the server.

The file system is mounted in a namespace that nobody else sees (`unshare`), so it needs no privileges and is gone with
its keeper. Where the kernel does not allow that, these are skipped; `tests/storage/test_full_disk.py` shows
the same rules everywhere, through a VFS that fails when told.
"""

import contextlib
import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.live.api import Api
from tests.postroom.serverproc import ServerProcess, clean_environment
from tests.program import PROGRAM

MIB = 1024 * 1024
COMMAND_SECONDS = 30.0
IDLE_LOG_SECONDS = 10.0
"""For the server to fold its log in; it does so after one quiet second."""

RESUME_SECONDS = 10.0
"""For ingest to go on once there is room; the server looks once a second."""

LOOK_SECONDS = 2.0
"""Within so long a server that is full has looked whether it still is; it does so once a second."""

KEEPER = 'mount -t tmpfs -o size="$1" none "$2" && echo mounted && exec cat'
"""Mounts, says so, and keeps the namespace for as long as its standard input is open."""


class SmallDisk:
    """A tmpfs that only `command`s see under its `path`; `seen` is the way to it from here."""

    def __init__(self, mount_point: Path, size: int) -> None:
        self.path = mount_point / "data"
        self._keeper = subprocess.Popen(
            [
                "unshare",
                "--user",
                "--map-root-user",
                "--mount",
                "sh",
                "-c",
                KEEPER,
                "sh",
                str(size),
                mount_point,
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        assert self._keeper.stdout is not None
        self.mounted = self._keeper.stdout.readline() == b"mounted\n"
        self.seen = Path(f"/proc/{self._keeper.pid}/root{self.path}")
        self._filler = self.seen.parent / "filler"

    def inside(self, command: list[str]) -> list[str]:
        """Return what runs a command where the disk is mounted, in the same process."""
        target = str(self._keeper.pid)
        return ["nsenter", "--target", target, "--user", "--mount", "--preserve-credentials", *command]

    def free(self) -> int:
        """Return the free bytes."""
        stat = os.statvfs(self.seen.parent)
        return stat.f_bavail * stat.f_frsize

    def fill(self, leave: int = 0) -> None:
        """Have somebody else's file take what is free, but for so many bytes."""
        with self._filler.open("ab") as file:
            file.seek(0, os.SEEK_END)
            with contextlib.suppress(OSError):
                while (more := self.free() - leave) > 0:
                    os.write(file.fileno(), bytes(min(more, MIB)))

    def tidy(self) -> None:
        """Delete somebody else's file."""
        self._filler.unlink()

    def close(self) -> None:
        """End the namespace, and the disk with it."""
        assert self._keeper.stdin is not None
        assert self._keeper.stdout is not None
        self._keeper.stdin.close()
        self._keeper.wait(COMMAND_SECONDS)
        self._keeper.stdout.close()


class Server(ServerProcess):
    """A server on a small disk."""

    def __init__(self, disk: SmallDisk, *flags: str, **settings: str) -> None:
        super().__init__(disk.path, *flags, **settings)
        self._command = disk.inside(self._command)

    def kill(self) -> None:
        """`kill -9`."""
        self._process.kill()
        self._process.wait(COMMAND_SECONDS)


def postroom(disk: SmallDisk, *words: str) -> subprocess.CompletedProcess[str]:
    """Run a command that opens the data directory."""
    return subprocess.run(
        disk.inside([*PROGRAM, *words, "--data-dir", str(disk.path)]),
        env=clean_environment(),
        capture_output=True,
        text=True,
        timeout=COMMAND_SECONDS,
        stdin=subprocess.DEVNULL,
    )


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    """Return a disk of 100 MiB."""
    disk = SmallDisk(tmp_path, 100 * MIB)
    try:
        if not disk.mounted:
            pytest.skip("this kernel lets nobody mount a tmpfs of their own")
        yield disk
    finally:
        disk.close()


def ready(api: Api) -> str:
    """Return what `/readyz` says of the store."""
    return str(httpx.get(f"{api.url}/readyz").json()["store"])


def until_log_is_folded_in(disk: SmallDisk, api: Api) -> None:
    """Return when the write-ahead log takes no room: the next write needs some."""
    bound = time.monotonic() + IDLE_LOG_SECONDS
    while (disk.seen / "postroom.db-wal").stat().st_size:
        assert time.monotonic() < bound
        api.get("/me")


def stored_until_it_stays_full(disk: SmallDisk, api: Api, slug: str) -> int:
    """Send until senders are refused also when the log takes no room any more, and return how many were not."""
    stored = 0
    while True:
        while (answer := api.post(slug, bytes(50_000))).status_code == 200:
            stored += 1
        assert (answer.status_code, answer.json()["error"]["code"]) == (507, "insufficient_storage")
        until_log_is_folded_in(disk, api)
        bound = time.monotonic() + LOOK_SECONDS
        while ready(api) == "full":
            if time.monotonic() > bound:
                return stored


@pytest.mark.parametrize("end", ["in order", "by kill -9"])
def test_a_server_starts_on_a_full_disk_and_deleting_leads_out(disk: SmallDisk, end: str) -> None:
    with Server(disk) as first, Api(first.url, first.token) as api:
        for _ in range(300):
            api.send("demo", bytes(50_000))
        if end == "by kill -9":
            first.kill()
    assert first.exit_code == (0 if end == "in order" else -9)
    disk.fill()
    assert disk.free() == 0
    with Server(disk) as again, Api(again.url, first.token) as api:
        assert ready(api) == "full"
        assert api.messages("demo")["latest_seq"] == 300
        assert api.post("demo").status_code == 507
        api.ok("POST", "/inboxes/demo:purge")
        disk.tidy()
        assert api.send("demo") == 301
        assert ready(api) == "open"
    assert again.exit_code == 0
    assert (disk.seen / "postroom.reserve").stat().st_size == 32 * MIB, "it is made again"


def test_commands_that_work_without_a_server_work_on_a_full_disk(disk: SmallDisk) -> None:
    with Server(disk):
        pass
    for words in (["token", "reset-admin", "--yes"], ["epochs", "renew", "--yes"], ["verify"], ["init"]):
        disk.fill()
        assert disk.free() == 0
        done = postroom(disk, *words)
        assert done.returncode == 0, done.stderr


def test_without_any_room_and_without_a_reserve_the_start_says_so_in_one_sentence(disk: SmallDisk) -> None:
    with Server(disk):
        pass
    (disk.seen / "postroom.reserve").unlink()
    disk.fill()
    for words in (["serve", "--bind", "127.0.0.1:0"], ["token", "reset-admin", "--yes"]):
        refused = postroom(disk, *words)
        assert refused.returncode == 1
        (sentence,) = refused.stderr.splitlines()
        assert sentence.startswith(
            f"postroom: The database in {disk.path} cannot be opened, because the disk is full"
        )


@pytest.mark.parametrize("end", ["in order", "by kill -9"])
def test_a_restart_does_not_turn_a_server_full_that_has_room(disk: SmallDisk, end: str) -> None:
    with Server(disk) as first, Api(first.url, first.token) as api:
        disk.fill(leave=27 * MIB)
        api.send("demo")
        if end == "by kill -9":
            first.kill()
    with Server(disk) as again, Api(again.url, first.token) as api:
        assert ready(api) == "open"
        assert api.send("demo") == 2


def test_what_does_not_grow_succeeds_on_a_full_disk_at_the_first_try(disk: SmallDisk) -> None:
    with Server(disk) as server, Api(server.url, server.token) as api:
        slugs = [api.inbox() for _ in range(2)]
        for slug in slugs:
            api.send(slug, bytes(50_000))
        listed = api.ok("POST", "/tokens", {"kind": "agent", "inboxes": "all"}, status=201)
        attempts: list[tuple[str, str, object, int]] = [
            ("POST", f"/inboxes/{slugs[0]}:purge", None, 200),
            ("PATCH", f"/inboxes/{slugs[0]}", {"name": "new"}, 200),
            ("DELETE", f"/tokens/{listed['token_id']}", None, 204),
            ("DELETE", f"/inboxes/{slugs[1]}/messages/1", None, 204),
            ("DELETE", f"/inboxes/{slugs[1]}", None, 204),
        ]
        for method, path, body, status in attempts:
            until_log_is_folded_in(disk, api)
            disk.fill()
            assert disk.free() == 0, path
            answer = api.call(method, path, body)
            assert answer.status_code == status, f"{method} {path}: {answer.text}"
        assert ready(api) == "full"
        disk.tidy()
        api.send(slugs[0])
    assert server.exit_code == 0


def test_what_retention_frees_lets_ingest_resume_without_a_restart(disk: SmallDisk) -> None:
    with Server(disk) as server, Api(server.url, server.token) as api:
        disk.fill(leave=12 * MIB)
        slug = api.inbox()
        stored = stored_until_it_stays_full(disk, api, slug)
        assert (stored > 20, ready(api), api.messages(slug)["latest_seq"]) == (True, "full", stored)
        api.ok("PATCH", f"/inboxes/{slug}", {"retention": {"max_messages": 10}})
        bound = time.monotonic() + RESUME_SECONDS
        while ready(api) != "open":
            assert time.monotonic() < bound
        assert [api.send(slug, bytes(50_000)) for _ in range(20)] == list(range(stored + 1, stored + 21))
        oldest = api.messages(slug, after=0)["messages"][0]["seq"]
        assert oldest == stored + 11
    assert server.exit_code == 0
