"""Rows by id and by seq, and how many are unread."""

import random
from collections.abc import Sequence
from typing import Any

import pytest

from storage import memory_mesh, mesh_reads
from storage.errors import InboxGone
from storage.mail_records import AgentRecord, ReaderRecord
from storage.mesh_reads import gaps
from storage.mesh_records import Unread
from storage.protocols import Log
from tests.contract.builders import (
    Do,
    create,
    delete,
    drop_before,
    entry,
    erase,
    message_id,
    sweep_all,
)
from tests.contract.conftest import OpenLog
from tests.contract.mail import DELIVERY, agent, deliver, delivery, put_all, see
from tests.contract.mesh import machine


async def both(log: Log, of: Any) -> Any:
    """Return what a unit and a look find, which must be the same."""
    found = await see(log, of)
    assert await log.commit(Do(of)) == found
    return found


async def unread(
    log: Log,
    inbox_id: int,
    after: int = 0,
    acked: Sequence[tuple[int, int]] = (),
    now: int = 0,
    limit: int = 100,
) -> list[Unread]:
    found: list[Unread] = await both(log, lambda store: store.unread(inbox_id, after, acked, now, limit))
    return found


async def count(log: Log, inbox_id: int, *of: Any, **more: Any) -> int:
    return sum(one.count for one in await unread(log, inbox_id, *of, **more))


async def mailbox(log: Log, rows: int) -> tuple[AgentRecord, list[bytes]]:
    """Return an agent with so many deliveries of one source, and the ids of these messages."""
    source, reader = await create(log), await agent(log)
    sent = [entry(seq) for seq in range(1, rows + 1)]
    mids = await put_all(log, source.inbox_id, sent)
    new = [delivery(seq, mid, source.inbox_id) for seq, mid in enumerate(mids, 1)]
    await deliver(log, reader.inbox_id, new)
    return reader, [one.id for one in sent]


# -- ids and seqs -------------------------------------------------------------------------------------------
async def test_messages_are_found_by_their_ids_where_they_stand(store: Log) -> None:
    reader, ids = await mailbox(store, 3)
    other = await agent(store, "other")
    own = entry(4, delivery=DELIVERY, received_at=entry(9_999).received_at)
    await put_all(store, reader.inbox_id, [own])
    asked = [own.id, ids[2], message_id(), ids[0], ids[2], b"short", b""]
    find = lambda of: lambda store: store.seqs_of_ids(of, asked)  # noqa: E731 — said twice below
    assert await both(store, find(reader.inbox_id)) == {own.id: 4, ids[2]: 3, ids[0]: 1}
    assert await both(store, find(other.inbox_id)) == {}, "what stands elsewhere is unknown"
    assert await both(store, lambda store: store.seqs_of_ids(reader.inbox_id, [])) == {}
    many = [message_id() for _ in range(300)] + ids
    assert await both(store, lambda store: store.seqs_of_ids(reader.inbox_id, many)) == {
        id: seq for seq, id in enumerate(ids, 1)
    }


async def test_what_was_dropped_or_erased_is_found_no_longer(store: Log) -> None:
    reader, ids = await mailbox(store, 4)
    await drop_before(store, reader.inbox_id, 2, rows=1)
    await erase(store, reader.inbox_id, 3)
    for _ in range(2):
        found = await both(store, lambda store: store.seqs_of_ids(reader.inbox_id, ids))
        assert found == {ids[1]: 2, ids[3]: 4}
        rows = await both(store, lambda store: store.rows_at(reader.inbox_id, [4, 3, 2, 1, 0, 5]))
        assert [row.seq for row in rows] == [2, 4]
        await sweep_all(store)


async def test_rows_by_seq_say_what_those_of_a_window_say(store: Log) -> None:
    reader, _ = await mailbox(store, 150)
    await put_all(store, reader.inbox_id, [entry(151, expires_at=7, received_at=entry(200_000).received_at)])
    rows = (await see(store, lambda snapshot: snapshot.window(reader.inbox_id, 0, 200, 0))).rows
    seqs = [row.seq for row in rows]
    assert await both(store, lambda store: store.rows_at(reader.inbox_id, [*seqs[::-1], 1])) == rows
    assert await both(store, lambda store: store.rows_at(reader.inbox_id, [])) == []


