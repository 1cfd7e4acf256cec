"""A message as routing reads it: who sent it, and what matching looks at. Pure, and bounded as `matching.texts` is.

What cannot be read as its kind is said to look is matched by what can: no message may stop the one reader of the log.
"""

from typing import TypeVar

import msgspec

from actors.rules.matching.judging import MatchInput
from actors.rules.matching.scoring import WEBHOOK_SALIENCE
from actors.rules.matching.texts import published_terms, webhook_terms
from storage.mail_records import Content, Routable

WEBHOOK, MESSAGE = "webhook", "message"

T = TypeVar("T")


class Letter(msgspec.Struct, frozen=True, gc=False):
    """A message with its place in the log. `sender`: the agent that wrote it, None for a webhook."""

    row: Routable
    sender: str | None
    input: MatchInput


class _Facts(msgspec.Struct, frozen=True, gc=False):
    sender: str | None = None


class _Received(msgspec.Struct, frozen=True, gc=False):
    content_type: str | None = None


class _Published(msgspec.Struct, frozen=True, gc=False):
    subject: str = ""
    tags: tuple[str, ...] = ()
    salience: float = WEBHOOK_SALIENCE


_facts = msgspec.json.Decoder(_Facts)
_received = msgspec.json.Decoder(_Received)
_published = msgspec.json.Decoder(_Published)


def kind_of(row: Routable) -> str:
    """Return a message's kind, which its inbox and its event type say: an agent's is its event type."""
    if row.kind == "topic":
        return row.event_type
    return WEBHOOK if row.kind == "webhook" else MESSAGE


def letter_of(row: Routable, content: Content) -> Letter:
    """Return a message as matching and routing look at it."""
    body = content.body or b""
    if row.kind == "topic":
        said = _decoded(_published, content.said, _Published())
        text = body.decode("utf-8", "replace")
        terms = published_terms(said.subject, text, said.tags, row.event_type)
        salience = min(1.0, max(0.0, said.salience))
    else:
        content_type = _decoded(_received, content.said, _Received()).content_type
        terms = webhook_terms(row.event_type, body, content.body_kind, content_type)
        salience = WEBHOOK_SALIENCE
    read = MatchInput(row.mid, row.received_at, row.slug, row.event_type, kind_of(row), salience, terms)
    return Letter(row, _decoded(_facts, content.facts, _Facts()).sender, read)


def _decoded(decoder: "msgspec.json.Decoder[T]", data: bytes, otherwise: T) -> T:
    try:
        return decoder.decode(data)
    except msgspec.DecodeError:
        return otherwise
