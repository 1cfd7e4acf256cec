"""`backup` asks a running server for a copy of its database; `restore`, `verify` and `epochs renew` work without one.

Progress goes to standard error and only to a terminal, so that output can be piped.
"""

import contextlib
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import httpx
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from postroom.cli.configured import offline_options
from postroom.cli.program import EXIT_FAILED, EXIT_USAGE, Failure, Remote, confirm, remote, yes_option
from postroom.cli.terminal import print_json, safe
from postroom.client import Client, ClientError, segment
from postroom.config import Config
from storage.lifefile import sync_directory
from storage.lock import DATABASE_NAME, FILE_MODE

if TYPE_CHECKING:
    from storage.verify import Verified

POLL_SECONDS = 0.2
"""Between two looks at a copy in the making: a bar that moves five times a second moves smoothly."""

GIVE_UP_SECONDS = 5.0
"""How long an interrupted backup may take over telling the server."""


class Bar:
    """A progress bar on standard error; nothing at all where that is no terminal."""

    def __init__(self) -> None:
        console = Console(stderr=True, markup=False, emoji=False, highlight=False)
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.percentage:>3.0f}%"),
            TimeElapsedColumn(),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        self._task: TaskID | None = None

    def __enter__(self) -> "Bar":
        self._progress.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._progress.stop()

    def phase(self, description: str, total: int | None = None) -> None:
        """Begin a phase with a bar of its own; without a total it only shows that something is happening."""
        if self._task is not None:
            self._progress.remove_task(self._task)
        self._task = self._progress.add_task(description, total=total)

    def at(self, done: int, total: int | None = None) -> None:
        """Show how far the phase is."""
        if self._task is not None:
            self._progress.update(self._task, completed=done, total=total)

    def pulse(self) -> None:
        """Show that something is happening."""
        self._progress.refresh()


@click.command()
@click.argument("dest", type=click.Path(dir_okay=False, path_type=Path))
@click.option("--force", is_flag=True, help="Replace DEST if it exists.")
@remote
def backup(remote: Remote, dest: Path, force: bool) -> None:
    """Write a backup of a running server to the file DEST. Needs an admin token.

    The server copies its database while it goes on taking messages; then the copy is fetched. DEST is readable by you
    alone, for it holds every message, secret and the hashes of the tokens, and is there whole or not at all.
    """
    if dest.exists() and not force:
        raise Failure(f"{dest} exists; choose another name, or say --force.", EXIT_USAGE)
    if not dest.absolute().parent.is_dir():
        raise Failure(f"there is no directory {dest.parent}.", EXIT_USAGE)
    began = time.monotonic()
    with remote.api() as api, Bar() as bar:
        made = api.json("POST", "/v1/backups")
        route = f"/v1/backups/{segment(str(made['id']))}"
        try:
            made = _wait_until_ready(api, route, bar)
            bar.phase("Fetching", made["size"])
            size = _fetch(api, route, dest, made["size"], bar)
        except BaseException:
            _drop(remote, route)
            raise
    if remote.as_json:
        seconds = round(time.monotonic() - began, 3)
        print_json({"file": str(dest), "bytes": size, "pages": made["total"], "seconds": seconds})
        return
    click.echo(f"Wrote {safe(dest)}, {size:,} bytes. `postroom verify {safe(dest)}` checks it.")


def _wait_until_ready(api: Client, route: str, bar: Bar) -> Any:
    bar.phase("Copying")
    while True:
        made = api.json("GET", route)
        bar.at(made["pages"], made["total"] or None)
        if made["state"] == "failed":
            raise Failure(f"the backup failed: {made['error']}", EXIT_FAILED)
        if made["state"] == "ready":
            return made
        time.sleep(POLL_SECONDS)


def _fetch(api: Client, route: str, dest: Path, size: int, bar: Bar) -> int:
    """Write the file whole and durably, or leave nothing of it."""
    partial = dest.with_name(dest.name + ".partial")
    try:
        partial.unlink(missing_ok=True)
        fd = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, FILE_MODE)
        with open(fd, "wb") as out, api.stream(route + "/file") as pieces:
            for piece in pieces:
                out.write(piece)
                bar.at(out.tell())
            out.flush()
            os.fsync(fd)
            written = out.tell()
        if written != size:
            raise Failure(f"the backup broke off after {written} of {size} bytes.", EXIT_FAILED)
        partial.replace(dest)
        sync_directory(dest.parent)
        return written
    finally:
        partial.unlink(missing_ok=True)


def _drop(remote: Remote, route: str) -> None:
    """Tell the server that nobody will fetch the copy; it finds out by itself in an hour."""
    with contextlib.suppress(ClientError, Failure, httpx.HTTPError), remote.api() as api:
        api.call("DELETE", route)


