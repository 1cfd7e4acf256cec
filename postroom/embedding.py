"""The server inside another trio program: `async with postroom.open(config) as server`.

It is the same server as `postroom serve`, without what belongs to a process: it handles no signal, tunes no
interpreter, reads no environment, configures no logging, and never ends the process. Its tasks are children of the
block. When one of them fails, the block is cancelled and `ServerFailed` is raised at its end; when the block is left,
however that comes about, the server ends in order: waits and streams are ended, what was begun is finished, the data
directory is let go of.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import structlog
import trio

from postroom.config import Config, ConfigError, load
from postroom.handle import Appended, Server
from postroom.logs import add_request_id
from postroom.ports import no_ports, open_ports
from postroom.server import Started, run
from postroom.tracebacks import as_text
from storage.errors import DataDirectoryError
from web.errors import ApiError
from web.serve import STOP_GRACE_SECONDS, CannotListen

__all__ = [
    "ApiError",
    "Appended",
    "CannotListen",
    "ConfigError",
    "DataDirectoryError",
    "Server",
    "ServerFailed",
    "configure",
    "open",
]


PREVENTED = (DataDirectoryError, ConfigError, CannotListen)
"""What a start is refused with. Anything else is a failure."""


class ServerFailed(Exception):
    """The server inside a block has failed; `__cause__` is what it failed of. What it had answered is stored.

    What the block itself has raised meanwhile is its `__context__`.
    """


def configure(file: Path | None = None, **settings: Any) -> Config:
    """Return a configuration: the settings of `docs/settings.md` in lower case, over those of a TOML file, if one is
    named.

    The environment is not read: it is that of another program. Raises `ConfigError`.
    """
    return load(file=file, settings=settings)


@asynccontextmanager
async def open(config: Config, *, http: bool = True, same_life: bool = False) -> AsyncIterator[Server]:
    """Run a server for as long as the block takes, and give the handle to it.

    Without `http` it opens no port, and nobody but this program reaches it. `same_life` accepts a data directory that
    was moved (`postroom serve --same-life`). Raises `DataDirectoryError`, `ConfigError` and `CannotListen` before the
    block, and `ServerFailed` there or at its end; what the block itself raises comes through as it is.
    """
    _log_through_logging()
    life = _Life(config, http, same_life)
    failure: BaseException | None = None
    async with trio.open_nursery() as nursery:
        nursery.start_soon(life.run)
        try:
            server = await life.start()
            with life.block:
                yield server
        except (
            BaseException
        ) as error:  # raised again below, outside the nursery, which would make a group of it
            failure = error
        await life.end()
    try:
        if life.failure is not None:
            raise life.failure
        if failure is not None:
            raise failure
    finally:
        del failure  # a frame that holds its own exception is a cycle


class _Life:
    """One run of the server: its task, and how both sides end each other.

    The task is shielded, so that it ends in order when the block is cancelled from outside; it never raises into the
    block's nursery, but cancels the block. `failure` is what is raised in the block's place, once the task has ended.
    """

    def __init__(self, config: Config, http: bool, same_life: bool) -> None:
        self.block = trio.CancelScope()
        self.failure: BaseException | None = None
        self._config = config
        self._ports = open_ports if http else no_ports
        self._same_life = same_life
        self._server: Server | None = None
        self._decided = trio.Event()
        self._stopping = trio.Event()
        self._ended = trio.Event()
        self._shield = trio.CancelScope(shield=True)

    async def run(self) -> None:
        """Run the server to its end."""

        def ready(started: Started) -> None:
            self._server = Server(started, self._stopping)
            self._decided.set()

        try:
            with self._shield:
                await run(
                    self._config,
                    self._stopping,
                    ready,
                    same_life=self._same_life,
                    ports=self._ports,
                    inside=self._until_quiet,
                )
        except BaseException as error:  # all of it: `open` raises it
            self.failure = error
            wish = _wish_to_end(error)
            if wish is not None:
                self.failure = wish
            elif self._server is not None or not isinstance(error, PREVENTED):
                self.failure = ServerFailed("The server has failed.")
                self.failure.__cause__ = error
        finally:
            self._decided.set()
            self._ended.set()
            if self._server is not None:
                self._server.cut_off()
            self.block.cancel()

    async def start(self) -> Server:
        """Return the handle once the server runs. Raises what it could not start of."""
        await self._decided.wait()
        if self._server is None:
            self.failure, failure = None, self.failure
            raise failure or ServerFailed("The server has ended before it had started.")
        return self._server

    async def _until_quiet(self) -> None:
        """Return when no call is under way any more: calls have as long to come to their end as connections have."""
        await self._stopping.wait()
        if self._server is not None:
            with trio.move_on_after(STOP_GRACE_SECONDS):
                await self._server.until_quiet()

    async def end(self) -> None:
        """End the server in order. What takes longer than SHUTDOWN_SECONDS is cancelled, and so is a start."""
        self._stopping.set()
        with trio.CancelScope(shield=True):
            with trio.move_on_after(0 if self._server is None else self._config.shutdown_seconds):
                await self._ended.wait()
            self._shield.cancel()
            await self._ended.wait()


def _wish_to_end(error: BaseException) -> BaseException | None:
    """Return the KeyboardInterrupt or SystemExit in an exception. Python raises the former wherever Ctrl-C finds it, in
    a task of the server as well as in one of the program, and the program must be able to tell it from a failure.
    """
    if isinstance(error, BaseExceptionGroup):
        return next((wish for wish in map(_wish_to_end, error.exceptions) if wish is not None), None)
    return error if isinstance(error, KeyboardInterrupt | SystemExit) else None


def _log_through_logging() -> None:
    """Let what the server has to say go to the standard library's loggers `postroom…`.

    Unless the program uses structlog and has said where to: its own default is standard output, which is not ours.
    """
    if structlog.is_configured():
        return
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.stdlib.filter_by_level,
            add_request_id,
            structlog.processors.ExceptionRenderer(as_text),
            structlog.dev.ConsoleRenderer(colors=False, pad_event_to=0),
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=False,
    )
