"""Receipts: served, acknowledged and expired, each with its time, and what a sender is told of them."""

from collections.abc import Callable

import pytest

from storage.errors import UnitFailed
from storage.mail_records import Receipt
from storage.mesh_records import SentMessage
from storage.protocols import Log, Tx
from tests.contract.builders import (
    START_US,
    Do,
    create,
    delete,
    drop_before,
    entry,
    erase,
    message_id,
    sweep,
    sweep_all,
)
from tests.contract.conftest import OpenLog
from tests.contract.mail import agent, deliver, delivery, put_all, see
from tests.contract.mesh import LATER_US, machine, receipt, route, send, sent_by, times


class Mesh:
    """A machine with a sender `s` and readers `a`, `b`, by their inboxes. Messages go to both, by a broadcast."""

    def __init__(self, log: Log, home: int, sender: int, a: int, b: int) -> None:
        self.log, self.home, self.sender, self.a, self.b = log, home, sender, a, b

    async def broadcast(self, count: int = 1, expires_at: int | None = None) -> list[int]:
        """Send and deliver messages; return their mids. They get the next seqs in both inboxes."""

        def run(tx: Tx) -> list[int]:
            mids = [
                send(tx, self.sender, self.home, [self.a, self.b], expires_at=expires_at)
                for _ in range(count)
            ]
            for mid in mids:
                for to in (self.a, self.b):
                    route(tx, mid, self.home, to, expires_at)
            return mids

        return await self.log.commit(Do(run))

    async def do(self, of: Callable[[Tx], object]) -> None:
        await self.log.commit(Do(of))

    async def of_a(self, mids: list[int]) -> list[tuple[int | None, int | None, int | None]]:
        return [await times(self.log, mid, self.a) for mid in mids]


async def mesh(log: Log) -> Mesh:
    host = await machine(log)
    sender, a, b = [await agent(log, agent_id, "m") for agent_id in ("s", "a", "b")]
    return Mesh(log, host.inbox_id, sender.inbox_id, a.inbox_id, b.inbox_id)


# -- marks --------------------------------------------------------------------------------------------------
async def test_serving_is_noted_once_and_for_its_reader_alone(store: Log) -> None:
    at = await mesh(store)
    mids = await at.broadcast(3)
    await at.do(lambda tx: tx.mark_receipts_served(at.a, [3, 1, 4_711], 100))
    await at.do(lambda tx: tx.mark_receipts_served(at.a, [1, 2], 200))
    assert await at.of_a(mids) == [(100, None, None), (200, None, None), (100, None, None)]
    assert await times(store, mids[0], at.b) == (None, None, None)
    await at.do(lambda tx: tx.mark_receipts_served(at.a, [], 300))


async def test_acknowledging_serves_what_was_not_served_and_is_final(store: Log) -> None:
    at = await mesh(store)
    mids = await at.broadcast(3)
    await at.do(lambda tx: tx.mark_receipts_served(at.a, [1], 100))
    await at.do(lambda tx: tx.mark_receipts_acked(at.a, [1, 2], 200))
    assert await at.of_a(mids) == [(100, 200, None), (200, 200, None), (None, None, None)]
    await at.do(lambda tx: tx.mark_receipts_acked(at.a, [2], 300))
    await at.do(lambda tx: tx.mark_receipts_served(at.a, [2], 300))
    await at.do(lambda tx: tx.mark_receipts_passed(at.a, 0, 2, 300))
    assert await at.of_a(mids) == [(100, 200, None), (200, 200, None), (None, None, None)]
    assert await times(store, mids[1], at.b) == (None, None, None)


async def test_the_times_of_a_receipt_are_in_order_also_when_the_clock_was_set_back(store: Log) -> None:
    at = await mesh(store)
    later = {"received_at": 500}
    mids = [await store.commit(Do(lambda tx: send(tx, at.sender, at.a, [], **later))) for _ in range(4)]
    await at.do(lambda tx: tx.mark_receipts_served(at.a, [1], 100))
    assert (await at.of_a(mids))[0] == (500, None, None)
    await at.do(lambda tx: tx.mark_receipts_served(at.a, [2, 4], 600))
    await at.do(lambda tx: tx.mark_receipts_acked(at.a, [1, 2], 100))
    await at.do(lambda tx: tx.mark_receipts_passed(at.a, 2, 4, 100))
    assert await at.of_a(mids) == [(500, 500, None), (600, 600, None), (500, 500, None), (600, 600, None)]


