"""Writes that a disk breaks off: half of them is in the file, and nothing that was answered depends on the rest."""

from collections.abc import Callable
from typing import Any

import pytest

from storage.errors import NotStored, OutcomeUnknown, StorageError, StorageFull
from storage.upkeep import IDLE_CHECKPOINT_SECONDS
from tests.storage.faulty_vfs import short_and_full, short_write
from tests.storage.rig import Rig, add, add_much, checked

WRITES = 12
"""Writes of one commit in a new log, and more: any of them may be the one that is broken off."""


def found_again(rig: Rig, make_rig: Callable[..., Rig]) -> list[tuple[int, int]]:
    """Return what is there after a start that recovers the log, and look whether all of it is whole."""
    rig.close()
    again = make_rig()
    assert checked(again.upkeep.db) == "ok"
    return again.stored()


@pytest.mark.parametrize(
    ("error", "told"), [(short_and_full, StorageFull), (short_write, NotStored)], ids=["full", "broken"]
)
def test_a_write_that_is_broken_off_inside_a_unit_costs_that_unit_alone(
    rig: Rig, make_rig: Callable[..., Rig], error: Any, told: type
) -> None:
    inboxes = [rig.inbox(slug) for slug in "abc"]
    rig.spill()
    rig.disk.fail("write", "-wal", error, after=1)
    first, culprit, last = rig.batch(add(inboxes[0], 1), add_much(inboxes[1], 1), add(inboxes[2], 1))
    assert (first, type(culprit), last) == (1, told, 1)
    assert found_again(rig, make_rig) == [(inboxes[0].inbox_id, 1), (inboxes[2].inbox_id, 1)]


@pytest.mark.parametrize("after", range(WRITES))
@pytest.mark.parametrize("error", [short_and_full, short_write], ids=["full", "broken"])
def test_a_commit_whose_log_is_broken_off_anywhere_tells_the_truth(
    rig: Rig, make_rig: Callable[..., Rig], error: Any, after: int
) -> None:
    inbox = rig.inbox()
    rig.one(add(inbox, 1))
    rig.disk.fail("write", "-wal", error, after=after)
    told = rig.batch(add(inbox, 2), add(inbox, 3))
    rig.disk.heal()
    stored = {seq for _, seq in found_again(rig, make_rig)}
    if all(isinstance(one, OutcomeUnknown) for one in told):
        assert stored in ({1}, {1, 2, 3})
    elif all(isinstance(one, StorageError) for one in told):
        assert stored == {1}
        assert error is short_and_full
    else:
        assert (told, stored) == ([2, 3], {1, 2, 3}), "it was broken off later, or not at all"


def test_a_checkpoint_whose_write_is_broken_off_is_made_again(rig: Rig, make_rig: Callable[..., Rig]) -> None:
    inbox = rig.inbox()
    rig.one(add_much(inbox, 1))
    rig.disk.fail("write", ".db", short_write, after=3)
    rig.seconds += IDLE_CHECKPOINT_SECONDS
    rig.upkeep.tick()
    assert rig.health.checkpoint_errors == 1
    assert len(rig.stored()) == 20
    rig.seconds += IDLE_CHECKPOINT_SECONDS
    rig.upkeep.tick()
    assert rig.health.wal_bytes == 0
    assert len(found_again(rig, make_rig)) == 20


def test_a_log_that_cannot_be_truncated_loses_nothing_and_is_truncated_later(rig: Rig) -> None:
    inbox = rig.inbox()
    rig.one(add_much(inbox, 1))
    rig.disk.fail("truncate", "-wal")
    rig.seconds += IDLE_CHECKPOINT_SECONDS
    rig.upkeep.tick()
    assert rig.health.checkpoint_errors == 1
    assert rig.one(add(inbox, 21)) == 21
    rig.seconds += IDLE_CHECKPOINT_SECONDS
    rig.upkeep.tick()
    assert (rig.health.wal_bytes, len(rig.stored())) == (0, 21)
