"""Sending wake-ups: what the engine in `actors.waking` is given to check a target with, and to call it.

Whatever the other end does comes out as "not reached", with one line in the log that has neither the URL, which may
hold a credential, nor anything that was sent. How many calls are under way at once is the engine's to bound.
"""

import ssl
from collections.abc import Callable

import structlog
import trio

from actors.commands import Refusal
from actors.waking import WakeCall
from storage.clock import wall_clock_us
from web.options import WebOptions
from web.waking.addresses import AllowedNetworks, BadTarget, target_of
from web.waking.message import message_of
from web.waking.request import post_once
from web.waking.resolving import Resolve, SystemResolver, WakeFailed, allowed_addresses

log = structlog.get_logger("postroom")

WAKE_SECONDS = 5.0
"""For resolving, connecting, TLS, sending, and the head of the answer together."""


class WakeSender:
    """Checks targets and calls them. `resolve` and `tls` (makes the context, once) are for tests."""

    def __init__(
        self,
        options: WebOptions,
        *,
        clock_us: Callable[[], int] = wall_clock_us,
        resolve: Resolve | None = None,
        tls: Callable[[], ssl.SSLContext] = ssl.create_default_context,
    ) -> None:
        """`options` is the object that everybody shares: its networks are read at each call, so a reload counts."""
        self._options = options
        self._clock_us = clock_us
        self._resolve = SystemResolver() if resolve is None else resolve
        self._make_tls = tls
        self._tls: ssl.SSLContext | None = None

    def check_url(self, url: str) -> None:
        """Accept or refuse the URL of a target. Raises `Refusal` (field `wake.url`).

        A name is not resolved here: what it means is checked before each call, when it counts.
        """
        allowed = self._allowed()
        if not allowed:
            raise _refusal("There are no wake-ups on this server: WAKE_ALLOWED_CIDRS is not set.")
        try:
            target = target_of(url)
        except BadTarget as error:
            raise _refusal(str(error)) from None
        if target.address is not None and not allowed.allows(target.address):
            raise _refusal("This address is in none of the networks that wake-ups may reach.")

    async def post(self, call: WakeCall) -> bool:
        """Call a target; return whether it answered with a status of 200 to 299 in time.

        Raises nothing for what the target, its name or the network does.
        """
        try:
            with trio.fail_after(WAKE_SECONDS):
                status = await self._post(call)
        except trio.TooSlowError:
            reason = f"it took longer than {WAKE_SECONDS:g} s"
        except WakeFailed as error:
            reason = str(error)
        except BadTarget:
            reason = "its URL cannot be called"
        else:
            if 200 <= status < 300:
                return True
            reason = f"it answered {status}"
        log.warning("a wake-up failed", agent_id=call.agent_id, reason=reason)
        return False

    async def _post(self, call: WakeCall) -> int:
        target = target_of(call.url)
        addresses = await allowed_addresses(target, self._allowed(), self._resolve)
        body, headers = message_of(call, self._clock_us())
        return await post_once(
            target, addresses, headers, body, await self._context() if target.is_tls else None
        )

    async def _context(self) -> ssl.SSLContext:
        if self._tls is None:  # reads the authorities that the system trusts, 20 ms of work and of disk
            self._tls = await trio.to_thread.run_sync(self._make_tls)
        return self._tls

    def _allowed(self) -> AllowedNetworks:
        return AllowedNetworks(self._options.wake_allowed_cidrs)


def _refusal(message: str) -> Refusal:
    return Refusal("invalid_argument", message, "wake.url")
