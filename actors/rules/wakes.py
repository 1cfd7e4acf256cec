"""When an agent is called because mail waits for it. Pure: the state of one agent's wake, and what changes it.

Mail makes a wake due, a little later, so that what comes in one go makes one call. A call that was made is *open* until
the agent comes with its token, says farewell, or does not come for long; while it is open nobody calls again. What came
meanwhile is looked at when it ends without the agent having come. A call that failed is tried again, later each time
unless new mail comes.

Times are seconds of a clock that never goes back.
"""

import msgspec

DEBOUNCE_SECONDS = 5.0
"""From the first message to the call."""

OPEN_SECONDS = 600.0
"""For how long an agent that was called is expected to come."""

RETRY_SECONDS = (30.0, 120.0)
"""From a call that failed to the next one: a program that is being restarted is back by then."""

FAILURES_ALLOWED = len(RETRY_SECONDS) + 1
"""After so many failures in a row nobody is called at this place any more."""


class Wake(msgspec.Struct, frozen=True):
    """The wake of one agent. `due_at`: when to look whether there is something to call it for, None: there is not.

    `token`: that of the call that is open, until `open_until`. `more`: mail has come since that call was made.
    """

    due_at: float | None = None
    token: str | None = None
    open_until: float = 0.0
    more: bool = False

    @property
    def next_at(self) -> float | None:
        """When there is something to do, None: only when something happens."""
        return self.due_at if self.token is None else self.open_until


QUIET = Wake()


def mail_came(wake: Wake, now: float) -> Wake:
    """Return the wake after mail has come."""
    if wake.token is not None:
        return msgspec.structs.replace(wake, more=True)
    due_at = now + DEBOUNCE_SECONDS
    if wake.due_at is not None and wake.due_at <= due_at:
        return wake
    return msgspec.structs.replace(wake, due_at=due_at)


def called(wake: Wake, token: str, now: float) -> Wake:
    """Return the wake from when a call is made. What is due is told with it."""
    return Wake(token=token, open_until=now + OPEN_SECONDS)


def failed(wake: Wake, token: str, failures: int, now: float) -> Wake:
    """Return the wake after the call with a token has failed, the last one of `failures` in a row."""
    if wake.token != token:
        return wake  # it came all the same
    wait = DEBOUNCE_SECONDS if wake.more else RETRY_SECONDS[min(failures, len(RETRY_SECONDS)) - 1]
    return Wake(due_at=now + wait)


def came(wake: Wake, token: str) -> Wake:
    """Return the wake after an agent has come with a token; one that is not open changes nothing."""
    return QUIET if token and wake.token == token else wake


def expired(wake: Wake, now: float) -> Wake:
    """Return the wake at the end of a call that the agent has not followed: at once again if mail came meanwhile."""
    if wake.token is None or now < wake.open_until:
        return wake
    return Wake(due_at=now) if wake.more else QUIET
