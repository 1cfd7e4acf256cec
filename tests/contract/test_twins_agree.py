"""The same random units on both stores: the same outcomes, and afterwards the same to read.

The tests beside this one say what is right; this one finds what they did not think of.
"""

import itertools
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from storage import sealing, sweep
from storage.errors import InboxGone
from storage.mail_records import ReaderRecord, Recipient, Sent
from storage.memory import MemoryStore
from storage.options import StorageOptions
from storage.protocols import Log, Snapshot, Tx
from storage.records import BodyKind, InboxSettings, PageQuery, Seen
from storage.secret import SecretBytes
from storage.sqlite import open_store
from tests.contract.builders import (
    START_US,
    Do,
    See,
    entry,
    head_without,
    new_inbox,
    put,
    secret,
    stage,
    sweep_all,
)
from tests.contract.mail import beacon, delivery, give, record
from tests.contract.mesh_world import AGENTS, MeshSteps
from tests.contract.test_tokens import token

SLUGS = ("a", "b", "agent.c")
KEYS = tuple(bytes([n]) * 16 for n in range(3))
PIECES = (b"one", b"two")
ABSENT = 4_711

_examples = itertools.count()


class World(MeshSteps):
    """One store, with the ids that it gave out: the two stores need not number alike.

    Every public method is a step of a unit: `which` chooses among inboxes, bodies or tokens, `n` is one more
    number to play with.
    """

    def __init__(self, log: Log) -> None:
        self._log = log
        self._inboxes: list[int] = []
        self._bodies: list[int] = []
        self._ids = itertools.count(1)

    # -- steps --------------------------------------------------------------------------------------------
    def create(self, tx: Tx, which: int, n: int) -> None:
        slug = SLUGS[which % len(SLUGS)]
        new = new_inbox(slug, "agent" if "." in slug else "webhook", secrets=(secret("s"),))
        self._inboxes.append(tx.create_inbox(new).inbox_id)

    def delete(self, tx: Tx, which: int, n: int) -> None:
        tx.delete_inbox(self._inbox(which))

    def append(self, tx: Tx, which: int, n: int) -> None:
        first = tx.head(self._inbox(which)).latest_seq + 1
        put(tx, self._inbox(which), [self._entry(seq) for seq in range(first, first + n + 1)])

    def append_large(self, tx: Tx, which: int, n: int) -> None:
        seq = tx.head(self._inbox(which)).latest_seq + 1
        body_id = _chosen(self._bodies, n)
        size = sum(map(len, PIECES))
        large = self._entry(seq, body=None, body_id=body_id, body_kind=BodyKind.LARGE, size=size)
        put(tx, self._inbox(which), [large, self._entry(seq + 1)])

    def erase(self, tx: Tx, which: int, n: int) -> int | None:
        head = tx.head(self._inbox(which))
        size = tx.erase(self._inbox(which), n)
        if size is not None:
            tx.advance(self._inbox(which), head, head_without(head, 1, size))
        return size

    def drop(self, tx: Tx, which: int, n: int) -> None:
        head = tx.head(self._inbox(which))
        first = min(max(head.first_seq, n), head.latest_seq + 1)
        tx.drop_before(self._inbox(which), first)
        tx.advance(self._inbox(which), head, head_without(head, 0, 0, first_seq=first))

    def remember(self, tx: Tx, which: int, n: int) -> None:
        tx.head(self._inbox(which))
        tx.remember(self._inbox(which), [(KEYS[n % len(KEYS)], Seen(n, bytes(16), START_US + n))])

    def forget(self, tx: Tx, which: int, n: int) -> None:
        tx.forget_seen(START_US + n, 1_000)

    def change(self, tx: Tx, which: int, n: int) -> None:
        tx.change_inbox(self._inbox(which), f"name {n}", InboxSettings(rate_per_minute=n))

    def put_secret(self, tx: Tx, which: int, n: int) -> None:
        tx.put_secret(self._inbox(which), secret("st"[n % 2], bytes([n]), START_US + n))

    def drop_secret(self, tx: Tx, which: int, n: int) -> bool:
        return tx.drop_secret(self._inbox(which), "st"[n % 2])

    def put_token(self, tx: Tx, which: int, n: int) -> None:
        tx.put_token(token(f"t{which % 3}", name=str(n)))

    def touch(self, tx: Tx, which: int, n: int) -> None:
        tx.touch_tokens([(f"t{which % 3}", START_US + n)])

    def stage(self, tx: Tx, which: int, n: int) -> None:
        self._bodies.append(stage(tx, PIECES))

    def discard(self, tx: Tx, which: int, n: int) -> None:
        tx.discard_body(_chosen(self._bodies, which))

    def sweep(self, tx: Tx, which: int, n: int) -> None:
        # To the end, because slices need not be cut alike.
        while tx.sweep(n + 1, 1 << 20, routed_only=bool(n % 2)).more:
            pass

    def make_agent(self, tx: Tx, which: int, n: int) -> None:
        tx.create_agent(AGENTS[n % len(AGENTS)], self._inbox(which))

    def deliver(self, tx: Tx, which: int, n: int) -> list[int]:
        first = tx.head(self._inbox(which)).latest_seq + 1
        mids = sorted(tx.undelivered(self._inbox(which), range(n, n + 4)))
        new = [delivery(seq, mid, self._inbox(n)) for seq, mid in enumerate(mids, first)]
        if new:
            give(tx, self._inbox(which), new)
        return mids

    def send(self, tx: Tx, which: int, n: int) -> None:
        seq = tx.head(self._inbox(which)).latest_seq + 1
        put(tx, self._inbox(which), [self._entry(seq, delivery=record(n / 12), expires_at=n)])
        others = {self._inbox(which + 1), self._inbox(which + 2)} - {self._inbox(which)}
        recipients = [Recipient(self._inbox(which), seq, n), *map(Recipient, sorted(others))]
        tx.add_recipients(tx.last_mid, recipients)

    def put_reader(self, tx: Tx, which: int, n: int) -> None:
        tx.put_reader(
            self._inbox(which), "self", ReaderRecord(n, n + 1, 0, ((n + 2, n + 3),), ((n + 4, n + 5),))
        )

    def put_beacon(self, tx: Tx, which: int, n: int) -> None:
        tx.put_beacon(beacon(AGENTS[which % len(AGENTS)], "st"[n % 2], placed_mid=tx.last_mid))

    def drop_beacon(self, tx: Tx, which: int, n: int) -> bool:
        return tx.drop_beacon(AGENTS[which % len(AGENTS)], "st"[n % 2])

    def count_beacon(self, tx: Tx, which: int, n: int) -> None:
        tx.count_beacon(AGENTS[which % len(AGENTS)], "st"[n % 2], n % 3, n, 1)

    def remember_sent(self, tx: Tx, which: int, n: int) -> None:
        tx.head(self._inbox(which))
        tx.remember_sent(self._inbox(which), KEYS[n % len(KEYS)], Sent(b"h", bytes([n]), START_US + n))

    def routed(self, tx: Tx, which: int, n: int) -> None:
        tx.routed(min(n, tx.last_mid))

    def fail(self, tx: Tx, which: int, n: int) -> None:
        raise RuntimeError("this step always fails")

    # -- running and looking ------------------------------------------------------------------------------
    async def _unit(self, steps: list[tuple[str, int, int]]) -> Any:
        """Run steps as one unit; return what came of each, or the error of all."""
        before = (list(self._inboxes), list(self._bodies))
        try:
            return await self._log.commit(
                Do(lambda tx: [getattr(self, name)(tx, which, n) for name, which, n in steps])
            )
        except Exception as error:
            self._inboxes, self._bodies = before
            return type(error)

    async def _view(self) -> list[Any]:
        """Return everything that can be read, without the ids that are the store's own."""
        remembered = await self._log.commit(Do(self._remembered))
        return [remembered, *await self._log.read(See(self._visible))]

    def _remembered(self, tx: Tx) -> list[Any]:
        found: list[Any] = []
        for inbox_id in self._inboxes:
            try:
                tx.head(inbox_id)
                found.append(sorted(tx.seen(inbox_id, KEYS)))
                found.append([tx.sent(inbox_id, key) for key in KEYS])
                found.append(tx.undelivered(inbox_id, range(1, tx.last_mid + 2)))
            except InboxGone:
                found.append(None)
        return found

    def _visible(self, snapshot: Snapshot) -> list[Any]:
        found: list[Any] = [snapshot.tokens(), snapshot.beacons(), snapshot.routed_mid()]
        found += [replace(one, inbox_id=self._nth(one.inbox_id), created_at=0) for one in snapshot.agents()]
        found += self._log_of(snapshot) + self._mesh(snapshot)
        for listing in snapshot.inboxes(SLUGS, "", len(SLUGS)):
            record = listing.record
            secrets = snapshot.inbox(record.inbox_id).record.secrets
            found.append((record.slug, record.name, record.settings, replace(listing.head, epoch="")))
            found.append([(one.name, one.value.reveal(), one.added_at) for one in secrets])
            found += self._mail(snapshot, record.inbox_id) + self._mesh_of(snapshot, record.inbox_id)
            for after, types in itertools.product((0, None), ((), ("a",))):
                query = PageQuery(record.inbox_id, 1_000, after=after, types=types, body_limit=100)
                page = snapshot.page(query)
                found += [page.exhausted, [replace(row, body_id=None) for row in page.rows]]
                found += [
                    snapshot.body(row.body_id, row.size) for row in page.rows if row.body_id is not None
                ]
        return found

    def _log_of(self, snapshot: Snapshot) -> list[Any]:
        log = snapshot.routable(0, 1_000)
        assert snapshot.routable_before(log.through + 1, 1_000).rows == log.rows[::-1]
        mids = range(1, log.through + 1)
        pending = snapshot.pending((0, 0), log.through, 1_000)
        return [
            log.through,
            [replace(row, inbox_id=self._nth(row.inbox_id)) for row in log.rows],
            snapshot.contents(mids, 100, 1 << 20),
            [replace(one, inbox_id=self._nth(one.inbox_id), home=self._nth(one.home)) for one in pending],
            [
                replace(one, inbox_id=self._nth(one.inbox_id))
                for mid in mids
                for one in snapshot.receipts(mid)
            ],
        ]

    def _mail(self, snapshot: Snapshot, inbox_id: int) -> list[Any]:
        rows = snapshot.window(inbox_id, 0, 1_000, 100).rows
        shown = snapshot.deliveries(inbox_id, [row.seq for row in rows], 100)
        assert [one.seq for one in shown] == [row.seq for row in rows]
        return [
            snapshot.reader(inbox_id, "self"),
            rows,
            [replace(one, body_id=None, home_epoch="") for one in shown],
            [snapshot.next_seq(inbox_id, seq) for seq in range(20)],
        ]

    def _inbox(self, which: int) -> int:
        return _chosen(self._inboxes, which)

    def _entry(self, seq: int, **fields: Any) -> Any:
        """Return an entry whose body is of the size that `delivery` says, so that either may be told to be erased."""
        id = next(self._ids).to_bytes(16, "big")
        return entry(seq, id=id, event_type="ab"[seq % 2], **{"body": b"body%05d" % seq, **fields})


