"""Hosts and origins as they stand in settings and headers: which of them mean this machine. Pure functions of text."""

import ipaddress
import re
from functools import lru_cache
from urllib.parse import urlsplit

_KNOWN_HOSTS = 64
"""Clients name one host each; a cache this small serves them all and cannot be filled to any harm."""

_HOST = re.compile(r"[a-z0-9._:-]+")
"""Names (international ones in their ASCII form) and addresses."""

DEFAULT_PORTS = {"http": 80, "https": 443}


@lru_cache(_KNOWN_HOSTS)
def is_loopback(host: str) -> bool:
    """Whether a host's name, or address without brackets, is this machine's loopback."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


@lru_cache(_KNOWN_HOSTS)
def host_of(authority: str) -> str | None:
    """Return the host of `host`, `host:port` or `[IPv6]:port` in lower case, without brackets; None if it is none."""
    try:
        parts = urlsplit(f"//{authority}")
        host, _ = parts.hostname, parts.port
    except ValueError:
        return None
    plain = parts.netloc == authority and "@" not in authority
    return host if plain and host and _HOST.fullmatch(host) else None


def origin_of(text: str) -> str | None:
    """Return an origin (or the origin of a URL) in its one spelling, `scheme://host[:port]` without a default port.

    None for whatever has no origin: `null`, a URL without a host, a user or password in it.
    """
    try:
        parts = urlsplit(text.strip())
        host, port = parts.hostname, parts.port
    except ValueError:
        return None
    if not parts.scheme or not host or "@" in parts.netloc or _HOST.fullmatch(host) is None:
        return None
    shown = f"[{host}]" if ":" in host else host
    if port is None or port == DEFAULT_PORTS.get(parts.scheme):
        return f"{parts.scheme}://{shown}"
    return f"{parts.scheme}://{shown}:{port}"
