"""Mixed work for a store, from a seed: what senders, agents, administrators and the house do, by the units they use.

Every outcome goes into the ledger. The work is the same for the same seed: one thing after the other, and what is to
share a transaction is queued behind a unit that waits for it.
"""

import random
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import trio
import trio.testing

from actors.commands import (
    AckEach,
    ChangeInbox,
    Command,
    DeleteInbox,
    Deliver,
    DeliveryDraft,
    DropSecret,
    Erase,
    Pull,
    Purge,
    PutSecret,
    Refusal,
)
from actors.indexing import IndexSlice, MergeIndex, read_slice
from actors.turn import Turn
from actors.units import CreateInbox, DiscardBody, PutToken, StagePiece, SweepSlice
from storage.errors import StorageError
from storage.mail_records import Pending
from storage.protocols import Snapshot, Tx
from storage.records import BodyKind, InboxRecord, InboxSettings, NewInbox, Retention, TokenRecord
from storage.sqlite import SqliteStore
from tests.contract.builders import Do, secret
from tests.contract.mail import DELIVERY, make_agent
from tests.storage.power.disk import PowerDisk
from tests.storage.power.ledger import Box, Broken, Ledger, digest
from tests.storage.power.turns import Turns

GATE_SECONDS = 5.0
"""For the others to be queued; that takes microseconds."""

PIECE_BYTES = 9_000
AGENTS = ("a", "b")


