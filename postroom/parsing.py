"""How a setting's value is read: one parser for each kind of value, from TOML, the environment or a flag alike.

A parser takes what the source gave (text from the environment and from flags; text, numbers or booleans
from TOML) and returns the value, or raises `ValueError` with a clause that completes the sentence "NAME …",
such as "must be a whole number from 1 to 100, not 'many'". No parser looks at any other setting;
`postroom.config` does.
"""

import ipaddress
import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec

from storage.secret import SecretBytes
from web.addresses import network_of
from web.hosts import host_of, origin_of

KIB = 1024
MIB = 1024 * KIB
GIB = 1024 * MIB
TIB = 1024 * GIB

NOTHING = "none"
"""How a setting that may be absent is switched off explicitly, in every source (TOML has no null)."""

SIZE_SUFFIXES = {"": 1, "B": 1, "KIB": KIB, "MIB": MIB, "GIB": GIB, "TIB": TIB}
MAX_PORT = 65_535
SHOWN_CHARACTERS = 60
"""How much of a bad value an error repeats: enough to recognise it, never a screenful."""

_WHOLE = re.compile(r"-?[0-9]{1,19}")
_SIZE = re.compile(r"([0-9]{1,19}) ?([A-Za-z]*)")
_ADDRESS = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+):([0-9]{1,5})")


class Kind(msgspec.Struct, frozen=True):
    """A kind of value: its unit for people, the range it must lie in (in words), and its parser."""

    unit: str
    accepts: str
    parse: Callable[[Any], Any]


def shown(value: object) -> str:
    """Return a bad value as an error may repeat it: quoted, escaped, cut."""
    text = ascii(value)
    return text if len(text) <= SHOWN_CHARACTERS else text[: SHOWN_CHARACTERS - 1] + "…"


def _bad(accepts: str, value: object) -> ValueError:
    return ValueError(f"must be {accepts}, not {shown(value)}")


def whole(unit: str, low: int, high: int) -> Kind:
    """Return the kind of whole numbers from `low` to `high`."""
    accepts = f"a whole number from {low:,} to {high:,}"

    def parse(value: Any) -> int:
        if isinstance(value, str) and _WHOLE.fullmatch(value):
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise _bad(accepts, value)
        return value

    return Kind(unit, accepts, parse)


def size(low: int, high: int) -> Kind:
    """Return the kind of sizes in bytes: a whole number, or text such as `10MiB` (KiB, MiB, GiB are 1024-based)."""
    accepts = (
        f"a size from {readable_size(low)} to {readable_size(high)}, in bytes or with KiB, MiB, GiB or TiB"
    )

    def parse(value: Any) -> int:
        number = value
        if isinstance(value, str):
            match = _SIZE.fullmatch(value)
            factor = SIZE_SUFFIXES.get(match[2].upper()) if match else None
            number = int(match[1]) * factor if match and factor else None
        if isinstance(number, bool) or not isinstance(number, int) or not low <= number <= high:
            raise _bad(accepts, value)
        return number

    return Kind("bytes", accepts, parse)


def readable_size(value: int) -> str:
    """Return a size as people write it, exactly: `10 MiB`, `1,000 bytes`."""
    for name, factor in (("TiB", TIB), ("GiB", GIB), ("MiB", MIB), ("KiB", KIB)):
        if value >= factor and value % factor == 0:
            return f"{value // factor:,} {name}"
    return "1 byte" if value == 1 else f"{value:,} bytes"


def seconds(low: float, high: float) -> Kind:
    """Return the kind of durations in seconds, fractions allowed."""
    accepts = f"a number of seconds from {low:.12g} to {high:.12g}"

    def parse(value: Any) -> float:
        number = value
        if isinstance(value, str):
            try:
                number = float(value)
            except ValueError:
                raise _bad(accepts, value) from None
        if isinstance(number, bool) or not isinstance(number, int | float) or not low <= number <= high:
            raise _bad(accepts, value)  # NaN compares false and ends here too
        return float(number)

    return Kind("seconds", accepts, parse)


def switch() -> Kind:
    """Return the kind of booleans: `true` or `false`."""
    words = {"true": True, "false": False}

    def parse(value: Any) -> bool:
        value = words.get(value, value) if isinstance(value, str) else value
        if not isinstance(value, bool):
            raise _bad("true or false", value)
        return value

    return Kind("", "true or false", parse)


def choice(*words: str) -> Kind:
    """Return the kind of values that are one of a few words."""
    accepts = " or ".join(words) if len(words) < 3 else ", ".join(words[:-1]) + " or " + words[-1]

    def parse(value: Any) -> str:
        if value not in words:
            raise _bad(accepts, value)
        return str(value)

    return Kind("", accepts, parse)


def path() -> Kind:
    """Return the kind of paths; `~` is the home directory, a relative one starts where the command was started."""

    def parse(value: Any) -> Path:
        if not isinstance(value, str) or not value or "\0" in value:
            raise _bad("a path", value)
        return Path(value).expanduser()

    return Kind("", "a path", parse)