async def test_a_cursor_acknowledges_what_it_passes_and_no_more(store: Log) -> None:
    at = await mesh(store)
    mids = await at.broadcast(5)
    await at.do(lambda tx: tx.mark_receipts_served(at.a, [3], 100))
    await at.do(lambda tx: tx.mark_receipts_passed(at.a, 1, 4, 200))
    untouched = (None, None, None)
    assert await at.of_a(mids) == [untouched, (200, 200, None), (100, 200, None), (200, 200, None), untouched]
    await at.do(lambda tx: tx.mark_receipts_passed(at.a, 4, 4, 300))
    await at.do(lambda tx: tx.mark_receipts_passed(at.a, 4, 0, 300))
    assert (await at.of_a(mids))[4] == untouched


async def test_what_had_expired_when_a_cursor_passed_it_was_not_read(store: Log) -> None:
    at = await mesh(store)
    mids = await at.broadcast(2, expires_at=150) + await at.broadcast(1, expires_at=151)
    await at.do(lambda tx: tx.mark_receipts_served(at.a, [1], 100))
    await at.do(lambda tx: tx.mark_receipts_passed(at.a, 0, 3, 150))
    assert await at.of_a(mids) == [(100, None, 150), (None, None, 150), (150, 150, None)]


async def test_an_acknowledgement_by_name_counts_also_when_it_comes_late(store: Log) -> None:
    at = await mesh(store)
    (mid,) = await at.broadcast(1, expires_at=150)
    await at.do(lambda tx: tx.mark_receipts_acked(at.a, [1], 200))
    assert await times(store, mid, at.a) == (200, 200, None)
    (sent,) = await sent_by(store, at.sender, now_us=300)
    of_a, of_b = sent.receipts
    assert (of_a.acked_at, of_a.expired_at) == (200, 150), "both are true, and both are told"
    assert (of_b.acked_at, of_b.expired_at) == (None, 150)


async def test_messages_of_others_and_without_receipts_change_nothing(store: Log) -> None:
    at = await mesh(store)
    source = await create(store)
    (mid,) = await put_all(store, source.inbox_id, [entry(1)])
    await deliver(store, at.a, [delivery(1, mid, source.inbox_id)])
    await at.do(lambda tx: tx.mark_receipts_served(at.a, [1], 100))
    await at.do(lambda tx: tx.mark_receipts_acked(at.a, [1], 100))
    await at.do(lambda tx: tx.mark_receipts_passed(at.a, 0, 9, 100))
    assert await see(store, lambda snapshot: snapshot.receipts(mid)) == []


async def test_what_is_still_to_be_delivered_is_neither_served_nor_acknowledged(store: Log) -> None:
    at = await mesh(store)
    mid = await store.commit(Do(lambda tx: send(tx, at.sender, at.home, [at.a, at.b])))
    await at.do(lambda tx: tx.mark_receipts_passed(at.a, 0, 1 << 40, 100))
    assert await receipt(store, mid, at.a) == Receipt(at.a, None, None, None, None, None)


async def test_marks_of_a_failed_unit_are_taken_back(store: Log) -> None:
    at = await mesh(store)
    mids = await at.broadcast(3)

    def everything(tx: Tx) -> None:
        tx.mark_receipts_served(at.a, [1], 100)
        tx.mark_receipts_acked(at.a, [2], 100)
        tx.mark_receipts_passed(at.a, 2, 3, 100)
        send(tx, at.sender, at.home, [at.a])
        raise RuntimeError

    with pytest.raises(UnitFailed):
        await at.do(everything)
    assert await at.of_a(mids) == [(None, None, None)] * 3
    assert len(await sent_by(store, at.sender)) == 3


