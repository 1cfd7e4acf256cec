"""Reading the in-memory store: `MemorySnapshot` keeps `storage.protocols.Snapshot`.

A snapshot needs no copy: a look runs in one step of the scheduler, in which nothing else changes the store.
"""

import json
import math
import re
from collections.abc import Collection, Iterable, Sequence
from itertools import islice

import msgspec
from msgspec.structs import replace

from storage.errors import BodyGone
from storage.memory_log import MemoryLogReads
from storage.memory_mail import MemoryMailReads
from storage.memory_search import MemorySearchReads
from storage.memory_state import MemoryEntry, MemoryState
from storage.records import (
    Head,
    InboxListing,
    InboxRecord,
    Page,
    PageQuery,
    StoredMessage,
    TokenRecord,
)

MAX_JSON_DEPTH = 100
"""Deeper nesting is shown as text (surface, section 3), since clients' parsers give up at varying depths."""

_STRING_OR_BRACKET = re.compile(rb'"(?:[^"\\]++|\\.)*+"|[\[\]{}]', re.DOTALL)


class MemorySnapshot(MemoryMailReads, MemoryLogReads, MemorySearchReads):
    """The store at this step of the scheduler."""

    def __init__(self, state: MemoryState) -> None:
        self._state = state

    def head(self, inbox_id: int) -> Head:
        """Return the inbox's head. Raises `InboxGone`."""
        return self._state.live(inbox_id).head

    def inbox(self, inbox_id: int) -> InboxListing:
        """Return record (with secrets) and head. Raises `InboxGone`."""
        inbox = self._state.live(inbox_id)
        return InboxListing(inbox.record, inbox.head)

    def inbox_by_slug(self, slug: str) -> InboxListing | None:
        """Return record (with secrets) and head of a live inbox."""
        inbox_id = self._state.slugs.get(slug)
        return None if inbox_id is None else self.inbox(inbox_id)

    def inboxes(self, slugs: Sequence[str] | None, after_slug: str, limit: int) -> list[InboxListing]:
        """Return live inboxes by slug, ascending, strictly after `after_slug`, without their secrets."""
        known = self._state.slugs
        found: list[InboxListing] = []
        for slug in sorted(known if slugs is None else known.keys() & set(slugs)):
            if len(found) == limit:
                break
            inbox = self._state.live(known[slug])
            if slug > after_slug and (slugs is not None or inbox.record.kind in ("webhook", "topic")):
                found.append(InboxListing(replace(inbox.record, secrets=()), inbox.head))
        return found

    def inboxes_verified_by(self, verifiers: Collection[str], after_id: int, limit: int) -> list[InboxRecord]:
        """Return live inboxes with one of these verifiers, by id."""
        found = (
            replace(inbox.record, secrets=())
            for inbox_id, inbox in sorted(self._state.inboxes.items())
            if inbox.alive and inbox_id > after_id and inbox.record.settings.verifier in verifiers
        )
        return list(islice(found, limit))

    def due(self, now_us: int, limit: int) -> list[int]:
        """Return the inboxes whose oldest entry has come of age, longest due first."""
        due = [
            (inbox.head.due_at, inbox_id)
            for inbox_id, inbox in self._state.inboxes.items()
            if inbox.alive and inbox.head.due_at is not None and inbox.head.due_at <= now_us
        ]
        return [inbox_id for _, inbox_id in sorted(due)[:limit]]

    def page(self, query: PageQuery) -> Page:
        """Return one page of entries with the head of the same moment. Raises `InboxGone`."""
        inbox = self._state.live(query.inbox_id)
        rows: list[StoredMessage] = []
        budget = query.byte_budget
        for seq in _seqs(inbox.head, query):
            row = inbox.visible(seq)
            if row is None or not _wanted(row, query):
                continue
            shown = row.shown(query.body_limit)
            if len(rows) == query.limit or budget < 0:
                return Page(inbox.head, rows, exhausted=False)
            rows.append(shown)
            budget -= len(shown.facts) + len(shown.said) + len(shown.body or b"")
        return Page(inbox.head, rows, exhausted=True)

    def message(self, inbox_id: int, seq: int, body_limit: int) -> tuple[Head, StoredMessage | None]:
        """Return one entry; its body when it is inline and at most `body_limit` bytes. Raises `InboxGone`."""
        inbox = self._state.live(inbox_id)
        row = inbox.visible(seq)
        return inbox.head, None if row is None else row.shown(body_limit)

    def chunk(self, body_id: int, n: int) -> bytes:
        """Return piece `n` of a large body. Raises `BodyGone`."""
        body = self._state.bodies.get(body_id)
        if body is None or not 0 <= n < len(body.pieces):
            raise BodyGone(f"piece {n} of body {body_id} is not there")
        return body.pieces[n]

    def body(self, body_id: int, size: int) -> bytes:
        """Return a whole large body of `size` bytes. Raises `BodyGone` unless every byte is there."""
        body = self._state.bodies.get(body_id)
        whole = b"" if body is None else b"".join(body.pieces)
        if body is None or len(whole) != size:
            raise BodyGone(f"body {body_id} has not {size} bytes any more")
        return whole

    def is_json(self, body: bytes) -> bool:
        """Whether the bytes are JSON that every decoder reads; decided by decoding them in full."""
        try:
            msgspec.json.decode(body)
            json.loads(body, parse_int=_finite, parse_float=_finite)
        except (ValueError, OverflowError, RecursionError):
            return False
        return _depth(body) <= MAX_JSON_DEPTH

    def tokens(self) -> list[TokenRecord]:
        """Return every token, revoked ones included, in the order of their ids."""
        return [self._state.tokens[token_id] for token_id in sorted(self._state.tokens)]


def _finite(number: str) -> float:
    value = float(number)
    if math.isinf(value):
        raise OverflowError("no double holds this number")
    return value


def _seqs(head: Head, query: PageQuery) -> Iterable[int]:
    """Return the seqs to look at, in the order of reading. Dense numbers make a range do for an index."""
    if query.after is not None:
        return range(max(query.after + 1, head.first_seq), head.latest_seq + 1)
    newest = head.latest_seq if query.before is None else min(query.before - 1, head.latest_seq)
    return range(newest, head.first_seq - 1, -1)


def _wanted(row: MemoryEntry, query: PageQuery) -> bool:
    return (
        (not query.types or row.event_type in query.types)
        and (query.verified is None or row.verified == query.verified)
        and (query.since_us is None or row.received_at >= query.since_us)
        and (query.until_us is None or row.received_at < query.until_us)
    )


def _depth(body: bytes) -> int:
    """Return how deep arrays and objects nest in valid JSON."""
    depth = deepest = 0
    for found in _STRING_OR_BRACKET.findall(body):
        if found in b"[{":
            depth += 1
            deepest = max(deepest, depth)
        elif found in b"]}":
            depth -= 1
    return deepest
