"""Wrong tokens, by the address that they came from: how many are answered, and what is said of them in the log.

Owns the counts, in memory only. A token cannot be guessed (`actors/tokens.py`), so this is no lock on a door: it tells
a client that keeps coming with a revoked token to slow down, and keeps its noise out of the log. A valid token is never
refused here, whoever else shares its address: nobody can lock a colleague out by sending nonsense.
"""

from collections.abc import Callable

import structlog
import trio

from web.addresses import shared_by
from web.errors import ApiError, unauthenticated
from web.rates import MAX_BUCKETS, SECONDS_PER_MINUTE, Rates

MAX_LINES_PER_MINUTE = 60
"""Lines in the log about wrong tokens, from however many addresses. It bounds also what is remembered for them."""

STORM = 10
"""Times its limit: so often in a minute an address is refused as `rate_limited` at once; beyond that it is a storm."""

KEPT_BACK_SECONDS = 0.5
"""How long the refusals of a storm wait: so a connection costs two requests a second. When each was refused at once,
eight connections took the server's whole core, and everybody else waited four to five times as long as usual.
"""

UNKNOWN = "unknown"
"""What peers without an address are counted as, all together."""

log = structlog.get_logger("postroom.web")


class KeptBack(ApiError):
    """A refusal that is not to be sent at once; see `keep_back`."""


async def keep_back(refusal: ApiError) -> None:
    """Wait before a refusal is sent, if it is one that is kept back."""
    if isinstance(refusal, KeptBack):
        await trio.sleep(KEPT_BACK_SECONDS)


class WrongTokens:
    """Counts wrong tokens and decides what their senders are told."""

    def __init__(
        self, clock: Callable[[], float] = trio.current_time, max_addresses: int = MAX_BUCKETS
    ) -> None:
        """`clock` gives seconds, never going backwards. Of more addresses the one seen longest ago is forgotten."""
        self._clock = clock
        self._rates: Rates[str] = Rates(clock, max_addresses)
        self._storms: Rates[str] = Rates(clock, max_addresses)
        self._told: dict[str, float] = {}  # counted address → when a line told of it, the oldest first
        self._untold = 0  # wrong tokens from anywhere since the last line
        self.counted = 0  # since the start

    def refusal(self, address: str | None, per_minute: int) -> ApiError:
        """Count one wrong token and return the refusal: `unauthenticated`, or `rate_limited` when the address has sent
        `per_minute` lately, which is `KeptBack` in a storm. 0: there is no limit.
        """
        counted = UNKNOWN if address is None else shared_by(address)
        wait = self._rates.take(counted, per_minute) if per_minute else None
        self._tell(counted)
        if wait is None:
            return unauthenticated(sent=True)
        is_storm = self._storms.take(counted, STORM * per_minute) is not None
        kind = KeptBack if is_storm else ApiError
        return kind("rate_limited", "Too many wrong tokens came from this address.", retry_after=wait)

    def _tell(self, counted: str) -> None:
        """Log it, at most once a minute for each address. Never the token, which may be a slip of the pen away from a
        valid one.
        """
        now = self._clock()
        self.counted += 1
        self._untold += 1
        for known, told_at in list(self._told.items()):
            if now - told_at < SECONDS_PER_MINUTE:
                break
            del self._told[known]
        if counted in self._told or len(self._told) >= MAX_LINES_PER_MINUTE:
            return
        self._told[counted] = now
        log.warning("a wrong token was refused", address=counted, since_last_line=self._untold)
        self._untold = 0
