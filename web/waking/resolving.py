"""From a target to the addresses that may be connected to: the one resolution of its name, checked whole.

A name counts for all of its addresses: where one of them is not allowed, none is used. Otherwise whoever owns the name
could have the server try the forbidden one, or fall back to it.
"""

import socket
from collections.abc import Awaitable, Callable, Sequence
from functools import partial

import trio

from web.addresses import Address
from web.waking.addresses import AllowedNetworks, Target, address_of

Resolve = Callable[[str, int], Awaitable[Sequence[str]]]
"""Host and port to addresses, as text, the best first. Raises `OSError` when there are none."""

RESOLVING_AT_ONCE = 128
"""Threads that ask the system's resolver: twice the calls that the engine makes at once, because one without an answer
is held for up to half a minute, long after its call was given up, and should not keep others waiting. They are not of
those that the server writes files and verifies with: no nameserver must hold these."""


class WakeFailed(Exception):
    """A wake-up did not reach its target. The message is a clause for the log, without URL, headers or secret."""


class SystemResolver:
    """Asks the operating system, as every program of the machine does: hosts file, DNS, whatever is configured."""

    def __init__(self) -> None:
        self._threads = trio.CapacityLimiter(RESOLVING_AT_ONCE)

    async def __call__(self, host: str, port: int) -> Sequence[str]:
        """Return the addresses of a host. Raises `OSError`. Given up at once when cancelled."""
        found = await trio.to_thread.run_sync(
            partial(socket.getaddrinfo, host, port, type=socket.SOCK_STREAM),
            abandon_on_cancel=True,
            limiter=self._threads,
        )
        return [str(entry[4][0]) for entry in found]


async def allowed_addresses(
    target: Target, allowed: AllowedNetworks, resolve: Resolve
) -> tuple[Address, ...]:
    """Return the addresses of a target, all of which are allowed, the resolver's best first; each once.

    Raises `WakeFailed`, also when the name has no address.
    """
    if target.address is not None:
        texts: Sequence[str] = (str(target.address),)
    else:
        try:
            texts = await resolve(target.host, target.port)
        except (OSError, UnicodeError):  # the second: a host that the resolver cannot write as a name in DNS
            texts = ()
    if not texts:
        raise WakeFailed("its host has no address")
    found: dict[Address, None] = {}
    for text in texts:
        address = address_of(text)
        if address is None or not allowed.allows(address):
            raise WakeFailed(f"its address {text} is not in WAKE_ALLOWED_CIDRS")
        found[address] = None
    return tuple(found)