class Work(Turns):
    """Does random things to a store, until its disk has no power. `disk_fails` arms a fault, whichever."""

    def __init__(
        self,
        store: SqliteStore,
        ledger: Ledger,
        rng: random.Random,
        tick: Callable[[], int],
        disk: PowerDisk,
        disk_fails: Callable[[], None],
        scratch: Path,
    ) -> None:
        super().__init__(store, ledger, rng, tick)
        self._disk = disk
        self._disk_fails = disk_fails
        self._scratch = scratch
        self._kinds: tuple[tuple[Callable[[], Any], int], ...] = (
            (self._send_to_one, 30),
            (self._send_together, 15),
            (self._send_large, 8),
            (self._send_again, 6),
            (self._write_mail, 6),
            (self._deliver, 12),
            (self._read_mail, 10),
            (self._erase, 6),
            (self._change_settings, 6),
            (self._keep_secret, 4),
            (self._issue_token, 3),
            (self._create, 4),
            (self._delete, 2),
            (self._purge, 2),
            (self._sweep, 8),
            (self._index, 8),
            (self._fold_in, 6),
            (self._back_up, 2),
            (self._look, 4),
            (self._fail, 4),
        )

    async def begin(self) -> None:
        """Make the first inboxes and the agents, where they are not yet."""
        while sum(not box.is_agent for box in self._ledger.boxes.values()) < 2:
            if not await self._create():
                return
        for agent_id in AGENTS:
            await self._create_agent(agent_id)

    async def some(self, count: int) -> None:
        """Do so many things."""
        kinds, weights = zip(*self._kinds, strict=True)
        for _ in range(count):
            if not self._ledger.boxes or self._disk.dead:
                return
            if self._store.health.state == "degraded" and self._rng.random() < 0.3:
                self._store._writer._upkeep._probe_at = 0.0  # as if the second until the next probe were over
            await self._rng.choices(kinds, weights)[0]()
            await self.note_commits()

    # -- senders --------------------------------------------------------------------------------
    async def _send_to_one(self) -> None:
        await self._turn(self._box(), *(self._draft(self._key()) for _ in range(self._rng.randint(1, 3))))

    async def _send_together(self) -> None:
        """Several inboxes' turns in one transaction."""
        self._tick()
        boxes = list(self._ledger.boxes.values())
        boxes = self._rng.sample(boxes, min(len(boxes), 4))
        asked = [
            (box, tuple(self._draft(self._key()) for _ in range(self._rng.randint(1, 2)))) for box in boxes
        ]
        gate = threading.Event()
        results: list[Any] = [None] * len(asked)

        async def commit(place: int, unit: Any) -> None:
            try:
                results[place] = await self._store.commit(unit)
            except StorageError as error:
                results[place] = error

        async def hold() -> None:
            try:
                await self._store.commit(Do(lambda _: gate.wait(GATE_SECONDS), grows=False))
            except StorageError:
                return

        async with trio.open_nursery() as nursery:
            nursery.start_soon(hold)
            await trio.testing.wait_all_tasks_blocked()
            for place, (box, commands) in enumerate(asked):
                nursery.start_soon(commit, place, Turn(box.inbox_id, None, commands))
            await trio.testing.wait_all_tasks_blocked()
            gate.set()
        for (box, commands), result in zip(asked, results, strict=True):
            self._noted(box, commands, result)

    async def _send_large(self) -> None:
        """A body in pieces, each a unit of its own; some are left lying there."""
        body_id: int | None = None
        pieces = [self._rng.randbytes(PIECE_BYTES) for _ in range(self._rng.randint(1, 3))]
        for n, piece in enumerate(pieces):
            staged = await self._commit(StagePiece(body_id, n, piece))
            if isinstance(staged, StorageError):
                return
            body_id = int(staged)
        assert body_id is not None
        end = self._rng.random()
        if end < 0.1:
            await self._commit(DiscardBody(body_id))
        elif end < 0.9:
            whole = b"".join(pieces)
            await self._turn(self._box(), self._append(whole, None, body_id, BodyKind.LARGE, self._key()))

    async def _send_again(self) -> None:
        """What providers do that were not answered: the same delivery id again."""
        box = self._box()
        if box.keys:
            await self._turn(box, self._draft(self._rng.choice(sorted(box.keys))))

    # -- agents --------------------------------------------------------------------------------
    def _agents(self) -> list[Box]:
        return [box for box in self._ledger.boxes.values() if box.is_agent]

    async def _write_mail(self) -> None:
        """A message to both agents: at home at one of them, still to be delivered to the other."""
        if len(self._agents()) == len(AGENTS):
            home, other = self._rng.sample(self._agents(), 2)
            await self._turn(home, self._mail(home, other))

    async def _deliver(self) -> None:
        """What a router does: messages that were sent to an agent, and others that it wants to hear of."""
        if not self._agents():
            return
        sent = await self._read(_sent) if self._rng.random() < 0.4 else None
        if sent:
            inbox_id = sent[0][0].inbox_id
            if box := self._ledger.boxes.get(inbox_id):
                await self._deliver_to(box, [(row, of) for row, of in sent if row.inbox_id == inbox_id])
            return
        found = await self._read(lambda snapshot: snapshot.routable(0, 1_000).rows) or []
        chosen = self._rng.sample(found, min(len(found), 3))
        await self._deliver_to(
            self._rng.choice(self._agents()),
            [
                (
                    Pending(row.mid, 0, row.inbox_id, row.event_type, row.verified, row.size, None, None),
                    row.id,
                )
                for row in chosen
            ],
        )

    async def _deliver_to(self, box: Box, rows: list[tuple[Pending, bytes]]) -> None:
        drafts = tuple(
            DeliveryDraft(
                row.mid, row.event_type, row.verified, row.size, row.home, None, row.delivery or DELIVERY
            )
            for row, _ in rows
        )
        result = await self._turn(box, Deliver(drafts))
        if result is not None:
            for (_, message_id), seq in zip(rows, result.outcomes[0], strict=True):
                if seq is not None:
                    box.kept[seq] = (message_id, self._ledger.sent[message_id])
            box.let_go()

    async def _read_mail(self) -> None:
        if not self._agents():
            return
        box = self._rng.choice(self._agents())
        command: Command
        if self._rng.random() < 0.6:
            ack = self._rng.randint(0, box.head.latest_seq)
            command = Pull(ack, None, None, 10, None, 1_000, 1 << 20)
        else:
            command = AckEach(tuple(self._rng.sample(sorted(box.kept), min(len(box.kept), 2))))
        result = await self._turn(box, command)
        if result is not None and not isinstance(result.outcomes[0], Refusal):
            box.cursors = {result.outcomes[0].cursor}

    # -- administrators --------------------------------------------------------------------------------
    async def _create(self) -> bool:
        slug = f"box-{len(self._ledger.sent)}-{self._rng.getrandbits(32):08x}"
        listing = await self._commit(CreateInbox(NewInbox(slug, "webhook", "first", InboxSettings())))
        if isinstance(listing, StorageError):
            return False
        box = Box(listing.record.inbox_id, slug, listing.head, names={"first"})
        self._ledger.boxes[box.inbox_id] = box
        return True

    async def _create_agent(self, agent_id: str) -> None:
        """Make an agent, or find it where nobody learnt whether it was made."""

        def make(tx: Tx) -> tuple[int, Any]:
            there = tx.agent(agent_id)
            inbox_id = make_agent(tx, agent_id).inbox_id if there is None else there.inbox_id
            return inbox_id, tx.head(inbox_id)

        if any(box.slug == f"agent.{agent_id}" for box in self._agents()):
            return
        made = await self._commit(Do(make))
        if not isinstance(made, StorageError):
            inbox_id, head = made
            self._ledger.boxes[inbox_id] = Box(inbox_id, f"agent.{agent_id}", head, is_agent=True)

    async def _delete(self) -> None:
        if len(self._ledger.boxes) > 3:
            await self._turn(self._box(), DeleteInbox())

    async def _change_settings(self) -> None:
        box = self._box()
        name = f"{self._rng.getrandbits(32):08x}"
        kept = Retention(max_messages=self._rng.choice((None, 3, 8, 20)))
        settings = InboxSettings(retention=kept, search=self._rng.random() < 0.5)

        def change(_: InboxRecord) -> tuple[str, InboxSettings]:
            return name, settings

        result = await self._turn(box, ChangeInbox(change))
        if result is not None:
            box.names = {name}
        elif box.wavers:
            box.names.add(name)

    async def _keep_secret(self) -> None:
        box = self._box()
        value = self._rng.randbytes(24)
        if self._rng.random() < 0.7:
            await self._turn(box, PutSecret(secret("current", value), lambda _: None))
        else:
            await self._turn(box, DropSecret("current"))

    async def _issue_token(self) -> None:
        token = self._rng.randbytes(16)
        await self._commit(
            PutToken(TokenRecord(token.hex(), digest(token), "admin", created_at=self._tick()))
        )

    async def _purge(self) -> None:
        await self._turn(self._box(), Purge())

    async def _erase(self) -> None:
        box = self._box(agent=self._rng.random() < 0.3)
        if box.kept:
            await self._turn(box, Erase(self._rng.choice(sorted(box.kept))))

    # -- the house --------------------------------------------------------------------------------
    async def _sweep(self) -> None:
        await self._commit(SweepSlice(self._rng.choice((5, 500)), 1 << 20))

    async def _fold_in(self) -> None:
        """What an idle store does after a second."""
        try:
            await self._store._writer.between(lambda upkeep: upkeep._checkpoint())
        except StorageError:
            return

    async def _back_up(self) -> None:
        try:
            await self._store.back_up(self._scratch / "backup.db", lambda done, of: None)
        except StorageError:
            return

    async def _index(self) -> None:
        """What the indexer does: the next slice of an inbox that is searched, or some tidying."""
        if self._rng.random() < 0.2:
            await self._commit(MergeIndex())
            return
        indexes = await self._read(lambda snapshot: snapshot.indexes())
        if not indexes:
            return
        inbox_id = self._rng.choice(indexes).inbox_id
        found = await self._read(lambda snapshot: read_slice(snapshot, inbox_id))
        if found is not None and found.through > found.after:
            await self._commit(IndexSlice(inbox_id, found.after, found.rows, found.through))

    async def _look(self) -> None:
        """Reads go on, and see what was stored."""
        box = self._box()
        head = await self._read(lambda snapshot: snapshot.head(box.inbox_id))
        if head is not None and not box.wavers and head != box.head:
            raise Broken(f"a reader sees {head} instead of {box.head}")

    async def _fail(self) -> None:
        self._disk_fails()


def _sent(snapshot: Snapshot) -> list[tuple[Pending, bytes]]:
    """Return what was sent and not delivered yet, with the ids of the messages."""
    rows = snapshot.pending((0, 0), snapshot.last_mid(), 5)
    ids = dict(snapshot.sql.rows("SELECT mid, id FROM message"))  # type: ignore[attr-defined]  # of SqliteSnapshot
    return [(row, ids[row.mid]) for row in rows]
