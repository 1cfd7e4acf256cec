"""What the store counts: sizes and times of transactions, reads, the log, and what was refused."""

from functools import partial
from pathlib import Path

import pytest
import trio

from storage.errors import ReadersBusy, StorageFull
from storage.histogram import Histogram
from storage.sqlite import open_store
from tests.contract.builders import See, create, entry, put
from tests.storage.rig import Rig
from tests.storage.test_threads import BOUND_SECONDS, gate, options


@pytest.mark.parametrize(
    ("value", "bucket"),
    [(0, 0), (0.5, 0), (1, 0), (1.01, 1), (2, 1), (5, 2), (5.1, 3), (10**9, 3)],
)
def test_a_value_counts_for_the_smallest_bound_that_it_does_not_exceed(value: float, bucket: int) -> None:
    histogram = Histogram((1, 2, 5))
    histogram.add(value)
    assert histogram.counts == [int(n == bucket) for n in range(4)]
    assert histogram.cumulated() == [int(n >= bucket) for n in range(4)]
    assert (histogram.count, histogram.total) == (1, value)


def test_a_transaction_is_counted_with_its_size_and_its_times(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    inbox = rig.inbox()
    health = rig.health
    before = health.commits, health.batch_units

    def slow(tx: object) -> None:
        rig.seconds += 0.004

    put_one, put_another = (partial(put, inbox_id=inbox.inbox_id, entries=[entry(n)]) for n in (1, 2))
    rig.batch(put_one, put_another, slow)
    assert (health.commits, health.batch_units) == (before[0] + 1, before[1] + 3)
    assert health.batch_units_max == 3
    assert health.transaction_units.counts[2] == 1, "three units are more than 2, and not more than 4"
    assert health.transaction_seconds.total == pytest.approx(0.004)
    assert health.commit_seconds.count == health.transaction_seconds.count == health.commits
    assert health.commit_seconds.total == 0, "the time went by before"


def test_what_is_refused_for_want_of_room_is_counted(tmp_path: Path) -> None:
    rig = Rig(tmp_path, max_data_bytes=1)
    with pytest.raises(StorageFull):
        rig.one(lambda tx: None, grows=True)
    assert rig.health.refused_full == 1
    assert rig.health.transaction_units.count == 0


def test_a_checkpoint_is_counted(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    rig.inbox()
    assert rig.health.wal_bytes > 0
    before = rig.health.checkpoints
    rig.seconds += 10
    rig.upkeep.tick()
    assert (rig.health.checkpoints, rig.health.wal_bytes) == (before + 1, 0)
    assert rig.health.database_bytes > 0


async def test_a_read_is_counted_with_its_time_and_one_that_finds_no_slot_as_refused(tmp_path: Path) -> None:
    with gate() as held:
        async with open_store(
            options(tmp_path, max_concurrent_reads=1, read_slot_timeout_seconds=0)
        ) as store:
            await create(store)
            await store.read(See(lambda snapshot: snapshot.routed_mid()))
            seen = store.health.read_seconds
            assert (seen.count, store.health.reads_refused) == (1, 0)
            assert 0 < seen.total < BOUND_SECONDS
            async with trio.open_nursery() as nursery:
                nursery.start_soon(store.read, See(held.stand))
                await held.running.wait()
                with pytest.raises(ReadersBusy):
                    await store.read(See(lambda snapshot: snapshot.routed_mid()))
                held.open()
            assert (seen.count, store.health.reads_refused) == (2, 1)
