"""The accept loop: `trio.serve_listeners`, which prints a traceback ten times a second while descriptors are short."""

import errno
import os
from collections.abc import Awaitable, Callable
from typing import NoReturn

import structlog
import trio

SHORTAGES = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS})
"""What accept(2) says when the process or the system has no room for one more socket. Others are bugs."""

PAUSE_SECONDS = 0.1
"""Between two tries: the socket stays readable meanwhile, so that there is nothing to wait for."""

TOLD_SECONDS = 60.0
"""A shortage is logged so often: it may last for hours, and the log needs room as well."""

log = structlog.get_logger("postroom.web")


async def accept_connections(
    listener: trio.SocketListener,
    handler: Callable[[trio.SocketStream], Awaitable[object]],
    connections: trio.Nursery,
    make_room: Callable[[], bool],
    *,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> NoReturn:
    """Start `handler` for every connection, in the nursery `connections`, for ever; each is closed when it returns.

    While there is no descriptor for another one, newcomers wait in the kernel's queue; `make_room` is called to let go
    of a connection that nobody uses, and tells whether it found one. Raises `OSError` when the listener itself fails.
    """

    async def handle(stream: trio.SocketStream) -> None:
        try:
            await handler(stream)
        finally:
            await trio.aclose_forcefully(stream)

    silent_until = -TOLD_SECONDS
    task_status.started()
    while True:
        try:
            stream = await listener.accept()
        except OSError as error:
            if error.errno not in SHORTAGES:
                raise
            ended_idle = make_room()
            now = trio.current_time()
            if now >= silent_until:
                silent_until = now + TOLD_SECONDS
                log.error(
                    "no room for another connection; newcomers wait",
                    reason=os.strerror(error.errno or 0).lower(),
                    idle_connection_ended=ended_idle,
                    advice="raise the limit of open files (ulimit -Hn, LimitNOFILE), or lower MAX_CONNECTIONS",
                )
            await trio.sleep(PAUSE_SECONDS)
        else:
            connections.start_soon(handle, stream)
