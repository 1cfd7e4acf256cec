"""Whether a path that somebody else chose stays below a prefix, whoever reads it.

`/hook` + `/../admin` is `/admin` to most servers and proxies, so a sender could choose a route of the target that was
never meant for messages. What counts as a step up differs between them: some decode before they look, once or more
often, some take a backslash for a slash, some merge slashes that follow each other, some cut parameters off a segment
(`..;x`). Therefore every segment is read in all of these ways, and the reading that leads highest counts. A path that
stays below in each of them can be sent as it is, to the byte.
"""

import re
from collections.abc import Iterator
from urllib.parse import unquote_to_bytes

MOST_DECODINGS = 8
"""Of one segment. What can be decoded more often than that was made to deceive, and counts as a step up."""

_SLASHES = re.compile(rb"[/\\]")
_OPAQUE = re.compile(rb"[\x00-\x20\x7f]")
"""What some readers drop."""


def leaves(path: bytes) -> bool:
    """Whether a path, behind a prefix that ends without a slash, may be taken for one that is not below it.

    It leaves as well when it does not begin with a slash: then it would go on with the prefix's last segment.
    """
    if path and not path.startswith(b"/"):
        return True
    depth = 0
    for segment in path.split(b"/"):
        lowest, after = min(_lowest(reading) for reading in _readings(segment)), _least(segment)
        if depth + lowest < 0:
            return True
        depth += after
    return False


def _readings(segment: bytes) -> Iterator[list[bytes]]:
    """Give the parts of a segment as it stands, and as it is after each decoding."""
    for _ in range(MOST_DECODINGS):
        yield _SLASHES.split(segment)
        decoded = unquote_to_bytes(segment)
        if decoded == segment:
            return
        segment = decoded
    yield [b".."]


def _lowest(parts: list[bytes]) -> int:
    """Return how far up the parts lead at their highest, as a number that is not above 0."""
    depth = lowest = 0
    for part in parts:
        depth += _step(part)
        lowest = min(lowest, depth)
    return lowest


def _least(segment: bytes) -> int:
    """Return how much deeper a segment leads at least; below 0 when it leads up."""
    return min(sum(map(_step, parts)) for parts in _readings(segment))


def _step(part: bytes) -> int:
    name = _OPAQUE.sub(b"", part.partition(b";")[0])
    return -1 if name == b".." else 0 if name in (b"", b".") else 1
