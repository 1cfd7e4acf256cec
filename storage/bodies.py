"""Large bodies: pieces in, pieces out, and what a whole one is.

A body over `INLINE_BODY_BYTES` is written piece by piece before its message exists (engineering study, S19). Until
the message adopts it, it stands in `body_staged`; ids are never used twice, so a piece that arrives late can only meet
its own body or none. Pieces are rows of a rowid table: 256 KiB rows there stall a small commit least.
"""

import codecs
import re
from collections.abc import Sequence
from itertools import accumulate

from storage.errors import BodyGone, NotStored
from storage.records import CHUNK_BYTES
from storage.sql import Sql, in_groups, shaped

MAX_NESTING = 100
"""Deeper JSON is shown as text (surface, section 3): decoders on the other side recurse."""

SCAN_BYTES = 262_144
"""Bytes looked at between two chances for another thread to take the GIL; under 1 ms."""


def stage(sql: Sql, now: int) -> int:
    """Return a new body id."""
    return int(sql.value("INSERT INTO body_staged (started_at) VALUES (?) RETURNING body_id", (now,)))


def put_chunk(sql: Sql, body_id: int, n: int, data: bytes) -> None:
    """Add piece `n` of a staged body. Raises `NotStored` when the body is not staged or piece `n` - 1 is missing."""
    if len(data) > CHUNK_BYTES:
        raise ValueError(f"a piece has at most {CHUNK_BYTES} bytes, not {len(data)}")
    added = sql.change(
        "INSERT INTO body_chunk (body_id, n, bytes) SELECT ?1, ?2, ?3"
        " WHERE EXISTS (SELECT 1 FROM body_staged WHERE body_id = ?1)"
        " AND (?2 = 0 OR EXISTS (SELECT 1 FROM body_chunk WHERE body_id = ?1 AND n = ?2 - 1))",
        (body_id, n, data),
    )
    if added != 1:
        raise NotStored("The body that this piece belongs to is no longer being stored.")


_adopt = shaped(lambda marks: f"DELETE FROM body_staged WHERE body_id IN ({marks})")  # noqa: S608 — question marks only # nosec B608


def adopt(sql: Sql, body_ids: Sequence[int]) -> None:
    """Take bodies out of the staging area, for good. Raises `NotStored` unless every one was there."""
    if not body_ids:
        return
    adopted = sum(sql.change(_adopt(len(group)), group) for group in in_groups(body_ids))
    if adopted != len(body_ids):
        raise NotStored("A body was swept, or adopted already, before its message was stored.")


def discard(sql: Sql, body_id: int) -> None:
    """Drop a staged body and its pieces; an adopted one is left alone."""
    if sql.change("DELETE FROM body_staged WHERE body_id = ?", (body_id,)):
        sql.change("DELETE FROM body_chunk WHERE body_id = ?", (body_id,))


def chunk(sql: Sql, body_id: int, n: int) -> bytes:
    """Return piece `n`. Raises `BodyGone`."""
    data = sql.value("SELECT bytes FROM body_chunk WHERE body_id = ? AND n = ?", (body_id, n))
    if data is None:
        raise BodyGone("This body is no longer stored.")
    return bytes(data)


def whole(sql: Sql, body_id: int, size: int) -> bytes:
    """Return a body of `size` bytes. Raises `BodyGone` unless every byte is there."""
    pieces = sql.rows("SELECT bytes FROM body_chunk WHERE body_id = ? ORDER BY n", (body_id,))
    body = b"".join(piece for (piece,) in pieces)
    if len(body) != size or not pieces:
        raise BodyGone("This body is no longer stored.")
    return body


def is_json(sql: Sql, body: bytes) -> bool:
    """Whether the bytes are JSON that every decoder reads, as `Snapshot.is_json` says.

    SQLite's parser decides the grammar, without the GIL. What it lets pass is looked at here, in slices: bytes that are
    not UTF-8, a NUL byte (it would stop there and call the rest valid), nesting (it allows 1,000), and what the
    grammar allows but decoders refuse: numbers beyond a double (`1e999`), half a surrogate pair.
    """
    if b"\0" in body or not _is_utf8(body):
        return False
    if not sql.value("SELECT json_valid(CAST(? AS TEXT), 1)", (body,)):
        return False
    return _is_tame(body)


def _is_utf8(body: bytes) -> bool:
    decode = codecs.getincrementaldecoder("utf-8")("strict").decode
    try:
        for start in range(0, len(body), SCAN_BYTES):
            decode(body[start : start + SCAN_BYTES])
        decode(b"", True)
    except UnicodeDecodeError:
        return False
    return True


_SAFE_CUT = re.compile(rb"[^\\\"0-9a-fA-Fu.+-]")
"""A byte after which valid JSON can be cut without cutting an escape, a surrogate pair or a number."""

_HALF_PAIR = re.compile(
    rb"\\u[dD][89abAB]..(?!\\u[dD][c-fC-F])" rb"|(?<!\\u[dD][89abAB]..)\\u[dD][c-fC-F]", re.DOTALL
)
_STEP = bytes({0x5B: 2, 0x7B: 2, 0x5D: 0, 0x7D: 0}.get(byte, 1) for byte in range(256))
_NO_BRACKET = bytes(byte for byte in range(256) if byte not in b"[]{}")
_MAY_OVERFLOW = re.compile(rb"[0-9]{300}|[eE]\+?[0-9]{3}")
_NUMBER = re.compile(rb"[-+0-9.eE]+")


def _is_tame(body: bytes) -> bool:
    r"""Whether *valid* JSON is not nested too deep, its numbers fit a double and its surrogates are pairs.

    In valid JSON a backslash occurs in strings only. So once the pairs `\\` and `\"` are blotted out from the left,
    every quote that is left opens or closes a string, and every backslash begins an escape of its own.
    """
    depth, inside, start = 0, False, 0
    while start < len(body):
        cut = _SAFE_CUT.search(body, start + SCAN_BYTES)
        end = cut.end() if cut else len(body)
        piece = body[start:end].replace(b"\\\\", b"__").replace(b'\\"', b"__")
        start = end
        parts = piece.split(b'"')
        outside = b" ".join(parts[1 if inside else 0 :: 2])
        inside ^= len(parts) % 2 == 0
        steps = outside.translate(_STEP, _NO_BRACKET)
        if steps:
            levels = list(accumulate((step - 1 for step in steps), initial=depth))
            if max(levels) > MAX_NESTING:
                return False
            depth = levels[-1]
        if _HALF_PAIR.search(piece) or (_MAY_OVERFLOW.search(outside) and not _numbers_fit(outside)):
            return False
    return True


def _numbers_fit(text: bytes) -> bool:
    """Whether every number in JSON text without strings is finite as a double."""
    for match in _NUMBER.finditer(text):
        try:
            if float(match[0]) in (float("inf"), float("-inf")):
                return False
        except ValueError:
            continue  # the e of true or false
    return True
