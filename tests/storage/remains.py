"""What is left of some bytes in the files of a directory, byte for byte, whatever SQLite makes of these files."""

from collections.abc import Iterable
from pathlib import Path

PIECE = 12
"""Twelve random bytes in a row do not come about by chance, and a half-overwritten value has some."""


def remains(values: Iterable[bytes], *places: Path) -> list[bytes]:
    """Return those values of which a piece is in a file; a place is a file, or a directory with all that is in it."""
    files = [file for place in places for file in (place.rglob("*") if place.is_dir() else [place])]
    content = b"\0\0".join(file.read_bytes() for file in sorted(files) if file.is_file())
    return [value for value in values if any(piece in content for piece in _pieces(value))]


def _pieces(value: bytes) -> Iterable[bytes]:
    """Yield the ends, the middle and what lies between, never more than some thirty pieces."""
    last = max(0, len(value) - PIECE)
    yield from (value[at : at + PIECE] for at in range(0, last + 1, max(1, last // 30)))
    yield value[last:]
