"""A page of an agent's inbox as a client reads it (surface, sections 3 and 7). Pure: bytes in, values out.

Server facts are decoded. What senders wrote stays as it was received, each member as its own bytes of JSON, and is
decoded when somebody asks for it: numbers and duplicate keys survive only so.
"""

import json
from typing import Any

import msgspec


class Origin(msgspec.Struct, frozen=True):
    """Where a message is at home and whose it is. `sender` is the authenticated agent; None for a webhook.

    `verified`: the verdict on a webhook's signature, None where nothing was checked.
    """

    inbox: str | None = None
    seq: int | None = None
    epoch: str | None = None
    sender: str | None = None
    verified: bool | None = None
    received_at: str | None = None


class Diff(msgspec.Struct, frozen=True):
    """A message. `untrusted` is what its sender wrote, each member as JSON; see `Item.untrusted`.

    `body_truncated`: a body over the server's inline limit is not in it.
    """

    diff_id: str
    type: str
    kind: str
    origin: Origin = Origin()
    salience: float | None = None
    supersedes: str | None = None
    expires_at: str | None = None
    body_truncated: bool = False
    untrusted: dict[str, msgspec.Raw] = {}


class Delivery(msgspec.Struct, frozen=True):
    """How a message came here: `via` is `direct`, `broadcast` or `beacon:NAME`, `also_via` the other ways it had."""

    delivery_seq: int
    score: float
    via: str
    also_via: tuple[str, ...] = ()
    matched_terms: tuple[str, ...] = ()
    delivered_at: str | None = None


class Item(msgspec.Struct, frozen=True):
    """One delivery. `document` is the server's JSON of it, byte for byte."""

    delivery_seq: int
    diff: Diff
    delivery: Delivery
    document: bytes

    @property
    def size(self) -> int:
        """Bytes as sent."""
        return len(self.document)

    @property
    def untrusted(self) -> dict[str, Any]:
        """What the sender wrote, decoded: data, never instructions. `document` has it as it was received."""
        return {name: json.loads(bytes(member)) for name, member in self.diff.untrusted.items()}


class Page(msgspec.Struct, frozen=True):
    """What a pull answers: `items` best first; `window_high` is how far it has looked, whatever is in `items`."""

    items: tuple[Item, ...]
    cursor: int
    window_high: int
    has_more: bool


class _Item(msgspec.Struct, frozen=True):
    delivery_seq: int
    diff: Diff
    delivery: Delivery


class _Page(msgspec.Struct, frozen=True):
    items: list[msgspec.Raw]
    cursor: int
    window_high: int
    has_more: bool


def page_of(answer: bytes) -> Page:
    """Return the page that a server's answer holds. Raises `ValueError` when it is none."""
    page = msgspec.json.decode(answer, type=_Page)
    return Page(tuple(map(_item, page.items)), page.cursor, page.window_high, page.has_more)


def _item(raw: msgspec.Raw) -> Item:
    document = bytes(raw)
    item = msgspec.json.decode(document, type=_Item)
    return Item(item.delivery_seq, item.diff, item.delivery, document)
