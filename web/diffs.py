"""Deliveries as JSON bytes: diff and delivery record (surface, section 3), spliced from stored fragments.

A diff says first what the server knows, the sender's words stand under `untrusted`. Type, kind, salience and what a
message supersedes are chosen by the agent that published it, from closed sets and ranges, so no text of its own stands
among the facts. A webhook chooses none of them, nor does a message of the mesh.
"""

import msgspec

from storage.mail_records import Delivered
from web.grammar import format_time, ulid_text
from web.mesh_messages import is_mesh
from web.published import DEFAULT_SALIENCE, decode_said, diff_claims, is_published
from web.render import CUT, inline_body, untrusted

WEBHOOK_HEAD = (b'"created"', b'"webhook"', b"%g" % DEFAULT_SALIENCE, b"null")
MESSAGE_HEAD = (b'"created"', b'"message"', b"%g" % DEFAULT_SALIENCE, b"null")
SYSTEM_HEAD = (b'"created"', b'"system"', b"%g" % DEFAULT_SALIENCE, b"null")
"""Of what the server or its administrator wrote: a message of the mesh without a sender."""
NO_RECORD = b'{"score":0.0,"via":"direct","also_via":[],"matched_terms":[]}'
"""Of an entry that has none: whatever is in a private inbox was sent there."""

_encode = msgspec.json.Encoder().encode


class _Facts(msgspec.Struct, gc=False):
    """The facts of a message that stand under `origin`."""

    sender: str | None = None
    verified: bool | None = None


_facts = msgspec.json.Decoder(_Facts)


class Place(msgspec.Struct, frozen=True):
    """The private inbox that is read: a message that was sent to its agent has its origin here."""

    slug: str
    epoch: str


def diff(row: Delivered, reader: Place, *, inline_limit: int) -> bytes:
    """Return a delivery's message as a diff, with its body or text when that has at most `inline_limit` bytes."""
    body = inline_body(row, inline_limit)
    facts = _facts.decode(row.facts)
    if is_published(row.said):
        said = decode_said(row.said)
        head = _encode(said.type), _encode(said.kind), _encode(said.salience), _encode(said.supersedes)
        claims = diff_claims(said, None if body is None else body[1])
    else:
        head = WEBHOOK_HEAD
        if is_mesh(row.said):
            head = SYSTEM_HEAD if facts.sender is None else MESSAGE_HEAD
        claims = untrusted(row.said, body)
    return (
        b'{"diff_id":"%b","type":%b,"kind":%b,"origin":%b,"salience":%b,"supersedes":%b,"expires_at":%b%b,"untrusted":%b}'
        % (
            ulid_text(row.id).encode(),
            *head[:2],
            _origin(row, facts, reader),
            *head[2:],
            b"null" if row.expires_at is None else _time(row.expires_at),
            CUT if body is None else b"",
            claims,
        )
    )


def delivery(row: Delivered) -> bytes:
    """Return how and when a message came into the inbox, as a delivery record."""
    record = row.delivery or NO_RECORD
    return b'{"delivery_seq":%d,%b,"delivered_at":%b}' % (row.seq, record[1:-1], _time(row.delivered_at))


def item(seq: int, diff: bytes, delivery: bytes) -> bytes:
    """Return one item of a page."""
    return b'{"delivery_seq":%d,"diff":%b,"delivery":%b}' % (seq, diff, delivery)


def _origin(row: Delivered, facts: _Facts, reader: Place) -> bytes:
    """Return where a message is at home. Of one that was sent to the reader that is the reader's own inbox, also when
    it was sent to others before: their inboxes and numbers are none of the reader's business.
    """
    slug, seq, epoch = (
        (reader.slug, row.seq, reader.epoch) if row.own else (row.home, row.home_seq, row.home_epoch)
    )
    return b'{"inbox":%b,"seq":%d,"epoch":%b,"sender":%b,"verified":%b,"received_at":%b}' % (
        _encode(slug),
        seq,
        _encode(epoch),
        _encode(facts.sender),
        _encode(facts.verified),
        _time(row.received_at),
    )


def _time(time_us: int) -> bytes:
    return f'"{format_time(time_us)}"'.encode()