# -- dropped unread -----------------------------------------------------------------------------------------
async def test_what_is_dropped_unread_has_expired_and_stays_so(store: Log) -> None:
    at = await mesh(store)
    mids = await at.broadcast(3)
    await at.do(lambda tx: tx.mark_receipts_acked(at.a, [1], 100))
    await at.do(lambda tx: tx.mark_receipts_served(at.a, [2], 110))
    before = await store.commit(Do(lambda tx: tx.now()))
    await drop_before(store, at.a, 3, rows=2)
    await at.do(lambda tx: tx.mark_receipts_passed(at.a, 0, 3, 200))
    assert (await at.of_a(mids))[1] == (110, None, None), "the cursor passes it without reading it"
    await sweep_all(store)
    after = await store.commit(Do(lambda tx: tx.now()))
    first, second, third = await at.of_a(mids)
    assert (first, third) == ((100, 100, None), (200, 200, None))
    assert second[:2] == (110, None)
    assert before <= (second[2] or 0) <= after
    await at.do(lambda tx: tx.mark_receipts_acked(at.a, [2], 300))
    assert (await at.of_a(mids))[1] == second


async def test_it_has_expired_when_it_was_said_to_if_that_was_earlier(store: Log) -> None:
    at = await mesh(store)
    early, late = *await at.broadcast(1, expires_at=150), *await at.broadcast(1, expires_at=LATER_US)
    await drop_before(store, at.a, 3, rows=2)
    await sweep_all(store)
    assert await times(store, early, at.a) == (None, None, 150)
    found = await times(store, late, at.a)
    assert found[2] is not None
    assert found[2] < LATER_US


async def test_what_is_erased_unread_has_expired_as_well(store: Log) -> None:
    at = await mesh(store)
    mids = await at.broadcast(2)
    await erase(store, at.a, 1)
    first, second = await at.of_a(mids)
    assert first[:2] == (None, None)
    assert first[2] is not None
    assert second == (None, None, None)


# -- what was sent ------------------------------------------------------------------------------------------
async def test_a_sender_is_shown_the_newest_first_page_by_page(open_log: OpenLog) -> None:
    async with open_log() as log:
        at = await mesh(log)
        mids = await at.broadcast(5)
        other = await agent(log, "other")
        await log.commit(Do(lambda tx: send(tx, other.inbox_id, at.a, [])))
    async with open_log() as log:
        assert [one.mid for one in await sent_by(log, at.sender)] == mids[::-1]
        page = await sent_by(log, at.sender, limit=2)
        assert [one.mid for one in page] == mids[:-3:-1]
        page = await sent_by(log, at.sender, page[-1].id, 2)
        assert [one.mid for one in page] == [mids[2], mids[1]]
        assert [one.mid for one in await sent_by(log, at.sender, page[-1].id, 2)] == [mids[0]]
        assert await sent_by(log, at.sender, bytes(16)) == []
        assert len(await sent_by(log, at.sender, b"\xff" * 16)) == 5
        assert await sent_by(log, 4_711) == []


async def test_it_says_what_was_sent_when_and_what_became_of_it_at_each(store: Log) -> None:
    at = await mesh(store)
    (mid,) = await at.broadcast()
    id = message_id()
    direct = await store.commit(Do(lambda tx: send(tx, at.sender, at.b, [], id=id, received_at=LATER_US)))
    await at.do(lambda tx: tx.mark_receipts_acked(at.b, [1], 100))
    second, first = await sent_by(store, at.sender)
    assert second == SentMessage(
        id, direct, LATER_US, "note", (Receipt(at.b, 2, LATER_US, None, None, None),)
    )
    assert (first.mid, first.sent_at) == (mid, 1)
    assert first.receipts == (Receipt(at.a, 1, 1, None, None, None), Receipt(at.b, 1, 1, 100, 100, None))


async def test_a_page_ends_with_the_message_that_has_too_many_receipts(store: Log) -> None:
    at = await mesh(store)
    mids = await at.broadcast(4)
    for most, expected in ((0, 1), (1, 1), (2, 2), (3, 2), (100, 4)):
        page = await sent_by(store, at.sender, receipt_limit=most)
        assert [one.mid for one in page] == mids[::-1][:expected]


