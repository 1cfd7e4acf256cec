"""What the twins are made to do of the mesh, and what is then read: part of `test_twins_agree`."""

from typing import Any

from msgspec.structs import replace

from storage.mail_records import Recipient
from storage.mesh_records import SentMessage
from storage.protocols import Snapshot, Tx
from storage.records import NewEntry
from tests.contract.builders import START_US, put
from tests.contract.mail import record
from tests.contract.mesh import plain, presence, wake

AGENTS = ("x", "y")
MACHINES = ("m", "n")
RUNS = ((3, 4), (6, 6))


class MeshSteps:
    """Steps of a unit, as those of `World`, which has the rest."""

    _inboxes: list[int]

    def make_machine(self, tx: Tx, which: int, n: int) -> None:
        tx.create_machine(MACHINES[n % 2], self._inbox(which))

    def make_agent_on(self, tx: Tx, which: int, n: int) -> None:
        tx.create_agent(AGENTS[n % 2], self._inbox(which), MACHINES[which % 2])

    def agents_on(self, tx: Tx, which: int, n: int) -> list[tuple[str, int | None]]:
        return [(one.agent_id, gone_at) for one, gone_at in tx.machine_agents(MACHINES[n % 2])]

    def put_presence(self, tx: Tx, which: int, n: int) -> None:
        tx.put_presence(presence(AGENTS[which % 2], last_activity_at=n, gone_at=n if n % 2 else None))

    def touch_presences(self, tx: Tx, which: int, n: int) -> None:
        tx.touch_presences([presence(agent_id, card=b"[]", last_activity_at=n) for agent_id in AGENTS])

    def put_wake_target(self, tx: Tx, which: int, n: int) -> None:
        tx.put_wake_target(wake(AGENTS[which % 2], b"s" * n if n % 3 else None, failures=n))

    def drop_wake_target(self, tx: Tx, which: int, n: int) -> bool:
        return tx.drop_wake_target(AGENTS[which % 2])

    def mark_served(self, tx: Tx, which: int, n: int) -> None:
        tx.mark_receipts_served(self._inbox(which), [n, n + 1], n)

    def mark_acked(self, tx: Tx, which: int, n: int) -> None:
        tx.mark_receipts_acked(self._inbox(which), [n, n + 2], n)

    def mark_passed(self, tx: Tx, which: int, n: int) -> None:
        tx.mark_receipts_passed(self._inbox(which), n // 2, n, n)

    def send_noted(self, tx: Tx, which: int, n: int) -> None:
        home = self._inbox(which)
        new = self._entry(tx.head(home).latest_seq + 1, delivery=record(1), expires_at=n)
        put(tx, home, [new])
        others = sorted({self._inbox(which + 1), self._inbox(which + 2)} - {home})
        tx.add_recipients(tx.last_mid, [Recipient(home, new.seq, n), *map(Recipient, others)])
        tx.remember_sent_log(self._inbox(n), new.id, tx.last_mid, n, "note", new.expires_at)

    # -- looking ------------------------------------------------------------------------------------------
    def _mesh(self, snapshot: Snapshot) -> list[Any]:
        found: list[Any] = [snapshot.presences(), [plain(one) for one in snapshot.wake_targets()]]
        found += [replace(one, inbox_id=self._nth(one.inbox_id)) for one in snapshot.machines()]
        for sender in self._inboxes:
            for before, limit, now in ((None, 9, 0), ((5).to_bytes(16, "big"), 2, 6), (None, 9, START_US)):
                found += [self._named(one) for one in snapshot.sent_by(sender, before, limit, now, 4)]
        return found

    def _mesh_of(self, snapshot: Snapshot, inbox_id: int) -> list[Any]:
        ids = [id.to_bytes(16, "big") for id in range(12)]
        found: list[Any] = [snapshot.seqs_of_ids(inbox_id, ids), snapshot.rows_at(inbox_id, range(12))]
        for after, acked, now, limit in ((0, (), 0, 99), (2, RUNS, 5, 99), (1, RUNS, 0, 3)):
            found.append(snapshot.unread(inbox_id, after, acked, now, limit))
        return found

    def _named(self, sent: SentMessage) -> SentMessage:
        receipts = tuple(replace(one, inbox_id=self._nth(one.inbox_id)) for one in sent.receipts)
        return replace(sent, receipts=receipts)

    def _nth(self, inbox_id: int) -> int:
        """Return which inbox this is, of those that were ever made."""
        return self._inboxes.index(inbox_id)

    def _inbox(self, which: int) -> int:
        raise NotImplementedError

    def _entry(self, seq: int, **fields: Any) -> NewEntry:
        raise NotImplementedError