@click.command()
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@click.option("--force", is_flag=True, help="Replace the database of a data directory that is in use.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@offline_options
def restore(config: Config, file: Path, force: bool, as_json: bool) -> None:
    """Make the backup FILE the database of a data directory, while no server runs on it.

    Every inbox begins a new life: cursors from before are refused with epoch_changed, and readers start again.
    """
    from storage.restore import restore as run_restore

    with Bar() as bar:
        bar.phase("Restoring")
        done = run_restore(file, config.data_dir, force=force, progress=bar.at)
    if as_json:
        print_json(
            {
                "data_dir": str(config.data_dir),
                "inboxes": done.inboxes,
                "messages": done.messages,
                "bytes": done.bytes,
                "sealed": done.sealed,
            }
        )
        return
    click.echo(
        f"Restored {_counted(done.messages, done.inboxes)} into {safe(config.data_dir)}.\n"
        "Every inbox has a new epoch. Tokens and secrets are those of the backup: what was revoked, retired or issued\n"
        "since then must be revoked, retired or issued again."
    )
    if done.sealed:
        click.echo("The secrets are sealed: start with the POSTROOM_SECRET_KEY of when the backup was made.")


@click.command()
@click.argument("file", required=False, type=click.Path(dir_okay=False, path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@offline_options
def verify(config: Config, file: Path | None, as_json: bool) -> None:
    """Check a backup FILE, or the data directory while no server runs on it. Changes nothing.

    Looks at SQLite's own structures, at references between messages, entries and bodies, at the numbering of every
    inbox and at what is counted of it. Exit code 1 when anything is found.
    """
    from storage.verify import STEPS, verify_file

    with _held(config.data_dir) if file is None else contextlib.nullcontext(), Bar() as bar:
        bar.phase("Checking", STEPS)
        steps = iter(range(STEPS))

        def step(name: str) -> None:
            bar.at(next(steps))

        shown = config.data_dir if file is None else file
        found = verify_file(config.data_dir / DATABASE_NAME if file is None else file, step, bar.pulse)
    if as_json:
        print_json(
            {
                "checked": str(shown),
                "inboxes": found.inboxes,
                "messages": found.messages,
                "secrets": found.secrets,
                "sealed_secrets": found.sealed,
                "findings": found.findings,
            }
        )
    elif not found.findings:
        click.echo(f"{safe(shown)} is whole: {_counted(found.messages, found.inboxes)}{_kept(found)}.")
    else:
        for finding in found.findings:
            click.echo(safe(finding))
    if found.findings:
        count = len(found.findings)
        raise Failure(f"{count} {'finding' if count == 1 else 'findings'} in {shown}.", EXIT_FAILED)


def _kept(found: "Verified") -> str:
    """Return what to add about secrets, nothing where there are none."""
    if not found.secrets:
        return ""
    count = f"{found.secrets:,} {'secret' if found.secrets == 1 else 'secrets'}"
    return f", {count}, {'sealed' if found.sealed else 'not sealed'}"


def _counted(messages: int, inboxes: int) -> str:
    return (
        f"{messages:,} {'message' if messages == 1 else 'messages'} in"
        f" {inboxes:,} {'inbox' if inboxes == 1 else 'inboxes'}"
    )


@contextlib.contextmanager
def _held(directory: Path) -> Iterator[None]:
    """Hold a data directory against servers. Raises `Failure`, `StorageError`."""
    from storage.errors import DataDirectoryError
    from storage.lock import DirectoryLock

    if not (directory / DATABASE_NAME).exists():
        raise DataDirectoryError(f"There is no Postroom database in {directory}.")
    try:
        lock = DirectoryLock(directory)
    except DataDirectoryError as error:
        raise Failure(
            f"{error} Or check a backup of it: `postroom backup FILE`, `postroom verify FILE`.", EXIT_FAILED
        ) from error
    try:
        yield
    finally:
        lock.release()


@click.group()
def epochs() -> None:
    """Renew what tells cursors of one life of an inbox from those of another."""


@epochs.command()
@yes_option
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@offline_options
def renew(config: Config, yes: bool, as_json: bool) -> None:
    """Give every inbox a new epoch, so that cursors from before are refused. While no server runs.

    For a database that was put back in a way that nothing inside can tell, such as the snapshot of a whole disk.
    """
    from storage.sqlite import open_offline

    confirm(f"Give every inbox of {config.data_dir} a new epoch? Its readers will have to start again.", yes)
    with open_offline(config.storage) as store:
        inboxes = store.renew_epochs()
    if as_json:
        print_json({"data_dir": str(config.data_dir), "inboxes": inboxes})
        return
    click.echo(f"{inboxes:,} inboxes of {safe(config.data_dir)} have a new epoch.")