async def test_a_message_that_is_gone_is_shown_a_while_longer_with_what_became_of_it(store: Log) -> None:
    """Else nobody would ever see that a message of one agent to another was dropped unread."""
    at = await mesh(store)
    direct, other = [await store.commit(Do(lambda tx: send(tx, at.sender, at.a, []))) for _ in range(2)]
    published = await store.commit(Do(lambda tx: send(tx, at.sender, at.b, [])))
    await drop_before(store, at.a, 2, rows=1)
    await sweep_all(store)
    assert await see(store, lambda snapshot: snapshot.contents([direct], 9, 999)) == []
    shown = {one.mid: one.receipts for one in await sent_by(store, at.sender)}
    assert shown.keys() == {direct, other, published}
    (dropped,) = shown[direct]
    assert dropped.acked_at is None
    assert dropped.expired_at is not None

    now = await store.commit(Do(lambda tx: tx.now()))
    assert await store.commit(Do(lambda tx: tx.forget_seen(START_US, 100))) == 0, "it went later than that"
    assert await store.commit(Do(lambda tx: tx.forget_seen(now + 1, 100))) == 2, "a receipt and a note"
    assert await see(store, lambda snapshot: snapshot.receipts(direct)) == []
    assert [one.mid for one in await sent_by(store, at.sender)] == [published, other]


async def test_what_was_sent_is_forgotten_in_slices(store: Log) -> None:
    at = await mesh(store)
    mids = await at.broadcast(3)
    for inbox_id in (at.home, at.a, at.b):
        await drop_before(store, inbox_id, 4, rows=3)
    await sweep_all(store)
    assert len(await sent_by(store, at.sender)) == 3
    forgotten = [await store.commit(Do(lambda tx: tx.forget_seen(LATER_US, 2))) for _ in range(6)]
    assert forgotten == [2, 2, 2, 2, 1, 0]
    assert await sent_by(store, at.sender) == []
    for mid in mids:
        assert await see(store, lambda snapshot, mid=mid: snapshot.receipts(mid)) == []


async def test_a_message_without_a_note_takes_its_receipts_along_at_once(store: Log) -> None:
    at = await mesh(store)
    sent = await store.commit(Do(lambda tx: send(tx, at.sender, at.a, [])))
    (plain,) = await put_all(store, at.a, [entry(2, delivery=b"{}")])
    await drop_before(store, at.a, 3, rows=2)
    await sweep_all(store)
    assert await see(store, lambda snapshot: snapshot.receipts(plain)) == []
    assert len(await see(store, lambda snapshot: snapshot.receipts(sent))) == 1


# -- who is gone --------------------------------------------------------------------------------------------
async def test_a_recipient_that_is_gone_is_shown_no_longer(store: Log) -> None:
    at = await mesh(store)
    (mid,) = await at.broadcast()
    await delete(store, at.a)
    for _ in range(2):
        (sent,) = await sent_by(store, at.sender)
        assert [one.inbox_id for one in sent.receipts] == [at.b]
        await sweep_all(store)
    assert await receipt(store, mid, at.a) is None


async def test_what_a_sender_has_sent_goes_with_it_but_not_from_those_who_have_it(store: Log) -> None:
    at = await mesh(store)
    mids = await at.broadcast(5)
    gone = await store.commit(Do(lambda tx: send(tx, at.sender, at.a, [])))
    await drop_before(store, at.a, 7, rows=6)
    await sweep_all(store)
    await delete(store, at.sender)
    while (await sweep(store, max_rows=2)).more:
        pass
    assert await sent_by(store, at.sender) == []
    assert await see(store, lambda snapshot: snapshot.receipts(gone)) == []
    assert [await receipt(store, mid, at.b) is not None for mid in mids] == [True] * 5
    for inbox_id in (at.b, at.home):
        await drop_before(store, inbox_id, 6, rows=5)
    await sweep_all(store)
    for mid in mids:
        assert await see(store, lambda snapshot, mid=mid: snapshot.receipts(mid)) == []
    assert await store.commit(Do(lambda tx: tx.forget_seen(LATER_US, 100))) == 0
