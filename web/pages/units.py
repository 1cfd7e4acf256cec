"""Durations and sizes as people write them in a form: `30 days`, `12h`, `1.5 GiB`. Pure."""

import re

from web.errors import invalid

_WRITTEN = re.compile(r"([0-9]+(?:\.[0-9]+)?) *([A-Za-z]*)")

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


def seconds(field: str, text: str) -> int | None:
    """Return a duration in seconds, None for an empty text: no limit. Raises `ApiError` naming the field."""
    return _read(field, text, DURATIONS, "Expected a duration, such as 30 days, 12 h or 45 min.")


def size(field: str, text: str) -> int | None:
    """Return a size in bytes, None for an empty text: no limit. Raises `ApiError` naming the field."""
    return _read(field, text, SIZES, "Expected a size, such as 512 KiB or 1 GiB.")


def whole(field: str, text: str) -> int | None:
    """Return a whole number, None for an empty text: no limit. Raises `ApiError` naming the field."""
    plain = text.replace(",", "").replace(" ", "")
    if not plain:
        return None
    if not plain.isascii() or not plain.isdecimal() or len(plain) > 18:
        raise invalid(field, "Expected a whole number.")
    return int(plain)


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


def _read(field: str, text: str, units: dict[str, int], expected: str) -> int | None:
    text = text.replace(",", "").strip()
    if not text:
        return None
    found = _WRITTEN.fullmatch(text)
    unit = None if found is None else units.get(found[2].lower())
    if found is None or unit is None or len(text) > 40:
        raise invalid(field, expected)
    return round(float(found[1]) * unit)