def clock() -> int:
    """Return the time of both, which stands still: it is compared, too."""
    return START_US + 1


def _chosen(of: list[int], which: int) -> int:
    """Return one of the ids, the newest for 0."""
    return of[-1 - which % len(of)] if of else ABSENT


STEPS = tuple(name for name in (*vars(World), *vars(MeshSteps)) if not name.startswith("_"))
OFTEN = (
    "deliver",
    "deliver",
    "send",
    "send_noted",
    "send_noted",
    "mark_acked",
    "mark_passed",
    "append",
    "append",
    "append_large",
    "append_large",
    "stage",
    "stage",
    "erase",
    "drop",
)

steps = st.tuples(st.sampled_from(STEPS + OFTEN), st.integers(0, 5), st.integers(0, 12))
units = st.lists(st.lists(steps, min_size=1, max_size=4), min_size=5, max_size=30)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(units=units, sealed=st.booleans())
async def test_both_stores_do_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, units: list[list[tuple[str, int, int]]], sealed: bool
) -> None:
    monkeypatch.setattr(sealing, "SCRYPT_N", 2)  # or most of the time would go into making keys
    monkeypatch.setattr(sweep, "SLICE_SECONDS", 60)
    key = SecretBytes(b"k" * 32) if sealed else None
    options = StorageOptions(data_dir=tmp_path / str(next(_examples)), secret_key=key)
    memory = MemoryStore(clock=clock)
    async with AsyncExitStack() as stack:
        sqlite = await stack.enter_async_context(open_store(options, clock=clock))
        twins = [World(memory), World(sqlite)]
        for unit in [[("create", 0, 0)], *units]:
            one, other = [await twin._unit(unit) for twin in twins]
            assert one == other, unit
        one, other = [await twin._view() for twin in twins]
        assert one == other
    memory.reopen()
    async with open_store(options, clock=clock) as sqlite:
        twins[1]._log = sqlite
        for twin in twins:
            await sweep_all(twin._log, max_rows=7)
        one, other = [await twin._view() for twin in twins]
        assert one == other
