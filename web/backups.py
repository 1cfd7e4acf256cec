"""Backups over REST, for admin tokens: start one, watch it, fetch the file once, or drop it.

The file goes out through the plain adapter at the reader's pace. With its last piece the copy in the data
directory is deleted; a download that breaks off before may be tried again.
"""

from collections.abc import AsyncGenerator
from functools import partial

import msgspec
import trio

from actors.backups import Backup, Backups, BackupUnderWay
from web.admin import NO_CONTENT, NoParameters, require_admin
from web.errors import ApiError
from web.grammar import format_time
from web.http import Answer, Request, StreamedAnswer
from web.openapi.about import About, Media
from web.params import from_json
from web.routes import Route

PIECE_BYTES = 1024 * 1024
"""Read from the file at a time: one hop to a thread for so much of a download."""

SQLITE_TYPE = b"application/vnd.sqlite3"

FILE = Media(SQLITE_TYPE.decode(), "The database, as one file.")


class BackupView(msgspec.Struct, frozen=True):
    """A backup as administrators see it. `total` is 0 until the first pages are copied, `size` null until the end."""

    id: str
    state: str
    pages: int
    total: int
    size: int | None
    error: str | None
    created_at: str


def backup_view(backup: Backup) -> BackupView:
    """Return what a client is told about a backup."""
    return BackupView(
        backup.id,
        backup.state,
        backup.pages,
        backup.total,
        backup.size,
        None if backup.error is None else str(backup.error),
        format_time(backup.created_at),
    )


class BackupRoutes:
    """The routes over the backups of one server."""

    def __init__(self, backups: Backups) -> None:
        self._backups = backups

    def routes(self) -> tuple[Route, ...]:
        """Return the table of routes, for the plain adapter: a file is streamed."""
        backup = "/v1/backups/{backup_id}"
        about = partial(About, "Administration", "admin")
        return (
            Route(
                "POST",
                "/v1/backups",
                self.create,
                about(NoParameters, BackupView, 202, "conflict", "begin_backup"),
            ),
            Route("GET", backup, self.show, about(None, BackupView, name="show_backup")),
            Route("DELETE", backup, self.drop, about(None, None, 204, name="drop_backup")),
            Route("GET", backup + "/file", self.fetch, about(None, FILE, 200, "conflict", "fetch_backup")),
        )

    async def create(self, request: Request) -> Answer:
        """`POST /v1/backups`: begin a backup. One is made at a time; another is a `conflict`."""
        require_admin(request)
        from_json(NoParameters, await request.read_body())
        try:
            backup = self._backups.start()
        except BackupUnderWay:
            raise ApiError("conflict", "Another backup is being made or fetched; wait for it.") from None
        return Answer(202, msgspec.json.encode(backup_view(backup)))

    async def show(self, request: Request) -> Answer:
        """`GET /v1/backups/{backup_id}`: tell its state (`copying`, `ready`, `failed`) and how far it has come."""
        return Answer(200, msgspec.json.encode(backup_view(self._backup(request))))

    async def drop(self, request: Request) -> Answer:
        """`DELETE /v1/backups/{backup_id}`: drop a backup. One that is being made is cancelled."""
        await self._backups.drop(self._backup(request))
        return NO_CONTENT

    async def fetch(self, request: Request) -> Answer | StreamedAnswer:
        """`GET /v1/backups/{backup_id}/file`: fetch the database, as one file. While it is not ready: `conflict`."""
        backup = self._backup(request)
        size = backup.size
        if backup.state != "ready" or size is None:
            raise ApiError("conflict", f"This backup is not ready, but {backup.state}.")
        if request.method == "HEAD":  # what is streamed for it would count as fetched
            return Answer(200, b"", SQLITE_TYPE)

        @trio.as_safe_channel
        async def pieces() -> AsyncGenerator[bytes, None]:
            sent = 0
            backup.readers += 1
            try:
                async with await trio.open_file(backup.file, "rb") as file:
                    while sent + len(piece := await file.read(PIECE_BYTES)) < size:
                        if not piece:
                            raise EOFError("a backup is shorter than it was")
                        yield piece
                        sent += len(piece)
            finally:
                backup.readers -= 1
            # Before the last piece: who has the last byte finds the backup gone, and can begin another.
            await self._backups.drop(backup)
            yield piece

        disposition = f'attachment; filename="postroom-{backup.id}.db"'.encode()
        return StreamedAnswer(200, pieces, SQLITE_TYPE, size, ((b"content-disposition", disposition),))

    def _backup(self, request: Request) -> Backup:
        require_admin(request)
        backup = self._backups.get(request.params["backup_id"])
        if backup is None:
            raise ApiError("not_found", "There is no such backup: it was fetched, deleted or replaced.")
        return backup
