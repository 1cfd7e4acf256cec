"""Signals, turned into events by our own handler (Hypercorn returns normally on KeyboardInterrupt: trap 20).

The first SIGTERM or SIGINT asks for an orderly end; the second ends the process at once. A watchdog thread ends it,
too, when the orderly end takes longer than the deadline: nothing may hang a shutdown for ever, not even a bug in it.
SIGHUP asks for a reload.
"""

import os
import signal
import threading
from collections.abc import Callable

import structlog
import trio

EXIT_FORCED = 130
"""Exit code of a second signal."""
EXIT_DEADLINE = 70
"""Exit code when the orderly end did not come in time."""

log = structlog.get_logger("postroom")


async def watch_signals(
    stopping: trio.Event,
    deadline_seconds: Callable[[], float],
    reload: Callable[[], None],
    *,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Set `stopping` at the first SIGTERM or SIGINT; end the process at the second one, or after `deadline_seconds`,
    which is asked when the first one comes. Call `reload` at each SIGHUP until then.
    """
    with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT, signal.SIGHUP) as received:
        task_status.started()
        async for number in received:
            if number == signal.SIGHUP:
                if not stopping.is_set():
                    reload()
                continue
            if stopping.is_set():
                log.warning("ending at once", signal=signal.Signals(number).name)
                os._exit(EXIT_FORCED)
            log.info("shutting down", signal=signal.Signals(number).name)
            stopping.set()
            arm_watchdog(deadline_seconds())


def arm_watchdog(deadline_seconds: float) -> threading.Timer:
    """End the process after `deadline_seconds`, from a thread of its own, which no stuck event loop can stop."""

    def give_up() -> None:
        log.error("the orderly end took too long", seconds=deadline_seconds)
        os._exit(EXIT_DEADLINE)

    timer = threading.Timer(deadline_seconds, give_up)
    timer.daemon = True
    timer.start()
    return timer
