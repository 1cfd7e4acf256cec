"""Which addresses a wake URL may reach: reading the URL, and the networks that an administrator allowed. Pure.

One reading of the URL counts: what is checked here is what is connected to and what is sent as `Host`. What another
reader could take for something else is refused instead of interpreted: other spellings of IPv4 addresses
(`http://2130706433/`, `0x7f.1`, `127.1`), zones, escapes in hosts, backslashes, users before an `@`.
"""

import re
from collections.abc import Iterable, Iterator
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address, ip_network
from urllib.parse import urlsplit

import msgspec

from web.addresses import Address
from web.hosts import DEFAULT_PORTS

MAX_URL_CHARS = 2_000
"""What every client and proxy takes; the URL is stored, and sent in each request."""

MAX_HOST_CHARS = 253
"""Of a name in DNS."""

_URL = re.compile(r"[!-\[\]-~]+")
"""Printable ASCII without a blank and without the backslash, which some readers take for a slash."""

_AUTHORITY = re.compile(r"(?:\[[0-9A-Fa-f:.]+\]|[^\[\]:]+)(?::[0-9]*)?")
"""Nothing between the bracket and the port, no zone, no second colon."""

_HOST = re.compile(r"(?:[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?\.)*[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?")
"""Labels of DNS, international ones in their ASCII form. No dot at the end: no certificate has a name with one."""

_NUMBER = re.compile(r"(?:.*\.)?(?:[0-9]+|0x[0-9a-f]*)")
"""A host that ends in a number is an address to most resolvers, in whatever spelling."""

_BROADCAST = IPv4Address("255.255.255.255")

_AT_THE_END = (IPv6Network("64:ff9b::/96"), IPv6Network("::/96"))
"""Where the last 32 bits are an IPv4 address that a router goes on to: NAT64, and what was meant for tunnels once."""


class BadTarget(ValueError):
    """The URL cannot be a wake target. The message is a sentence for whoever gave it."""


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """Where a wake goes. `host` is a name or an address, in lower case and without brackets; `address`: when it is one.

    `path` is what stands in the request line, with the query.
    """

    is_tls: bool
    host: str
    port: int
    path: str
    address: Address | None

    @property
    def authority(self) -> str:
        """The value of `Host`."""
        shown = f"[{self.host}]" if ":" in self.host else self.host
        return shown if self.port == DEFAULT_PORTS[self.scheme] else f"{shown}:{self.port}"

    @property
    def scheme(self) -> str:
        """`http` or `https`."""
        return "https" if self.is_tls else "http"


class AllowedNetworks:
    """The networks that wake-ups may reach, and nothing else. None at all: there are no wake-ups."""

    def __init__(self, networks: Iterable[str] = ()) -> None:
        """`networks` as `web.addresses.network_of` returns them."""
        self._networks = tuple(map(ip_network, networks))

    def __bool__(self) -> bool:
        return bool(self._networks)

    def allows(self, address: Address) -> bool:
        """Whether a connection to this address may be made.

        IPv4 in IPv6 clothing counts as the IPv4 address that it is, so `::/0` does not open it. An address that is
        no machine's is never allowed: `0.0.0.0` and `::` (which reach this one), multicast, broadcast. One that leads
        on to an IPv4 address (NAT64, 6to4, Teredo) is allowed only where that one is as well.
        """
        bare = undressed(address)
        if bare.is_unspecified or bare.is_multicast or bare == _BROADCAST:
            return False
        if not all(map(self.allows, _led_on_to(bare))):
            return False
        return any(bare in network for network in self._networks)


def target_of(url: str) -> Target:
    """Return what a wake URL means. Raises `BadTarget`."""
    if len(url) > MAX_URL_CHARS:
        raise BadTarget(f"Expected at most {MAX_URL_CHARS} characters.")
    if not _URL.fullmatch(url):
        raise BadTarget("Expected a URL in printable ASCII characters, without spaces and backslashes.")
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        raise BadTarget("Expected an http:// or https:// URL with a host, and perhaps a port.") from None
    if parts.scheme not in DEFAULT_PORTS or not host:
        raise BadTarget("Expected an http:// or https:// URL with a host.")
    if "@" in parts.netloc:
        raise BadTarget("Expected a URL without a user and a password; wake-ups are signed with the secret.")
    if not _AUTHORITY.fullmatch(parts.netloc):
        raise BadTarget("Expected a host, or an IPv6 address without a zone in brackets, and perhaps a port.")
    if "#" in url:
        raise BadTarget("Expected a URL without a fragment.")
    if port == 0:
        raise BadTarget("Expected a port from 1 to 65,535.")
    path = parts.path or "/"
    return Target(
        is_tls=parts.scheme == "https",
        host=host,
        port=DEFAULT_PORTS[parts.scheme] if port is None else port,
        path=f"{path}?{parts.query}" if parts.query else path,
        address=_address_in(host) if "[" in parts.netloc else _address_or_name(host),
    )


def address_of(text: str) -> Address | None:
    """Return an address in its ordinary spelling, IPv4 in IPv6 clothing as IPv4; None for anything else.

    Also for one with a zone: which network that means depends on who reads it.
    """
    if "%" in text:
        return None
    try:
        return undressed(ip_address(text))
    except ValueError:
        return None


def undressed(address: Address) -> Address:
    """Return the IPv4 address that stands in an IPv6 one (`::ffff:192.0.2.1`), else the address itself."""
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return address if mapped is None else mapped


def _led_on_to(address: Address) -> Iterator[IPv4Address]:
    """Give the IPv4 addresses to which gateways take what is sent to this one."""
    if not isinstance(address, IPv6Address) or address.is_loopback:
        return
    if address.sixtofour is not None:
        yield address.sixtofour
    if address.teredo is not None:
        yield from address.teredo
    if any(address in network for network in _AT_THE_END):
        yield IPv4Address(int(address) & 0xFFFF_FFFF)


def _address_in(brackets: str) -> Address:
    found = address_of(brackets) if ":" in brackets else None
    if found is None:
        raise BadTarget("Expected an IPv6 address in the brackets.")
    return found


def _address_or_name(host: str) -> IPv4Address | None:
    if len(host) > MAX_HOST_CHARS or not _HOST.fullmatch(host):
        raise BadTarget("Expected a host's name in ASCII, or an address.")
    if not _NUMBER.fullmatch(host):
        return None
    try:
        return IPv4Address(host)
    except ValueError:
        raise BadTarget(
            "Expected an IPv4 address as four decimal numbers without leading zeros, or a host's name."
        ) from None
