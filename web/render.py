"""Messages and pages as JSON bytes, spliced from stored fragments: facts, claims and body are never
encoded again.

Pure functions. The order of fields is the order of the table in section 3 of the surface. A page is cut
by what it costs *as sent*; what embeds a page in something larger (an MCP result carries it twice)
passes its own `measure`.
"""

from base64 import b64encode
from collections.abc import Callable, Sequence

import msgspec

from actors.tail import TailEntry
from storage.mail_records import Delivered
from storage.records import BodyKind, Head, Page, StoredMessage
from web.errors import ApiError
from web.grammar import format_time, ulid_text
from web.mesh_messages import is_mesh, mesh_claims
from web.published import is_published, message_claims

Measure = Callable[[bytes], int]
"""What a fragment costs as sent, in bytes. Additive over concatenation."""


class Cost(msgspec.Struct, frozen=True):
    """How an answer is sent: `measure` gives what a fragment of it costs in bytes, which is at least `copies` times and
    at most `most` times its own. A page that fits by the bound is not measured piece by piece.
    """

    measure: Measure = len
    copies: int = 1
    most: int = 1


Body = tuple[int, bytes]
"""How a body is shown (one of `BodyKind`: JSON, TEXT or BYTES), and its bytes."""

CUT = b',"body_truncated":true'
"""The fact that a body was left out for its size."""

PLAIN = Cost()
"""As REST sends it: the bytes themselves, once."""

_WIDEST = 2**63 - 1  # a cursor with as many digits as there can be
_encode = msgspec.json.Encoder().encode


def message(
    slug: str, epoch: str, row: StoredMessage, *, bodies: bool, inline_limit: int, fact: bytes = b""
) -> bytes:
    """Return one message as it stands in a page; `fact` is a further member among the facts, with a comma before it.

    With `bodies`, a body of at most `inline_limit` bytes is included and a larger one is left out and marked
    `body_truncated`; a row that came without a body it has counts as larger.
    """
    body = inline_body(row, inline_limit) if bodies else None
    mark = CUT if bodies and body is None else b""
    return _splice(slug, epoch, row, mark + fact, untrusted(row.said, body))


def whole_message(
    slug: str,
    epoch: str,
    row: StoredMessage,
    *,
    message_bytes: int,
    base_url: str = "",
    large: bytes | None = None,
    large_kind: int = BodyKind.BYTES,
    measure: Measure = len,
) -> bytes:
    """Return one message with its whole body, for `get_message`.

    For a row whose body is kept in pieces, `large` is that body and `large_kind` what
    `web.claims.large_kind` says of it; check `refuse_oversized` before loading it. Raises `ApiError`
    `payload_too_large` when the answer would cost more than `message_bytes`; it names the `/raw` URL,
    below `base_url`.
    """
    body, kind = (row.body, row.body_kind) if large is None else (large, large_kind)
    if row.size == 0:
        body, kind = b"", BodyKind.TEXT
    else:
        refuse_oversized(slug, row, message_bytes=message_bytes, base_url=base_url)
    if body is None:
        raise ValueError("the whole message needs the whole body")
    text = _splice(slug, epoch, row, b"", untrusted(row.said, (kind, body)))
    if measure(text) > message_bytes:
        raise _too_large(slug, row, base_url)
    return text


def refuse_oversized(slug: str, row: StoredMessage, *, message_bytes: int, base_url: str = "") -> None:
    """Raise `payload_too_large` when the body alone shows that the message cannot be sent whole.

    No form of a body is shorter than its bytes, so this is known before a large body is loaded.
    """
    if row.size > message_bytes:
        raise _too_large(slug, row, base_url)


def raw_url(slug: str, seq: int, base_url: str = "") -> str:
    """Return the URL (a path when `base_url` is empty) of a message's raw bytes."""
    return f"{base_url.rstrip('/')}/v1/inboxes/{slug}/messages/{seq}/raw"


def forward_page(
    slug: str,
    page: Page,
    *,
    after: int,
    bodies: bool,
    inline_limit: int,
    page_bytes: int,
    cost: Cost = PLAIN,
    entries: Sequence[TailEntry] = (),
) -> bytes:
    """Return `{messages, latest_seq, epoch, gap, next_after}`, oldest first, of at most `page_bytes` as
    sent, but never fewer than one message if there is one.

    `gap` is 0 < after < first_seq − 1. `next_after` is the last seq returned when the page was cut by
    its limit or its size; else `latest_seq`, past everything that the filters skipped. `entries`: the page's rows as
    their inbox's tail has them, if they come from there; a text is then made once for all readers.
    """
    head = page.head
    gap = 0 < after < head.first_seq - 1
    texts = _texts(slug, page, entries, bodies=bodies, inline_limit=inline_limit)
    sent, whole = _take(page, texts, _forward_tail(head, gap, _WIDEST), page_bytes, cost)
    next_after = head.latest_seq if whole else page.rows[len(sent) - 1].seq
    return _join(sent, _forward_tail(head, gap, next_after))


