"""A full disk has a way back (`storage/space.py`, engineering study S3)."""

from collections.abc import Callable
from pathlib import Path

import pytest

from storage.errors import StorageFull
from storage.protocols import Tx
from storage.space import BATCH_ROOM_BYTES, RESERVE_NAME, Space
from storage.upkeep import PROBE_SECONDS
from tests.contract.builders import head_without
from tests.storage.faulty_vfs import ALWAYS, full
from tests.storage.rig import RESERVE_BYTES, Rig, add, add_much, checked, tidy

MIB = 1024 * 1024


def empty(rig: Rig, inbox_id: int) -> None:
    """Drop every entry of an inbox, as retention does, and sweep until nothing is left."""

    def drop(tx: Tx) -> None:
        head = tx.head(inbox_id)
        tx.drop_before(inbox_id, head.latest_seq + 1)
        tx.advance(inbox_id, head, head_without(head, head.live_rows, head.live_bytes, head.latest_seq + 1))

    rig.one(tidy(drop))
    while rig.one(tidy(lambda tx: tx.sweep(100, 4 * MIB))).more:
        rig.seconds += 0.5


def test_the_reserve_is_made_at_the_start_for_its_owner_alone(rig: Rig) -> None:
    reserve = rig.directory / RESERVE_NAME
    assert reserve.stat().st_size == RESERVE_BYTES
    assert reserve.stat().st_mode & 0o777 == 0o600


def test_growth_is_refused_below_the_low_water_mark_and_everything_else_runs(rig: Rig) -> None:
    inbox = rig.inbox()
    rig.seconds += 2
    rig.upkeep.tick()
    assert rig.health.wal_bytes == 0, "the log has no room to give"
    rig.disk.capacity = rig.disk.used() + BATCH_ROOM_BYTES - 1
    rig.disk.done.clear()
    (refused,) = rig.batch(add(inbox, 1))
    assert isinstance(refused, StorageFull)
    assert rig.disk.done == [], "refused before any statement"
    assert rig.health.state == "full"
    assert "/" not in rig.health.reason
    assert rig.batch(tidy(lambda tx: tx.change_inbox(inbox.inbox_id, "new", inbox.settings))) == [None]
    rig.disk.capacity = None
    assert rig.one(add(inbox, 1)) == 1
    assert (rig.health.state, rig.health.reason) == ("open", "")


def test_a_full_disk_is_left_by_deleting_without_a_restart(make_rig: Callable[..., Rig]) -> None:
    rig = make_rig(capacity=24 * MIB, wal_limit_bytes=MIB)
    inbox = rig.inbox()
    seq = 1
    while True:
        rig.seconds += 0.5
        (outcome,) = rig.batch(add_much(inbox, seq))
        if isinstance(outcome, StorageFull):
            break
        seq += 20
    assert rig.health.state == "full"
    before = rig.disk.used()
    empty(rig, inbox.inbox_id)
    rig.seconds += PROBE_SECONDS
    rig.upkeep.tick()
    assert rig.health.state == "open"
    assert rig.disk.used() < before / 2, "the pages were given back, not only freed"
    assert rig.one(add(inbox, seq)) == seq
    assert (rig.directory / RESERVE_NAME).exists()


def test_a_disk_that_says_full_by_surprise_is_left_through_the_reserve(make_rig: Callable[..., Rig]) -> None:
    """Somebody else filled the disk between the look at its room and the COMMIT."""
    rig = make_rig(wal_limit_bytes=MIB)
    inbox = rig.inbox()
    rig.one(add_much(inbox, 1, count=40))
    rig.seconds += 2
    rig.upkeep.tick()
    told = iter([BATCH_ROOM_BYTES])  # the look just before

    def free(directory: Path) -> int:
        return next(told, 0) or rig.disk.free(directory)

    rig.upkeep._space._free = free
    rig.disk.capacity = rig.disk.used()
    (refused,) = rig.batch(add(inbox, 41))
    assert isinstance(refused, StorageFull)
    assert rig.health.state == "full"
    assert not (rig.directory / RESERVE_NAME).exists()
    empty(rig, inbox.inbox_id)
    assert rig.stored() == []
    rig.disk.capacity += 2 * BATCH_ROOM_BYTES
    assert rig.one(add(inbox, 41)) == 41
    assert (rig.directory / RESERVE_NAME).stat().st_size == RESERVE_BYTES
    assert checked(rig.upkeep.db) == "ok"


def test_what_frees_space_still_runs_when_growth_meets_a_full_disk(rig: Rig) -> None:
    inbox = rig.inbox()
    rig.one(add(inbox, 1))
    rig.disk.fail("write", "-wal", full, times=ALWAYS)
    rig.upkeep._space._free = lambda _: 0
    rig.batch(tidy(lambda tx: tx.erase(inbox.inbox_id, 1)))
    assert rig.health.state == "full"
    rig.disk.heal()
    assert rig.one(tidy(lambda tx: tx.erase(inbox.inbox_id, 1))) is not None
    assert rig.stored() == []


def test_a_limit_on_the_database_refuses_growth_until_rows_are_swept(make_rig: Callable[..., Rig]) -> None:
    rig = make_rig(max_data_bytes=2 * MIB)
    inbox = rig.inbox()
    rig.one(add_much(inbox, 1, count=40))
    (refused,) = rig.batch(add(inbox, 41))
    assert isinstance(refused, StorageFull)
    assert "max_data_bytes" in rig.health.reason
    empty(rig, inbox.inbox_id)
    assert rig.one(add(inbox, 41)) == 41


def test_a_disk_too_small_for_the_reserve_starts_full(make_rig: Callable[..., Rig]) -> None:
    rig = make_rig(capacity=BATCH_ROOM_BYTES)
    assert rig.health.state == "full"
    assert not (rig.directory / RESERVE_NAME).exists()


def test_a_directory_that_cannot_be_looked_at_is_no_place_to_grow(rig: Rig) -> None:
    def gone(_: object) -> int:
        raise FileNotFoundError

    space = Space(rig.directory, 0, None, gone)
    assert space.shortage(0)


@pytest.mark.parametrize("held", [True, False])
def test_the_reserve_itself_counts_as_room(rig: Rig, held: bool) -> None:
    free = BATCH_ROOM_BYTES if held else BATCH_ROOM_BYTES + RESERVE_BYTES
    space = Space(rig.directory, RESERVE_BYTES, None, lambda _: free)
    space.held_bytes = RESERVE_BYTES if held else 0
    assert space.shortage(0) == ""
    space._free = lambda _: free - 1
    assert space.shortage(0)
