"""Sweeping: bounded slices, resumed after a restart, pages given back, messages shared between inboxes."""

from collections.abc import Callable
from typing import Any

import pytest

from storage import sweep
from storage.protocols import Tx
from storage.records import CHUNK_BYTES, Seen, Swept
from tests.contract.builders import head_without, large_entry, put, stage
from tests.storage.rig import Rig, add, add_much, tidy

MIB = 1024 * 1024


def drop(rig: Rig, inbox_id: int, below: int) -> None:
    """Drop a prefix as retention does."""

    def run(tx: Tx) -> None:
        head = tx.head(inbox_id)
        tx.drop_before(inbox_id, below)
        tx.advance(inbox_id, head, head_without(head, below - head.first_seq, 0, below))

    rig.one(tidy(run))


def slice_of(rig: Rig, max_rows: int = 1_000, max_bytes: int = 64 * MIB) -> Swept:
    swept: Swept = rig.one(tidy(lambda tx: tx.sweep(max_rows, max_bytes)))
    return swept


def deliver(rig: Rig, mid: int, inbox_id: int, seq: int) -> None:
    """Give a message an entry in a second inbox, as the router of a later issue will."""
    rig.one(
        lambda tx: tx.sql.change(
            "INSERT INTO entry (inbox_id, seq, mid, received_at, event_type, verified, size, home, origin)"
            " SELECT ?, ?, mid, received_at, '', 2, size, 0, home_inbox FROM message WHERE mid = ?",
            (inbox_id, seq, mid),
        )
    )


def test_what_a_slice_left_is_found_again_after_a_restart(make_rig: Callable[..., Rig]) -> None:
    rig = make_rig()
    inbox = rig.inbox()
    for seq in range(1, 11):
        rig.one(add(inbox, seq))
    drop(rig, inbox.inbox_id, 8)
    assert slice_of(rig, max_rows=3) == Swept(3, 3 * len(b"body of 1"), True)
    rig.close()
    again = make_rig()
    assert slice_of(again) == Swept(4, 4 * len(b"body of 4"), False)
    assert again.stored() == [(inbox.inbox_id, seq) for seq in (8, 9, 10)]
    assert again.rows("SELECT count(*) FROM message") == [(3,)]


def test_a_deleted_inbox_leaves_nothing_and_its_id_is_not_used_again(rig: Rig) -> None:
    inbox, other = rig.inbox("gone"), rig.inbox("stays")
    for target in (inbox, other):
        rig.one(add_much(target, 1, size=10))
        rig.one(lambda tx, target=target: tx.erase(target.inbox_id, 3))
        rig.one(lambda tx, target=target: tx.remember(target.inbox_id, [(b"k", Seen(1, b"i" * 16, 5))]))
    rig.one(tidy(lambda tx: tx.delete_inbox(inbox.inbox_id)))
    assert rig.rows("SELECT inbox_id FROM inbox_head") == [(other.inbox_id,)]
    while slice_of(rig, max_rows=4).more:
        pass
    for table in ("inbox", "entry", "seen_delivery", "erased", "sweep_todo"):
        count = f"SELECT count(*) FROM {table} WHERE inbox_id = ?"  # noqa: S608 — the five names above
        assert rig.rows(count, (inbox.inbox_id,)) == [(0,)]
    assert rig.rows("SELECT count(*) FROM entry") == [(19,)]
    assert rig.rows("SELECT count(*) FROM message") == [(19,)]
    assert rig.inbox("gone").inbox_id > other.inbox_id


@pytest.mark.parametrize("home_first", [True, False])
def test_a_message_goes_with_its_last_entry(rig: Rig, home_first: bool) -> None:
    home, away = rig.inbox("home"), rig.inbox("away")
    body_id = rig.one(lambda tx: stage(tx, [b"x" * CHUNK_BYTES, b"y"]))
    rig.one(lambda tx: put(tx, home.inbox_id, [large_entry(1, body_id, CHUNK_BYTES + 1)]))
    deliver(rig, 1, away.inbox_id, 1)
    first, last = (home, away) if home_first else (away, home)
    rig.one(lambda tx: tx.drop_before(first.inbox_id, 2))
    assert not slice_of(rig).more
    assert rig.rows("SELECT count(*) FROM message") == [(1,)]
    assert rig.rows("SELECT count(*) FROM body_chunk") == [(2,)]
    rig.one(lambda tx: tx.drop_before(last.inbox_id, 2))
    assert not slice_of(rig).more
    assert rig.rows("SELECT count(*) FROM message") == [(0,)]
    assert rig.rows("SELECT count(*) FROM body_chunk") == [(0,)]