def backward_page(
    slug: str,
    page: Page,
    *,
    bodies: bool,
    inline_limit: int,
    page_bytes: int,
    cost: Cost = PLAIN,
    entries: Sequence[TailEntry] = (),
) -> bytes:
    """Return `{messages, latest_seq, epoch, next_before}`, newest first, bounded like a forward page.

    `next_before` is null once the oldest match has been returned.
    """
    texts = _texts(slug, page, entries, bodies=bodies, inline_limit=inline_limit)
    sent, whole = _take(page, texts, _backward_tail(page.head, _WIDEST), page_bytes, cost)
    return _join(sent, _backward_tail(page.head, None if whole else page.rows[len(sent) - 1].seq))


def _texts(
    slug: str, page: Page, entries: Sequence[TailEntry], *, bodies: bool, inline_limit: int
) -> list[bytes]:
    epoch = page.head.epoch
    if not entries:
        return [message(slug, epoch, row, bodies=bodies, inline_limit=inline_limit) for row in page.rows]
    texts: list[bytes] = []
    variant = ("message", bodies)
    for entry in entries:
        text = entry.fragments.get(variant)
        if text is None:
            text = message(slug, epoch, entry.row, bodies=bodies, inline_limit=inline_limit)
            entry.keep(variant, text)
        texts.append(text)
    return texts


def _take(
    page: Page, texts: list[bytes], widest_tail: bytes, page_bytes: int, cost: Cost
) -> tuple[list[bytes], bool]:
    """Return the messages that fit, and whether they are all that there is in this direction."""
    size = len(_HEAD) + len(widest_tail) + len(texts) + sum(map(len, texts))
    if cost.most * size <= page_bytes:
        return texts, page.exhausted or not texts
    comma = cost.measure(b",")
    room = page_bytes - cost.measure(_HEAD + widest_tail)
    for n, text in enumerate(texts):
        room -= cost.measure(text)
        if room < 0 and n:
            return texts[:n], False
        room -= comma
    return texts, page.exhausted or not texts


_HEAD = b'{"messages":['


def _join(messages: Sequence[bytes], tail: bytes) -> bytes:
    return b"".join((_HEAD, b",".join(messages), tail))


def _forward_tail(head: Head, gap: bool, next_after: int) -> bytes:
    return b'],"latest_seq":%d,"epoch":%b,"gap":%b,"next_after":%d}' % (
        head.latest_seq,
        _encode(head.epoch),
        b"true" if gap else b"false",
        next_after,
    )


def _backward_tail(head: Head, next_before: int | None) -> bytes:
    return b'],"latest_seq":%d,"epoch":%b,"next_before":%b}' % (
        head.latest_seq,
        _encode(head.epoch),
        b"null" if next_before is None else b"%d" % next_before,
    )


def inline_body(row: StoredMessage | Delivered, inline_limit: int) -> Body | None:
    """Return a body that may be shown among others; None for one that is too large for that, or that did not come."""
    if row.size == 0:
        return BodyKind.TEXT, b""
    if row.size > inline_limit or row.body is None or row.body_kind == BodyKind.LARGE:
        return None
    return row.body_kind, row.body


def untrusted(said: bytes, body: Body | None) -> bytes:
    """Return what the sender chose as a JSON object, with the body unless that is None."""
    if is_published(said):
        return message_claims(said, None if body is None else body[1])
    if is_mesh(said):
        return mesh_claims(said, None if body is None else body[1])
    if body is None:
        return said
    member = _body_member(*body)
    return b"".join((said[:-1], member if len(said) > 2 else member[1:], b"}"))


def _splice(slug: str, epoch: str, row: StoredMessage, mark: bytes, claims: bytes) -> bytes:
    """Join identity, facts, `mark` (a further fact) and claims (an object).

    A slug and an epoch are of our own alphabets and need no escaping.
    """
    identity = (
        f'{{"id":"{ulid_text(row.id)}","inbox":"{slug}","seq":{row.seq},"epoch":"{epoch}",'
        f'"received_at":"{format_time(row.received_at)}"'
    )
    facts = row.facts
    return b"".join(
        (
            identity.encode(),
            b"," if len(facts) > 2 else b"",
            facts[1:-1],
            mark,
            b',"untrusted":',
            claims,
            b"}",
        )
    )


def _body_member(kind: int, body: bytes) -> bytes:
    if kind == BodyKind.JSON:
        return b',"body":%b' % body
    if kind == BodyKind.TEXT:
        return b',"body_text":%b' % _encode(body.decode())
    return b',"body_base64":"%b"' % b64encode(body)


def _too_large(slug: str, row: StoredMessage, base_url: str) -> ApiError:
    url = raw_url(slug, row.seq, base_url)
    return ApiError(
        "payload_too_large",
        f"The message is too large to be sent whole; its bytes are at {url}",
        details={"raw_url": url, "size": row.size},
    )