def address() -> Kind:
    """Return the kind of addresses to listen on: `HOST:PORT` or `[IPv6]:PORT`; port 0: any free one."""
    accepts = "HOST:PORT, for example 127.0.0.1:8025 or [::1]:8025"

    def parse(value: Any) -> str:
        match = _ADDRESS.fullmatch(value) if isinstance(value, str) else None
        if match is None or int(match[2]) > MAX_PORT:
            raise _bad(accepts, value)
        if match[1].startswith("["):
            try:
                ipaddress.IPv6Address(match[1][1:-1])
            except ValueError:
                raise _bad(accepts, value) from None
        return f"{match[1]}:{int(match[2])}"

    return Kind("", accepts, parse)


def local_address() -> Kind:
    """Return the kind of addresses to listen on of which the host may be left out: this machine's loopback then."""
    whole_address = address()
    accepts = f"PORT, on 127.0.0.1, or {whole_address.accepts}"

    def parse(value: Any) -> str:
        port = str(value) if isinstance(value, str | int) and not isinstance(value, bool) else ""
        try:
            return str(whole_address.parse(f"127.0.0.1:{port}" if port.isdecimal() else value))
        except ValueError:
            raise _bad(accepts, value) from None

    return Kind("", accepts, parse)


def url() -> Kind:
    """Return the kind of base URLs: http or https, a host, perhaps a port and a path; no trailing slash is kept."""
    accepts = "an http:// or https:// URL without user, query or fragment"

    def parse(value: Any) -> str:
        try:
            parts = urlsplit(value if isinstance(value, str) else "")
            port_is_fine = parts.port is None or parts.port > 0
        except ValueError:
            raise _bad(accepts, value) from None
        plain = (
            value.isprintable() and value.isascii() and " " not in value if isinstance(value, str) else False
        )
        extras = parts.query or parts.fragment or "@" in parts.netloc
        if (
            parts.scheme not in ("http", "https")
            or not parts.hostname
            or extras
            or not (plain and port_is_fine)
        ):
            raise _bad(accepts, value)
        return str(value).rstrip("/")

    return Kind("", accepts, parse)


def secret(low: int, high: int) -> Kind:
    """Return the kind of secrets: `low` to `high` printable ASCII characters. An error never repeats a bad one."""
    accepts = f"{low} to {high} printable ASCII characters without spaces"

    def parse(value: Any) -> SecretBytes:
        fine = isinstance(value, str) and value.isascii() and value.isprintable() and " " not in value
        if not fine or not low <= len(value) <= high:
            raise ValueError(f"must be {accepts}")
        return SecretBytes(value.encode())

    return Kind("", accepts, parse)


def several(one: Kind) -> Kind:
    """Return the kind of lists: text with commas between, or a list in the file; what is there twice counts once."""
    accepts = f"{one.accepts}, or several with commas between"

    def parse(value: Any) -> tuple[Any, ...]:
        given = [part.strip() for part in value.split(",")] if isinstance(value, str) else value
        if not isinstance(given, list) or not given:
            raise _bad(accepts, value)
        found: dict[Any, None] = {}
        for part in given:
            try:
                found[one.parse(part)] = None
            except ValueError:
                raise _bad(accepts, part) from None  # the one that is wrong, of perhaps many
        return tuple(found)

    return Kind(one.unit, accepts, parse)


def host() -> Kind:
    """Return the kind of hosts without a port: a name, or an address (IPv6 also in brackets)."""
    accepts = "a host without a port"

    def parse(value: Any) -> str:
        text = value if isinstance(value, str) else ""
        bare = f"[{text}]" if ":" in text and not text.startswith("[") else text
        found = host_of(bare)
        if not found or found != bare.strip("[]").lower():
            raise _bad(accepts, value)
        return found

    return Kind("", accepts, parse)


def network() -> Kind:
    """Return the kind of networks and single addresses, in their one spelling; a single one is a network of one."""
    accepts = "an address, or a network such as 10.0.0.0/8 or fd00::/8 with zero host bits"

    def parse(value: Any) -> str:
        try:
            return network_of(value if isinstance(value, str) else "")
        except ValueError:
            raise _bad(accepts, value) from None

    return Kind("", accepts, parse)


def origin() -> Kind:
    """Return the kind of web origins, `scheme://host[:port]`, in their one spelling."""
    accepts = "an origin, scheme://host or scheme://host:port"

    def parse(value: Any) -> str:
        text = value if isinstance(value, str) else ""
        found = origin_of(text)
        if found is None or urlsplit(text).path or "?" in text or "#" in text or not text.isascii():
            raise _bad(accepts, value)
        return found

    return Kind("", accepts, parse)


def optional(kind: Kind) -> Kind:
    """Return a kind that also takes `none`, for limits and addresses that may be absent."""

    def parse(value: Any) -> Any:
        return None if value == NOTHING else kind.parse(value)

    return Kind(kind.unit, f"{kind.accepts}, or {NOTHING}", parse)


def readable(value: object, unit: str) -> str:
    """Return a parsed value as `postroom config` shows it to a person; what it prints can be set again."""
    if value is None:
        return NOTHING
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return ",".join(readable(one, unit) for one in value)
    if unit == "bytes" and isinstance(value, int):
        return readable_size(value) if value % KIB == 0 and value else str(value)
    if isinstance(value, float) and math.isclose(value, round(value)):
        return str(round(value))
    return str(value)
