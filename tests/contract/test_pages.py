"""Pages: direction, cursors, filters, limits, budget, one by one. `test_pages_model.py` combines them."""

import pytest

from storage.protocols import Log
from storage.records import Verdict
from tests.contract.builders import START_US, append, create, entry, fill, page, seqs

KIB = 1_024


async def mixed(log: Log) -> int:
    """Fill an inbox: seq 1–12, types a, b, c in turn, verdicts changing every three."""
    inbox = await create(log)
    await append(
        log,
        inbox.inbox_id,
        [
            entry(seq, event_type="abc"[(seq - 1) % 3], verified=(seq - 1) // 3 % 3, received_at=at(seq))
            for seq in range(1, 13)
        ],
    )
    return inbox.inbox_id


def at(seq: int) -> int:
    return START_US + 10 * seq


async def test_forward_goes_up_from_after_its_cursor(store: Log) -> None:
    id = await mixed(store)
    assert await seqs(store, id, after=0, limit=3) == [1, 2, 3]
    assert await seqs(store, id, after=3, limit=3) == [4, 5, 6]
    assert await seqs(store, id, after=10) == [11, 12]
    assert await seqs(store, id, after=12) == []
    assert await seqs(store, id, after=2**62) == []


async def test_backward_goes_down_from_before_its_cursor(store: Log) -> None:
    id = await mixed(store)
    assert await seqs(store, id, before=None, limit=3) == [12, 11, 10]
    assert await seqs(store, id, before=10, limit=3) == [9, 8, 7]
    assert await seqs(store, id, before=3) == [2, 1]
    assert await seqs(store, id, before=1) == []
    assert await seqs(store, id, before=2**62, limit=2) == [12, 11]


@pytest.mark.parametrize("limit", [1, 2, 4, 5, 12, 13])
async def test_pages_by_cursor_cover_everything_once(store: Log, limit: int) -> None:
    id = await mixed(store)
    forward: list[int] = []
    backward: list[int] = []
    while more := await seqs(store, id, after=forward[-1] if forward else 0, limit=limit):
        forward += more
    while more := await seqs(store, id, before=backward[-1] if backward else None, limit=limit):
        backward += more
    assert forward == list(range(1, 13))
    assert backward == list(range(12, 0, -1))


async def test_exhausted_says_whether_a_match_lies_beyond(store: Log) -> None:
    id = await mixed(store)
    assert not (await page(store, id, after=0, limit=11)).exhausted
    assert (await page(store, id, after=0, limit=12)).exhausted
    assert (await page(store, id, after=1, limit=11)).exhausted
    assert not (await page(store, id, before=None, limit=11)).exhausted
    assert (await page(store, id, before=None, limit=12)).exhausted
    # a filter: 10 is the last of type a, so that nothing lies beyond it although 11 and 12 do
    assert (await page(store, id, after=7, types=("a",), limit=1)).exhausted
    assert not (await page(store, id, after=6, types=("a",), limit=1)).exhausted
    assert (await page(store, id, before=3, types=("a",), limit=1)).exhausted
    assert (await page(store, id, after=0, types=("none",), limit=1)).exhausted


async def test_types_are_alternatives(store: Log) -> None:
    id = await mixed(store)
    assert await seqs(store, id, types=("a",)) == [1, 4, 7, 10]
    assert await seqs(store, id, types=("c", "a"), limit=5) == [1, 3, 4, 6, 7]
    assert await seqs(store, id, types=("c", "a", "c")) == [1, 3, 4, 6, 7, 9, 10, 12]
    assert await seqs(store, id, types=("a",), before=None, limit=2) == [10, 7]
    assert await seqs(store, id, types=("A",)) == []
    assert await seqs(store, id, types=("",)) == []
    many = tuple(f"t{n}" for n in range(19))
    assert await seqs(store, id, types=(*many, "b")) == [2, 5, 8, 11]


async def test_messages_without_a_type_are_found_by_the_empty_one(store: Log) -> None:
    inbox = await create(store)
    await append(store, inbox.inbox_id, [entry(1, event_type=""), entry(2), entry(3, event_type="")])
    assert await seqs(store, inbox.inbox_id, types=("",)) == [1, 3]


async def test_verdicts_filter(store: Log) -> None:
    id = await mixed(store)
    assert await seqs(store, id, verified=Verdict.FAILED) == [1, 2, 3, 10, 11, 12]
    assert await seqs(store, id, verified=Verdict.VERIFIED) == [4, 5, 6]
    assert await seqs(store, id, verified=Verdict.NONE, before=None) == [9, 8, 7]
    assert await seqs(store, id, verified=Verdict.FAILED, types=("a", "b"), before=12) == [11, 10, 2, 1]


async def test_since_is_inclusive_and_until_exclusive(store: Log) -> None:
    id = await mixed(store)
    assert await seqs(store, id, since_us=at(10)) == [10, 11, 12]
    assert await seqs(store, id, since_us=at(10) - 1) == [10, 11, 12]
    assert await seqs(store, id, since_us=at(10) + 1) == [11, 12]
    assert await seqs(store, id, until_us=at(3)) == [1, 2]
    assert await seqs(store, id, until_us=at(3) + 1) == [1, 2, 3]
    assert await seqs(store, id, since_us=at(4), until_us=at(6)) == [4, 5]
    assert await seqs(store, id, since_us=at(4), until_us=at(6), before=None) == [5, 4]
    assert await seqs(store, id, since_us=at(6), until_us=at(6)) == []
    assert await seqs(store, id, since_us=at(6), until_us=at(4)) == []
    assert await seqs(store, id, since_us=at(13)) == []
    assert await seqs(store, id, until_us=at(1)) == []
    assert await seqs(store, id, since_us=0, until_us=2**62) == list(range(1, 13))
    assert (await page(store, id, until_us=at(6), limit=5)).exhausted
    assert (await page(store, id, since_us=at(6), before=None, limit=7)).exhausted


async def test_a_budget_ends_a_page_early_and_never_before_one_row(store: Log) -> None:
    """A row's own bytes are its facts, what its sender said, and the body that comes along; the row that
    passes the budget is the last one.
    """
    inbox = await create(store)
    id = inbox.inbox_id
    said = b'{"path":"' + b"x" * 4 * KIB + b'"}'
    await append(store, id, [entry(seq, said=said, body=b"b" * 6 * KIB) for seq in range(1, 7)])
    for query in ({"after": 0}, {"before": None}):
        without = await page(store, id, byte_budget=15 * KIB, **query)
        assert (len(without.rows), without.exhausted) == (4, False)
        along = await page(store, id, byte_budget=25 * KIB, body_limit=64 * KIB, **query)
        assert (len(along.rows), along.exhausted) == (3, False)
        least = await page(store, id, byte_budget=1, **query)
        assert (len(least.rows), least.exhausted) == (1, False)
        enough = await page(store, id, byte_budget=30 * KIB, **query)
        assert (len(enough.rows), enough.exhausted) == (6, True)
    assert await seqs(store, id, after=5, byte_budget=1) == [6]
    assert (await page(store, id, after=5, byte_budget=1)).exhausted


async def test_a_body_over_the_limit_does_not_count(store: Log) -> None:
    inbox = await create(store)
    await append(store, inbox.inbox_id, [entry(seq, body=b"b" * 32 * KIB) for seq in range(1, 5)])
    found = await page(store, inbox.inbox_id, byte_budget=8 * KIB, body_limit=16 * KIB)
    assert ([row.body for row in found.rows], found.exhausted) == ([None] * 4, True)


async def test_a_page_of_an_empty_inbox_is_empty_and_exhausted(store: Log) -> None:
    inbox = await create(store)
    for query in (
        {"after": 0},
        {"before": None},
        {"after": 5},
        {"before": 5},
        {"since_us": 1, "until_us": 9},
    ):
        found = await page(store, inbox.inbox_id, **query)
        assert (found.rows, found.exhausted, found.head.latest_seq) == ([], True, 0)


async def test_a_page_never_has_rows_of_a_neighbour(store: Log) -> None:
    ids = [(await create(store, slug)).inbox_id for slug in ("one", "two", "three")]
    for id in ids:
        await fill(store, id, 3)
    for query in ({}, {"types": ("push",)}, {"verified": 1}, {"since_us": 0}, {"until_us": 2**60}):
        for way in ({"after": 0}, {"before": None}):
            found = await page(store, ids[1], **query, **way)
            assert sorted(row.seq for row in found.rows) == [1, 2, 3]