# -- unread -------------------------------------------------------------------------------------------------
async def test_unread_is_what_is_neither_acknowledged_nor_expired(store: Log) -> None:
    reader, _ = await mailbox(store, 10)
    at = reader.inbox_id
    received = entry(99_999).received_at
    await put_all(store, at, [entry(11, expires_at=50, received_at=received)])
    assert await count(store, at, now=49) == 11
    assert await count(store, at, now=50) == 10
    assert await count(store, at, 4) == 7
    assert await count(store, at, 4, [(6, 7), (9, 9)]) == 4
    assert await count(store, at, 4, [(5, 11)]) == 0
    assert await count(store, at, 4, [(5, 11), (20, 30)]) == 0
    assert await count(store, at, 11) == 0
    assert await count(store, at, 10**18) == 0
    await erase(store, at, 8)
    await drop_before(store, at, 3, rows=2)
    for _ in range(2):
        assert await count(store, at) == 8
        assert await count(store, at, 0, [(1, 5)]) == 5
        await sweep_all(store)


async def test_it_is_counted_by_where_it_comes_from(store: Log) -> None:
    reader, _ = await mailbox(store, 3)
    host, gone = await machine(store), await create(store, "gone")
    (one,) = await put_all(store, host.inbox_id, [entry(1)])
    (two,) = await put_all(store, gone.inbox_id, [entry(1)])
    at = reader.inbox_id
    await deliver(store, at, [delivery(4, one, host.inbox_id), delivery(5, two, gone.inbox_id)])
    await put_all(store, at, [entry(6, delivery=DELIVERY, received_at=entry(99_999).received_at)])
    await delete(store, gone.inbox_id)
    assert await unread(store, at, 1) == [
        Unread("demo", "webhook", False, 2),
        Unread("agent.a", "agent", True, 1),
        Unread("machine.m", "machine", False, 1),
        Unread(None, None, False, 1),
    ]


async def test_counting_ends_at_its_limits(store: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    reader, _ = await mailbox(store, 10)
    at = reader.inbox_id
    assert await count(store, at, limit=10) == 10
    assert await count(store, at, limit=9) == 9
    assert await count(store, at, 0, [(1, 4)], limit=3) == 3
    received = entry(99_999).received_at
    await put_all(store, at, [entry(n, expires_at=50, received_at=received + n) for n in range(11, 31)])
    await put_all(store, at, [entry(31, received_at=received + 99)])
    assert await count(store, at, now=50, limit=20) == 11, "expired rows do not count against the limit"
    for module in (mesh_reads, memory_mesh):
        monkeypatch.setattr(module, "UNREAD_SCANNED", 25)
    assert await count(store, at, now=50, limit=20) == 10, "but not for ever"
    assert await count(store, at, 6, now=50, limit=20) == 5


@pytest.mark.parametrize("seed", range(5))
async def test_runs_are_left_out_however_they_lie(store: Log, seed: int) -> None:
    reader, _ = await mailbox(store, 60)
    await drop_before(store, reader.inbox_id, 4, rows=3)
    draw = random.Random(seed)
    for _ in range(20):
        after = draw.randrange(-1, 62)
        acked = {seq for seq in range(after + 1, 61) if draw.random() < 0.5}
        runs: list[tuple[int, int]] = []
        for seq in sorted(acked):
            if runs and runs[-1][1] == seq - 1:
                runs[-1] = (runs[-1][0], seq)
            else:
                runs.append((seq, seq))
        expected = len([seq for seq in range(4, 61) if seq > after and seq not in acked])
        assert await count(store, reader.inbox_id, after, runs) == expected
        between = [seq for low, high in gaps(after, 60, runs) for seq in range(low, high + 1)]
        assert between == [seq for seq in range(after + 1, 61) if seq not in acked]


@pytest.mark.parametrize(
    "ask",
    [
        lambda store, at: store.unread(at, 0, (), 0, 9),
        lambda store, at: store.seqs_of_ids(at, [bytes(16)]),
        lambda store, at: store.rows_at(at, [1]),
    ],
)
async def test_an_inbox_that_is_gone_has_nothing(store: Log, ask: Any) -> None:
    reader, _ = await mailbox(store, 1)
    await delete(store, reader.inbox_id)
    for inbox_id in (reader.inbox_id, 4_711):
        with pytest.raises(InboxGone):
            await see(store, lambda snapshot, at=inbox_id: ask(snapshot, at))
        with pytest.raises(InboxGone):
            await store.commit(Do(lambda tx, at=inbox_id: ask(tx, at)))


# -- what was served ----------------------------------------------------------------------------------------
async def test_what_a_reader_was_served_is_kept_beside_what_it_acknowledged(open_log: OpenLog) -> None:
    kept = ReaderRecord(4, 9, 1, ((6, 7),), ((5, 7), (9, 9), (4_000, 5_000)))
    async with open_log() as log:
        made = await agent(log)
        await log.commit(Do(lambda tx: tx.put_reader(made.inbox_id, "self", ReaderRecord(served=((1, 2),)))))
        await log.commit(Do(lambda tx: tx.put_reader(made.inbox_id, "self", kept)))
    async with open_log() as log:
        assert await both(log, lambda store: store.reader(made.inbox_id, "self")) == kept
