"""The spellings of the wire: slugs, names, times and message ids (surface, section 3). Pure functions
of text.

Inside the server a time is an integer, µs since the Unix epoch, and an id is 16 bytes; this module
alone knows how they are written.
"""

import re
from datetime import UTC, datetime, timedelta
from functools import lru_cache

_END = r"$(?!\n)"
"""The very end, in Python's dialect and in JSON Schema's: Python's `$` alone would allow a newline after the text."""

SLUG_PATTERN = f"^[a-z0-9](?:[a-z0-9._-]{{0,62}}[a-z0-9])?{_END}"
"""1 to 64 characters, the first and the last alphanumeric; a pattern that JSON Schema understands as well."""

INBOX_PATTERN = (
    f"^(?:[a-z0-9](?:[a-z0-9._-]{{0,62}}[a-z0-9])?|(?:agent|machine)[.][a-z0-9][a-z0-9._-]{{0,63}}){_END}"
)
"""Slugs as a reader may name them: those of private inboxes, too, which end with a whole name."""

MAX_INBOX_CHARS = 72
"""Of the longest of them."""

NAME_PATTERN = f"^[a-z0-9][a-z0-9._-]{{0,63}}{_END}"
"""Agent ids and names of machines, beacons, tokens and secrets."""

ULID_PATTERN = f"^[0-7][0-9A-HJKMNP-TV-Z]{{25}}{_END}"
"""Ids of messages, as `ulid_text` writes them."""

RESERVED_SLUG_PREFIXES = ("agent.", "machine.")
"""Slugs of private inboxes, which the server alone makes."""

_SLUG = re.compile(SLUG_PATTERN)
_NAME = re.compile(NAME_PATTERN)
_ULID = re.compile(ULID_PATTERN)
_TIME = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2})[Tt]([0-9]{2}:[0-9]{2}:[0-9]{2})(?:\.([0-9]{1,18}))?"
    r"(?:[Zz]|([+-])([0-9]{2}):([0-9]{2}))"
)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_FIRST_US = (datetime.min.replace(tzinfo=UTC) - _EPOCH) // _MICROSECOND
_LAST_US = (datetime.max.replace(tzinfo=UTC) - _EPOCH) // _MICROSECOND
_SECOND_US = 1_000_000
_MICRO_DIGITS = 6
_CROCKFORD = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_PAIRS = [high + low for high in _CROCKFORD for low in _CROCKFORD]
_DAYS_CACHED = 256
"""Messages of a page lie within some days; what is drained late, within some weeks."""

_CLOCK = [f"T{minute // 60:02d}:{minute % 60:02d}:" for minute in range(24 * 60)]
"""The minutes of a day, as they stand in a time."""


def is_slug(text: str) -> bool:
    """Whether the text is a well-formed slug, reserved ones included."""
    return _SLUG.fullmatch(text) is not None


def is_reserved_slug(text: str) -> bool:
    """Whether only the server may make an inbox of this slug."""
    return text.startswith(RESERVED_SLUG_PREFIXES)


def is_name(text: str) -> bool:
    """Whether the text is a well-formed agent id, or name of a machine, beacon, token or secret."""
    return _NAME.fullmatch(text) is not None


def parse_time(text: str) -> int:
    """Return µs since the Unix epoch of an RFC 3339 time. Raises `ValueError` with a sentence for the sender.

    Digits beyond the microsecond are rounded up: times of messages are whole microseconds, so `since <=
    t` and `t < until` then mean exactly what the finer text meant. A leap second (`:60`) is refused, as
    the clock that stamps messages never shows one.
    """
    found = _TIME.fullmatch(text)
    if found is None:
        plus = " (in a query string + is %2B)" if " " in text else ""
        raise ValueError(f"expected an RFC 3339 time, such as 2026-01-31T09:30:00Z{plus}")
    day, clock, fraction, sign, hours, minutes = found.groups()
    try:
        seconds = datetime.fromisoformat(f"{day}T{clock}+00:00") - _EPOCH
    except ValueError:
        raise ValueError("no such day or time of day") from None
    micros = 0
    if fraction is not None:
        micros = int(fraction[:_MICRO_DIGITS].ljust(_MICRO_DIGITS, "0"))
        micros += bool(fraction[_MICRO_DIGITS:].strip("0"))
    offset = 0
    if sign is not None:
        if int(hours) > 23 or int(minutes) > 59:
            raise ValueError("no such offset from UTC")
        offset = (int(hours) * 60 + int(minutes)) * 60 * (1 if sign == "+" else -1)
    time_us = seconds // _MICROSECOND + micros - offset * _SECOND_US
    if not _FIRST_US <= time_us <= _LAST_US:
        raise ValueError("expected a time within the years 1 to 9999 of UTC")
    return time_us


def format_time(time_us: int) -> str:
    """Return a time as RFC 3339: UTC, microseconds, `Z`. Raises `OverflowError` outside the years 1 to 9999.

    A page has up to 200 of them, mostly of different seconds: only the date is left to the library, once a day.
    """
    minutes, micros = divmod(time_us, 60 * _SECOND_US)
    day, minute = divmod(minutes, len(_CLOCK))
    second, micros = divmod(micros, _SECOND_US)
    return f"{_date(day)}{_CLOCK[minute]}{second:02d}.{micros:06d}Z"


def parse_ulid(text: str) -> bytes | None:
    """Return the 16 bytes of a ULID in either case, None for a text that is none."""
    if not text.isascii() or _ULID.fullmatch(upper := text.upper()) is None:
        return None
    number = 0
    for character in upper:
        number = number << 5 | _CROCKFORD.index(character)
    return number.to_bytes(16, "big")


@lru_cache(maxsize=_DAYS_CACHED)
def _date(day: int) -> str:
    return (_EPOCH + timedelta(days=day)).date().isoformat()


def ulid_text(ulid: bytes) -> str:
    """Return the 26 characters (Crockford's base 32) of a ULID's 16 bytes.

    Ten bits at a time, which is several times faster than `str(ulid.ULID(…))`: a page needs up to 100
    of them.
    """
    n = int.from_bytes(ulid, "big")
    pairs = _PAIRS
    return (
        f"{pairs[n >> 120]}{pairs[n >> 110 & 1023]}{pairs[n >> 100 & 1023]}{pairs[n >> 90 & 1023]}"
        f"{pairs[n >> 80 & 1023]}{pairs[n >> 70 & 1023]}{pairs[n >> 60 & 1023]}{pairs[n >> 50 & 1023]}"
        f"{pairs[n >> 40 & 1023]}{pairs[n >> 30 & 1023]}{pairs[n >> 20 & 1023]}{pairs[n >> 10 & 1023]}"
        f"{pairs[n & 1023]}"
    )
