"""Numbers, durations and sizes as people write them in a form: `1,000`, `30 days`, `12h`, `1.5 GiB`. Pure.

Digits are grouped by threes or not at all: `1,5` is refused, because for half of the world it is less than two, and
for the other half it would be fifteen.
"""

import re
from fractions import Fraction

from web.errors import invalid

_WHOLE = r"[0-9]{1,3}(?P<by>[, _\u00a0\u202f])[0-9]{3}(?:(?P=by)[0-9]{3})*|[0-9]+"
_GROUPED = re.compile(_WHOLE)
_WRITTEN = re.compile(rf"(?P<number>(?:{_WHOLE})(?:\.[0-9]+)?) *(?P<unit>[A-Za-z]*)")
_NUMBER = re.compile(r"-?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]{1,3})?")
_SEPARATORS = re.compile("[, _\u00a0\u202f]")

MAX_CHARACTERS = 40
MAX_INTEGER = 2**63 - 1
"""More cannot be written into a body of REST. What a member takes at most is less, and REST says so."""

TOO_LARGE = "This is too large."

DURATIONS = {
    "": 1,
    "s": 1,
    "second": 1,
    "seconds": 1,
    "min": 60,
    "m": 60,
    "minute": 60,
    "minutes": 60,
    "h": 3_600,
    "hour": 3_600,
    "hours": 3_600,
    "d": 86_400,
    "day": 86_400,
    "days": 86_400,
}
SIZES = {
    "": 1,
    "b": 1,
    "k": 1024,
    "kb": 1000,
    "kib": 1024,
    "m": 1024**2,
    "mb": 1000**2,
    "mib": 1024**2,
    "g": 1024**3,
    "gb": 1000**3,
    "gib": 1024**3,
    "t": 1024**4,
    "tb": 1000**4,
    "tib": 1024**4,
}


def seconds(field: str, text: str, least: int = 1) -> int | None:
    """Return a duration in seconds, None for an empty text: no limit. Raises `ApiError` naming the field, also for one
    that is shorter than `least`.
    """
    short = "Expected at least 1 second, such as 30 days, 12 h or 45 min."
    return _read(
        field, text, DURATIONS, least, "Expected a duration, such as 30 days, 12 h or 45 min.", short
    )


def size(field: str, text: str) -> int | None:
    """Return a size in bytes, None for an empty text: no limit. Raises `ApiError` naming the field, also for none."""
    short = "Expected at least 1 byte, such as 512 KiB or 1 GiB."
    return _read(field, text, SIZES, 1, "Expected a size, such as 512 KiB or 1 GiB.", short)


def whole(field: str, text: str) -> int | None:
    """Return a whole number, None for an empty text: no limit. Raises `ApiError` naming the field."""
    plain = text.strip()
    if not plain:
        return None
    if _GROUPED.fullmatch(plain) is None or len(plain) > MAX_CHARACTERS:
        raise invalid(field, "Expected a whole number, such as 500 or 2,000.")
    return _bounded(field, int(_SEPARATORS.sub("", plain)))


def number(field: str, text: str) -> int | float | None:
    """Return a number, also a broken or a negative one, None for an empty text. Raises `ApiError` naming the field."""
    plain = text.strip()
    if not plain:
        return None
    if _NUMBER.fullmatch(plain) is None or len(plain) > MAX_CHARACTERS:
        raise invalid(field, "Expected a number, such as 0.5.")
    return _bounded(field, int(plain)) if plain.lstrip("-").isdecimal() else float(plain)


def as_duration(value: float | None) -> str:
    """Return a duration as `seconds` reads it, exactly; empty for None."""
    if value is None:
        return ""
    for count, unit in ((86_400, "days"), (3_600, "h"), (60, "min")):
        if value and value % count == 0:
            number = int(value // count)
            return f"{number} day" if unit == "days" and number == 1 else f"{number} {unit}"
    return f"{int(value)} s"


def as_size(value: int | None) -> str:
    """Return a size as `size` reads it, exactly; empty for None."""
    if value is None:
        return ""
    for count, unit in ((1024**4, "TiB"), (1024**3, "GiB"), (1024**2, "MiB"), (1024, "KiB")):
        if value and value % count == 0:
            return f"{value // count} {unit}"
    return f"{value} B"


def _read(field: str, text: str, units: dict[str, int], least: int, expected: str, short: str) -> int | None:
    text = text.strip()
    if not text:
        return None
    found = _WRITTEN.fullmatch(text)
    unit = None if found is None else units.get(found["unit"].lower())
    if found is None or unit is None or len(text) > MAX_CHARACTERS:
        raise invalid(field, expected)
    exact = Fraction(_SEPARATORS.sub("", found["number"])) * unit
    count = round(exact)
    if count < least or (exact and not count):
        raise invalid(field, short)
    return _bounded(field, count)


def _bounded(field: str, count: int) -> int:
    if abs(count) > MAX_INTEGER:
        raise invalid(field, TOO_LARGE)
    return count
