"""`GET /v1/inboxes/{slug}/messages/{seq}/raw`: the received bytes, streamed, with ranges, and harmless in a browser.

The sender chose both the bytes and their content type, so nothing here may let them become a page of this origin:
the stored type is given only if it is one that no browser runs, the answer is an attachment, is never sniffed, and
is sandboxed should a browser open it all the same.
"""

import re
from collections.abc import AsyncGenerator

import msgspec
import trio

from actors.service import Service
from storage.records import CHUNK_BYTES, StoredMessage
from web.grammar import ulid_text
from web.http import Answer, Request, StreamedAnswer
from web.openapi.about import About, Media
from web.openapi.errors import Refused
from web.params import GetMessage

_HARMLESS = re.compile(
    r"(?:text/(?:plain|csv)|image/(?:png|jpeg|gif|webp)|application/(?:octet-stream|x-www-form-urlencoded|x-ndjson|"
    r"(?:[a-z0-9.-]{1,64}\+)?json))(?:\s*;\s*charset=\"?(?:utf-8|us-ascii|iso-8859-1)\"?)?",
    re.IGNORECASE,
)
"""Types that no browser executes. Not here: HTML, SVG, XML, PDF and scripts; other charsets, because some are made to
smuggle markup."""

_RANGE = re.compile(rb"bytes=(?:(\d{1,18})-(\d{0,18})|-(\d{1,18}))")

SAFETY_HEADERS: tuple[tuple[bytes, bytes], ...] = (
    (b"content-security-policy", b"sandbox; default-src 'none'"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"accept-ranges", b"bytes"),
)

BYTES = Media("*/*", "The bytes, as an attachment, in the stored type if no browser would run it.")

ABOUT = About(
    "Reading",
    "reader",
    GetMessage,
    BYTES,
    also={206: BYTES, 416: Refused},
    headers=("Range", "If-Range"),
    gives=("ETag", "Content-Range"),
)


class _Claimed(msgspec.Struct):
    """The one field of a message's claims that is needed here."""

    content_type: str | None = None


def content_type(said: bytes) -> bytes:
    """Return the stored content type if it is harmless, else `application/octet-stream`."""
    claimed = msgspec.json.decode(said, type=_Claimed).content_type
    if claimed is not None and _HARMLESS.fullmatch(claimed.strip()):
        return claimed.strip().encode("ascii")
    return b"application/octet-stream"


def parse_range(value: bytes | None, size: int) -> tuple[int, int] | bool | None:
    """Return the half-open range that is asked for, None for the whole, False when it cannot be satisfied.

    One range only: a header that is malformed, or asks for several, is passed over (RFC 9110, section 14.2, allows it).
    """
    if value is None:
        return None
    found = _RANGE.fullmatch(value.strip())
    if found is None:
        return None
    first, last, suffix = found.groups()
    if suffix is not None:
        length = min(int(suffix), size)
        return (size - length, size) if length else False
    start = int(first)
    stop = int(last) + 1 if last else size
    if last and stop <= start:
        return None  # malformed: last before first
    return (start, min(stop, size)) if start < size else False


def answer(service: Service, request: Request, slug: str, row: StoredMessage) -> Answer | StreamedAnswer:
    """Return the bytes of a message, or the part of them that `Range` asks for."""
    etag = f'"{ulid_text(row.id)}"'.encode()
    headers = (
        *SAFETY_HEADERS,
        (b"etag", etag),
        (b"content-disposition", f'attachment; filename="{slug}-{row.seq}.bin"'.encode()),
    )
    wanted = request.header(b"range")
    if request.header(b"if-range") not in (None, etag):
        wanted = None
    part = parse_range(wanted, row.size)
    if part is False:
        error = {"code": "invalid_argument", "message": f"The body has {row.size} bytes.", "field": "Range"}
        return Answer(
            416,
            msgspec.json.encode({"error": error}),
            headers=(*SAFETY_HEADERS, (b"content-range", b"bytes */%d" % row.size)),
        )
    status, start, stop = 200, 0, row.size
    if isinstance(part, tuple):
        start, stop = part
        status = 206
        headers = (*headers, (b"content-range", b"bytes %d-%d/%d" % (start, stop - 1, row.size)))
    kind = content_type(row.said)
    body_id = row.body_id
    if body_id is None:
        return Answer(status, (row.body or b"")[start:stop], kind, headers)

    @trio.as_safe_channel
    async def pieces() -> AsyncGenerator[bytes, None]:
        for n in range(start // CHUNK_BYTES, (stop - 1) // CHUNK_BYTES + 1):
            piece = await service.body_piece(body_id, n)
            at = n * CHUNK_BYTES
            yield piece[max(start - at, 0) : stop - at]

    return StreamedAnswer(status, pieces, kind, stop - start, headers)