def test_a_slice_is_bounded_by_time(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    inbox = rig.inbox()
    rig.one(add_much(inbox, 1, size=1, count=400))
    drop(rig, inbox.inbox_id, 401)
    seconds = iter(n * 0.003 for n in range(1_000))
    monkeypatch.setattr("storage.sweep.time.monotonic", lambda: next(seconds))
    swept = slice_of(rig)
    assert 0 < swept.rows < 400
    assert swept.more


def test_staged_bodies_of_an_earlier_start_are_swept_and_those_of_this_start_are_not(
    make_rig: Callable[..., Rig],
) -> None:
    rig = make_rig()
    old = rig.one(lambda tx: stage(tx, [b"x" * CHUNK_BYTES] * 3))
    rig.close()
    again = make_rig()
    new = again.one(lambda tx: stage(tx, [b"y"]))
    assert new > old
    slices = 1
    while slice_of(again, max_bytes=CHUNK_BYTES).more:
        slices += 1
    assert slices >= 3
    assert again.rows("SELECT body_id FROM body_staged") == [(new,)]
    assert again.rows("SELECT body_id FROM body_chunk") == [(new,)]


def test_a_connection_opened_anew_does_not_make_living_uploads_stale(rig: Rig) -> None:
    body_id = rig.one(lambda tx: stage(tx, [b"x"]))
    rig.upkeep.reopen()
    assert slice_of(rig).rows == 0
    assert rig.rows("SELECT body_id FROM body_staged") == [(body_id,)]


def test_free_pages_are_given_back_when_they_are_many_and_kept_when_few(rig: Rig) -> None:
    inbox = rig.inbox()
    rig.one(add_much(inbox, 1, count=300))
    rig.one(add_much(inbox, 301, count=4))
    drop(rig, inbox.inbox_id, 5)
    while slice_of(rig).more:
        pass
    before = rig.rows("PRAGMA page_count")[0][0]
    assert rig.rows("PRAGMA freelist_count")[0][0] > 0, "a few free pages stay for the next messages"
    drop(rig, inbox.inbox_id, 301)
    slices = 1
    while slice_of(rig).more:
        slices += 1
    free, pages = rig.rows("PRAGMA freelist_count")[0][0], rig.rows("PRAGMA page_count")[0][0]
    assert slices > 10
    assert pages < before - 500
    assert free <= sweep.SPARE_PAGES


def test_erased_seqs_are_remembered_until_their_prefix_goes(rig: Rig) -> None:
    inbox = rig.inbox()
    rig.one(add_much(inbox, 1, size=1, count=5))
    rig.one(lambda tx: tx.erase(inbox.inbox_id, 2))
    rig.one(lambda tx: tx.erase(inbox.inbox_id, 4))
    assert rig.rows("SELECT seq FROM erased") == [(2,), (4,)]
    drop(rig, inbox.inbox_id, 4)
    assert not slice_of(rig).more
    assert rig.rows("SELECT seq FROM erased") == [(4,)]


def test_what_waits_for_the_router_costs_no_more_than_a_slice(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    for n in range(20):
        inbox = rig.inbox(f"inbox-{n}")
        rig.one(add(inbox, 1))
        drop(rig, inbox.inbox_id, 2)
    looked_at = iter(range(1_000))
    monkeypatch.setattr("storage.sweep.time.monotonic", lambda: next(looked_at) * 0.001)
    assert rig.one(tidy(lambda tx: tx.sweep(100, MIB, routed_only=True))) == Swept(0, 0, False)
    assert next(looked_at) < 10


def test_a_full_store_waits_for_no_router(rig: Rig) -> None:
    inbox = rig.inbox()
    rig.one(add(inbox, 1))
    drop(rig, inbox.inbox_id, 2)

    def run(tx: Any) -> list[int]:
        swept = []
        for tx.shrink in (False, True):
            swept.append(tx.sweep(100, MIB, routed_only=True).rows)
        return swept

    assert rig.one(tidy(run)) == [0, 1]
