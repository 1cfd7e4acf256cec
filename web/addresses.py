"""Whose request it is: the address of the client, also when proxies stand between. Pure functions of text and bytes.

A proxy that is trusted (`TRUSTED_PROXIES`) is believed about its own peer, and about nothing else. So the lists that
proxies append to, `X-Forwarded-For` and `Forwarded` (RFC 7239), are walked from the right, the side of the last proxy:
past each address that is a trusted proxy's own, to the first that is not. That one is the client; whatever stands to
the left of it was written by the client, or could have been.

The walk ends early, with the address that it has reached, at an element that names no address (`unknown`, `_hidden`,
empty, nonsense): what is left of it could be anybody's word. A request with both headers is believed only as far as
the two agree, because most proxies write one of them and hand on the other as the client sent it.

An IPv4 address in IPv6 clothing (`::ffff:192.0.2.1`, which is how a dual-stack socket shows IPv4 peers) counts as the
IPv4 address, and is shown so.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from itertools import islice

Address = IPv4Address | IPv6Address

MAX_HOPS = 32
"""Elements looked at in one request. Real chains have a handful; a list of thousands must not hold up the loop."""

MAX_ELEMENT_BYTES = 512
"""One element of `Forwarded`: `for`, `by`, `proto`, and a `host` of up to 255. What is longer is not an element."""

MAX_QUOTED_COMMAS = 16
"""In one element of `Forwarded`. Nothing that belongs there has a comma in it, and each costs a look at the quotes."""

MAX_ADDRESS_BYTES = 64
"""The longest address has 45 characters, with brackets and a port 53; a little more for blanks around it."""

X_FORWARDED_FOR, FORWARDED = b"x-forwarded-for", b"forwarded"

MAPPED = IPv6Network("::ffff:0:0/96")
_MAPPED_TEXT = "::ffff:"
_SHARED_BITS = 64

_NETWORK = re.compile(r"[0-9A-Fa-f:.]+(/[0-9]{1,3})?")
"""What `ipaddress` would take besides: netmasks in dots, and zones."""

_PORT = re.compile(r"[0-9]{1,5}|_[A-Za-z0-9._-]+")

_PAIR = re.compile(
    rb"""[ \t]*
    (?: ([!#$%&'*+.^_`|~0-9A-Za-z-]+) = (?: "([^"\\]*)" | ([^"\\;,\s]*) ) )?   # none at all: a stray semicolon
    [ \t]* (?: ; | \Z )""",
    re.VERBOSE,
)
"""One `name=value` of `Forwarded`. A value may be bare that the RFC wants in quotes (`for=192.0.2.1:80`): some proxies
write it so."""


class TrustedProxies:
    """The networks whose machines are believed when they say who their peer is."""

    def __init__(self, networks: Iterable[str] = ()) -> None:
        """`networks` as `network_of` returns them."""
        # As numbers: a comparison costs a twentieth of what `address in network` does.
        self._masks: dict[type, list[tuple[int, int]]] = {IPv4Address: [], IPv6Address: []}
        for network in map(ip_network, networks):
            masks = self._masks[type(network.network_address)]
            masks.append((int(network.netmask), int(network.network_address)))
        self._any = any(self._masks.values())

    def trusts_peer(self, peer: str | None) -> bool:
        """Whether the machine at the other end of a connection is one of them."""
        if not self._any or peer is None:
            return False
        here = peer_address(peer)
        return here is not None and self.trusts(here)

    def client(self, peer: str | None, headers: Sequence[tuple[bytes, bytes]]) -> str | None:
        """Return the client's address: `peer`'s own, unless that is a trusted proxy and names another one.

        `peer` is the address at the other end of the connection, None where there is none (a Unix socket). Names of
        headers are in lower case. Headers are not looked at when the peer is not trusted.
        """
        if peer is None:
            return None
        if not self._any:
            return plain(peer)
        here, client = peer_address(peer), plain(peer)
        if here is None or not self.trusts(here):
            return client
        for hop in islice(_hops(headers), MAX_HOPS):
            if hop is None:
                break
            client = str(hop)
            if not self.trusts(hop):
                break
        return client

    def trusts(self, address: Address) -> bool:
        """Whether this address is a trusted proxy's."""
        number = int(address)
        return any(number & mask == network for mask, network in self._masks[type(address)])


def network_of(text: str) -> str:
    """Return a network, or a single address, in its one spelling (`10.0.0.0/8`, `::1/128`).

    Raises `ValueError` for what is neither, and for a network with host bits set: `10.0.0.1/8` is either a slip of the
    pen or trusts a million times more than was meant.
    """
    if not _NETWORK.fullmatch(text):
        raise ValueError(f"{text!r} is neither an address nor a network")
    network = ip_network(text)
    if isinstance(network, IPv6Network) and network.subnet_of(MAPPED):
        number = int(network.network_address) - int(MAPPED.network_address)
        return str(IPv4Network((number, network.prefixlen - MAPPED.prefixlen)))
    return str(network)


def plain(peer: str) -> str:
    """Return a peer's address as it is shown: IPv4 in IPv6 clothing as IPv4, anything else as the system has it."""
    if peer.startswith(_MAPPED_TEXT) and "." in peer:
        return peer.removeprefix(_MAPPED_TEXT)
    return peer


def peer_address(peer: str) -> Address | None:
    """Return a peer's address without the zone that a link-local one has; None when it is none."""
    return _address(peer.partition("%")[0])


def shared_by(address: str) -> str:
    """Return whom an address is counted as: an IPv4 address for itself, an IPv6 address as its /64.

    One machine, or one customer, has a whole /64 and takes any address of it, as often as it likes.
    """
    found = peer_address(address)
    if isinstance(found, IPv6Address):
        return str(IPv6Network((int(found), _SHARED_BITS), strict=False))
    return address if found is None else str(found)


def address_of(element: bytes) -> Address | None:
    """Return the address of a list's element: `192.0.2.1`, `192.0.2.1:80`, `2001:db8::1`, `[2001:db8::1]`,
    `[2001:db8::1]:80`; a port may be hidden (`:_x`). None for anything else, so also for `unknown` and `_hidden`.
    """
    if len(element) > MAX_ADDRESS_BYTES or not element.isascii():
        return None
    text = element.decode("ascii").strip(" \t")
    if text.startswith("["):
        host, bracket, rest = text[1:].partition("]")
        found = _address(host) if bracket and ":" in host else None
        return found if not rest or (rest[0] == ":" and _PORT.fullmatch(rest[1:])) else None
    host, colon, port = text.partition(":")
    if colon and ":" not in port:
        return _address(host) if _PORT.fullmatch(port) else None
    return _address(text)


def _address(text: str) -> Address | None:
    if "%" in text:
        return None  # a zone means something on the machine that has it, and is free text to `ipaddress`
    try:
        found = ip_address(text)
    except ValueError:
        return None
    return found.ipv4_mapped or found if isinstance(found, IPv6Address) else found


def _hops(headers: Sequence[tuple[bytes, bytes]]) -> Iterator[Address | None]:
    """Give what proxies said, the last one first; None for an element that is not to be believed."""
    listed = [value for name, value in headers if name == X_FORWARDED_FOR]
    standard = [value for name, value in headers if name == FORWARDED]
    if not standard:
        return _x_forwarded_for(listed)
    if not listed:
        return _forwarded(standard)
    both = zip(_x_forwarded_for(listed), _forwarded(standard), strict=False)
    return (one if one == other else None for one, other in both)


def _x_forwarded_for(lines: Sequence[bytes]) -> Iterator[Address | None]:
    for line in reversed(lines):
        end = len(line)
        while end >= 0:
            comma = line.rfind(b",", 0, end)
            yield address_of(line[comma + 1 : end])
            end = comma


def _forwarded(lines: Sequence[bytes]) -> Iterator[Address | None]:
    for line in reversed(lines):
        end = len(line)
        while end >= 0:
            comma = _comma_before(line, end)
            yield None if comma is None else _named_by_for(line[comma + 1 : end])
            if comma is None:
                return
            end = comma


def _comma_before(line: bytes, end: int) -> int | None:
    """Return where the comma stands that begins the element which ends at `end`, −1 for the first element; None when
    the element is too long, has too many commas, or its quotes do not close.

    From the right, like everything here: a quote that a client left open, on the left, must not swallow what a proxy
    appended after it.
    """
    comma = end
    for _ in range(MAX_QUOTED_COMMAS + 1):
        comma = line.rfind(b",", 0, comma)
        if end - comma > MAX_ELEMENT_BYTES:
            return None
        if line.count(b'"', comma + 1, end) % 2 == 0:
            return comma
        if comma < 0:
            return None
    return None


def _named_by_for(element: bytes) -> Address | None:
    """Return the address that an element of `Forwarded` names with its one `for`."""
    found: Address | None = None
    at, seen = 0, False
    while at < len(element):
        pair = _PAIR.match(element, at)
        if pair is None:
            return None
        name, quoted, bare = pair.groups()
        if name is not None and name.lower() == b"for":
            if seen:
                return None
            seen, found = True, address_of(bare if quoted is None else quoted)
        at = pair.end()
    return found
