"""Agents, their beacons and their mail without a call for each: written through the storage layer.

An agent is what the server's own administration makes: a private inbox, a token, beacons. A delivery is what the router
makes of a message: the rows of one that was published to a topic inbox, and an entry of it in the agent's inbox. Both
are written in one transaction, with the log marked as routed.
"""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import msgspec

from actors.agents import CreateAgent, private_slug
from actors.rules.delivery import by_beacons
from actors.rules.matching.beacons import Spec
from actors.rules.matching.scoring import Heard, Match
from actors.tokens import hash_token, mint, new_token_id
from storage.mail_records import AgentRecord, BeaconRecord, NewDelivery
from storage.options import StorageOptions
from storage.protocols import Lane, Tx
from storage.records import InboxSettings, NewEntry, NewInbox, TokenRecord, Verdict
from storage.sqlite import OfflineStore, open_offline
from tests.bench.seeding import BATCH_ROWS, Write, advance, append, numbered
from tests.bench.signed import BODY_BYTES
from web.published import published_facts, published_said, text_kind

KIND = "note"
SUBJECT = "What came of it"

RECORD = by_beacons(Heard("reader", Match("reader", "interest", 0.8, ("deployment", "billing"))))
"""How a delivery came: as the router writes it for a beacon of two words, both of which were found."""


class Hearer(msgspec.Struct, frozen=True):
    """An agent to be made. `token` is its text; `beacon`: what it listens for, if anything."""

    agent_id: str
    token: str
    beacon: Spec | None = None


class MakeAgents(msgspec.Struct, frozen=True):
    """Make agents with their private inboxes, tokens for every inbox, and beacons."""

    hearers: Sequence[Hearer]
    lane: Lane = Lane.ANSWERS
    cost: int = 0
    grows: bool = True

    def run(self, tx: Tx) -> list[AgentRecord]:
        """Do it."""
        made = []
        for hearer in self.hearers:
            inbox = NewInbox(private_slug(hearer.agent_id), "agent", "", InboxSettings())
            token = TokenRecord(
                token_id=new_token_id(),
                hash=hash_token(hearer.token.encode()),
                kind="agent",
                inboxes=None,
                agent=hearer.agent_id,
            )
            agent, _ = CreateAgent(hearer.agent_id, inbox, token=token).run(tx)
            if hearer.beacon is not None:
                spec = msgspec.json.encode(hearer.beacon)
                tx.put_beacon(BeaconRecord(hearer.agent_id, hearer.beacon.name, spec, tx.last_mid, tx.now()))
            made.append(agent)
        return made


class Publish(msgspec.Struct, frozen=True):
    """Append the next messages of a topic inbox, and deliver each to one private inbox."""

    topic_id: int
    reader_id: int
    entries: Sequence[NewEntry]
    lane: Lane = Lane.ANSWERS
    cost: int = BATCH_ROWS * BODY_BYTES
    grows: bool = True

    def run(self, tx: Tx) -> None:
        """Do it. The deliveries get the same numbers and times as the messages."""
        mids = append(tx, self.topic_id, self.entries)
        deliveries = [
            NewDelivery(
                seq=entry.seq,
                mid=mid,
                delivered_at=entry.received_at,
                event_type=entry.event_type,
                verified=entry.verified,
                size=entry.size,
                origin=self.topic_id,
                expires_at=None,
                delivery=RECORD,
            )
            for mid, entry in zip(mids, self.entries, strict=True)
        ]
        tx.deliver(self.reader_id, deliveries)
        advance(tx, self.reader_id, self.entries[-1].received_at, [entry.size for entry in self.entries])
        tx.routed(mids[-1])


def hearer(agent_id: str, beacon: Spec | None = None) -> Hearer:
    """Return an agent to be made, with a new token."""
    return Hearer(agent_id, mint("agent"), beacon)


def make_agents(data_dir: Path, hearers: Sequence[Hearer], topics: Sequence[str]) -> None:
    """Make a database with these agents and topic inboxes."""
    with open_offline(StorageOptions(data_dir=data_dir), create=True) as store:
        for topic in topics:
            _make_topic(store, topic)
        for start in range(0, len(hearers), BATCH_ROWS):
            store.commit(MakeAgents(hearers[start : start + BATCH_ROWS]))


def fill_inbox(
    data_dir: Path,
    reader: Hearer,
    topic: str,
    texts: Sequence[str],
    count: int,
    progress: Callable[[int], None],
) -> None:
    """Make a database with one agent and `count` messages in its inbox, these texts in turn, all from one topic inbox.

    `progress` is told how many messages each transaction wrote.
    """
    with open_offline(StorageOptions(data_dir=data_dir), create=True) as store:
        topic_id = _make_topic(store, topic)
        [agent] = store.commit(MakeAgents([reader]))
        for entries in _batches([_message(text) for text in texts], topic_id, count):
            store.commit(Publish(topic_id, agent.inbox_id, entries))
            progress(len(entries))


def _make_topic(store: OfflineStore, slug: str) -> int:
    record = store.commit(Write(NewInbox(slug, "topic", slug, InboxSettings())))
    assert record is not None
    return record.inbox_id


def _batches(templates: Sequence[NewEntry], inbox_id: int, count: int) -> Iterator[list[NewEntry]]:
    for first in range(1, count + 1, BATCH_ROWS):
        last = min(first + BATCH_ROWS - 1, count)
        yield [numbered(templates[seq % len(templates)], inbox_id, seq) for seq in range(first, last + 1)]


def _message(text: str) -> NewEntry:
    """Return a published message as a template."""
    body = text.encode()
    return NewEntry(
        seq=0,
        id=b"",
        received_at=0,
        size=len(body),
        facts=published_facts("sender", len(body)),
        said=published_said(subject=SUBJECT, tags=(), type="created", kind=KIND),
        body_kind=text_kind(body),
        body=body,
        body_id=None,
        event_type=KIND,
        verified=Verdict.NONE,
    )
