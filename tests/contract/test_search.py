"""The search index: what comes in, what leaves it, and what is found. The same in either store."""

from collections.abc import Sequence
from typing import Any

import pytest

from storage.errors import InboxGone
from storage.protocols import Lane, Log
from storage.records import InboxSettings
from storage.search_records import IndexRow, IndexState, Phrase, SearchPage, SearchQuery, Unindexed
from tests.contract.builders import (
    Do,
    See,
    append,
    create,
    delete,
    drop_before,
    entry,
    erase,
    fill,
    large_entry,
    put,
    stage,
    sweep_all,
)
from tests.contract.conftest import OpenLog

SEARCHED = InboxSettings(search=True)
TEXTS = ("red apple", "green apple tree", "red pear", "tree house", "")
"""What the entries 1 to 5 of the usual inbox say."""


async def index(log: Log, inbox_id: int, texts: Sequence[str], after: int = 0) -> bool:
    """Index the entries that follow `after`, with these words."""
    rows = [IndexRow(seq, text) for seq, text in enumerate(texts, after + 1)]
    unit = Do(lambda tx: tx.index(inbox_id, after, rows, after + len(texts)), Lane.HOUSEKEEPING)
    return await log.commit(unit)


async def searched(log: Log, texts: Sequence[str] = TEXTS, slug: str = "demo") -> int:
    """Make an inbox with as many entries as there are texts, all indexed; return its id."""
    inbox_id = (await create(log, slug, settings=SEARCHED)).inbox_id
    await fill(log, inbox_id, len(texts))
    assert await index(log, inbox_id, texts)
    return inbox_id


def phrases(text: str) -> tuple[Phrase, ...]:
    """Read phrases: words joined by `+`, a `*` at the end for a beginning."""
    return tuple(
        Phrase(tuple(part.rstrip("*").split("+")), prefix=part.endswith("*")) for part in text.split()
    )


async def look(log: Log, inbox_id: int, wanted: str, unwanted: str = "", **fields: Any) -> SearchPage:
    query = SearchQuery(inbox_id, phrases(wanted), phrases(unwanted), **fields)
    return await log.read(See(lambda snapshot: snapshot.search(query)))


async def found(log: Log, inbox_id: int, wanted: str, unwanted: str = "", **fields: Any) -> list[int]:
    """Return the seqs of what is found."""
    return [row.seq for row in (await look(log, inbox_id, wanted, unwanted, **fields)).rows]


async def states(log: Log) -> list[tuple[int, int, int]]:
    listed: list[IndexState] = await log.read(See(lambda snapshot: snapshot.indexes()))
    return [(one.inbox_id, one.indexed_seq, one.latest_seq) for one in listed]


async def unindexed(
    log: Log, inbox_id: int, limit: int = 100, body_limit: int = 100, byte_budget: int = 1 << 20
) -> Unindexed | None:
    return await log.read(See(lambda snapshot: snapshot.unindexed(inbox_id, limit, body_limit, byte_budget)))


async def change(log: Log, inbox_id: int, *, search: bool) -> None:
    settings = InboxSettings(search=search)
    await log.commit(Do(lambda tx: tx.change_inbox(inbox_id, "", settings)))


# -- what is found ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wanted", "unwanted", "seqs"),
    [
        ("apple", "", [2, 1]),
        ("red apple", "", [1]),
        ("apple red", "", [1]),
        ("red+apple", "", [1]),
        ("apple+red", "", []),
        ("apple+tree", "", [2]),
        ("apple", "tree", [1]),
        ("apple", "tree red", []),
        ("red", "green+apple house", [3, 1]),
        ("tr*", "", [4, 2]),
        ("apple+tr*", "", [2]),
        ("tree*", "", [4, 2]),
        ("t*", "hou*", [2]),
        ("re", "", []),
        ("absent", "", []),
        ("red", "absent", [3, 1]),
        ("red+apple tree", "", []),
    ],
)
async def test_words_phrases_beginnings_and_exclusions(
    store: Log, wanted: str, unwanted: str, seqs: list[int]
) -> None:
    assert await found(store, await searched(store), wanted, unwanted) == seqs


@pytest.mark.parametrize("word", ["日", "café", "ñandú", "хлеб", "a" * 64, "0x1", "₿2", "\U00010330"])
async def test_words_of_any_script_are_found_as_they_are(store: Log, word: str) -> None:
    inbox_id = await searched(store, [f"one {word} two", "other"])
    assert await found(store, inbox_id, word) == [1]
    assert await found(store, inbox_id, f"one+{word}+two") == [1]
    assert await found(store, inbox_id, f"{word[0]}*") == [1]


async def test_pages_go_down_by_seq_until_nothing_is_left(store: Log) -> None:
    inbox_id = await searched(store, ["even" if seq % 2 == 0 else "odd" for seq in range(1, 21)])
    seen: list[list[int]] = []
    before: int | None = None
    while True:
        page = await look(store, inbox_id, "even", before=before, limit=4)
        seen.append([row.seq for row in page.rows])
        before = page.resume
        if before is None:
            break
    assert seen == [[20, 18, 16, 14], [12, 10, 8, 6], [4, 2]]
    assert (await look(store, inbox_id, "even", limit=10)).resume is None
    assert await found(store, inbox_id, "even", before=2) == []
    assert await found(store, inbox_id, "even", before=3) == [2]
    assert await found(store, inbox_id, "even", before=1_000_000, limit=1) == [20]


async def test_a_page_ends_with_the_row_that_passes_its_budget(store: Log) -> None:
    inbox_id = (await create(store, settings=SEARCHED)).inbox_id
    await append(store, inbox_id, [entry(seq, said=b'"' + b"x" * 998 + b'"') for seq in range(1, 6)])
    await index(store, inbox_id, ["word"] * 5)
    page = await look(store, inbox_id, "word", byte_budget=1_500)
    assert ([row.seq for row in page.rows], page.resume) == ([5, 4], 4)
    page = await look(store, inbox_id, "word", byte_budget=0, before=2)
    assert ([row.seq for row in page.rows], page.resume) == ([1], None)


async def test_rows_come_without_their_bodies_and_with_the_head_of_the_same_moment(store: Log) -> None:
    inbox_id = await searched(store)
    page = await look(store, inbox_id, "pear")
    [row] = page.rows
    assert (row.seq, row.body, row.size, row.said) == (3, None, len(b"body of 3"), b'{"path":"/3"}')
    assert (page.head.latest_seq, page.indexed_seq) == (5, 5)


async def test_an_inbox_finds_what_is_its_own(store: Log) -> None:
    one, other = await searched(store), await searched(store, ["tree", "red"], slug="other")
    assert await found(store, one, "red") == [3, 1]
    assert await found(store, other, "red") == [2]
    await delete(store, one)
    await sweep_all(store)
    assert await found(store, other, "red") == [2]


@pytest.mark.parametrize(
    "words", ['"', "a b", "a:b", "a*", "", "NEAR(a)", "^a", "-a", "a\0b", "{a}", "a-b", "(", ")"]
)
async def test_what_is_no_word_finds_nothing_and_harms_nobody(store: Log, words: str) -> None:
    inbox_id = await searched(store)
    query = SearchQuery(inbox_id, (Phrase((words,)),))
    try:
        page = await store.read(See(lambda snapshot: snapshot.search(query)))
    except ValueError:
        pass
    else:
        assert page.rows == []
    assert await found(store, inbox_id, "pear") == [3]


# -- how the index comes to be ---------------------------------------------------------------------------


async def test_an_inbox_has_an_index_as_long_as_its_search_is_on(store: Log) -> None:
    plain = (await create(store, "plain")).inbox_id
    searched_id = (await create(store, settings=SEARCHED)).inbox_id
    assert await states(store) == [(searched_id, 0, 0)]
    await fill(store, plain, 2)
    assert await unindexed(store, plain) is None
    assert not await index(store, plain, ["x", "y"])
    assert (await look(store, plain, "x")).indexed_seq is None
    await change(store, plain, search=True)
    await change(store, plain, search=True)
    assert await states(store) == [(plain, 0, 2), (searched_id, 0, 0)]
    assert await index(store, plain, ["x", "y"])
    await change(store, plain, search=True)
    assert await found(store, plain, "x") == [1]
    await change(store, plain, search=False)
    assert await states(store) == [(searched_id, 0, 0)]
    assert (await look(store, plain, "x")).indexed_seq is None


async def test_switched_on_again_it_begins_anew_whether_or_not_the_old_one_was_swept(store: Log) -> None:
    inbox_id = await searched(store)
    for swept in (False, True):
        await change(store, inbox_id, search=False)
        if swept:
            await sweep_all(store, max_rows=2)
        await change(store, inbox_id, search=True)
        assert await states(store) == [(inbox_id, 0, 5)]
        assert await found(store, inbox_id, "apple") == []
        assert await index(store, inbox_id, ["new"] * 5)
        assert await found(store, inbox_id, "new") == [5, 4, 3, 2, 1]
    await sweep_all(store)
    assert await found(store, inbox_id, "new") == [5, 4, 3, 2, 1]


async def test_the_unindexed_come_in_order_with_what_is_indexed_of_them(store: Log) -> None:
    inbox_id = (await create(store, settings=SEARCHED)).inbox_id
    body_id = await store.commit(Do(lambda tx: stage(tx, [b"L" * 262_144, b"rest"])))
    await append(
        store,
        inbox_id,
        [
            entry(1, body=b"short", event_type="first"),
            large_entry(2, body_id, 262_148),
            entry(3, body=None),
            entry(4, body=b"y" * 500),
        ],
    )
    page = await unindexed(store, inbox_id)
    assert page is not None
    assert [(row.seq, row.event_type, row.body) for row in page.rows] == [
        (1, "first", b"short"),
        (2, "push", b"L" * 100),
        (3, "push", None),
        (4, "push", b"y" * 100),
    ]
    assert (page.rows[0].said, page.rows[0].body_kind) == (b'{"path":"/1"}', 2)
    assert (page.after, page.through, page.more) == (0, 4, False)


async def test_the_unindexed_come_in_slices_bounded_by_number_and_by_bytes(store: Log) -> None:
    inbox_id = (await create(store, settings=SEARCHED)).inbox_id
    await append(store, inbox_id, [entry(seq, body=b"x" * 1_000) for seq in range(1, 11)])
    for limit, budget, through, more in (
        (3, 1 << 20, 3, True),
        (10, 1 << 20, 10, False),
        (11, 1 << 20, 10, False),
        (10, 2_500, 3, True),
        (10, 0, 1, True),
    ):
        page = await unindexed(store, inbox_id, limit, 1_000, budget)
        assert page is not None
        assert ([row.seq for row in page.rows], page.through) == (list(range(1, through + 1)), through)
        assert page.more == more
    await index(store, inbox_id, [""] * 8)
    page = await unindexed(store, inbox_id, 100, 1_000)
    assert page is not None
    assert (page.after, [row.seq for row in page.rows], page.through, page.more) == (8, [9, 10], 10, False)
    await index(store, inbox_id, [""] * 2, after=8)
    page = await unindexed(store, inbox_id)
    assert page == Unindexed(10, [], 10, False)


async def test_only_the_one_who_read_the_cursor_where_it_is_may_move_it(store: Log) -> None:
    inbox_id = await searched(store)
    await append(store, inbox_id, [entry(6)])
    assert not await index(store, inbox_id, ["twice"], after=0)
    assert not await index(store, inbox_id, ["too far"], after=6)
    assert await found(store, inbox_id, "twice") == []
    assert await index(store, inbox_id, ["once"], after=5)
    assert await found(store, inbox_id, "once") == [6]
    assert await states(store) == [(inbox_id, 6, 6)]


async def test_a_slice_that_fails_leaves_neither_words_nor_a_moved_cursor(store: Log) -> None:
    inbox_id = await searched(store)
    await append(store, inbox_id, [entry(6)])

    def fail(tx: Any) -> None:
        assert tx.index(inbox_id, 5, [IndexRow(6, "six")], 6)
        raise RuntimeError("after the words were put there")

    with pytest.raises(Exception, match="RuntimeError"):
        await store.commit(Do(fail))
    assert await states(store) == [(inbox_id, 5, 6)]
    assert await found(store, inbox_id, "six") == []
    assert await index(store, inbox_id, ["six"], after=5)
    assert await found(store, inbox_id, "six") == [6]


async def test_the_index_outlives_a_restart(open_log: OpenLog) -> None:
    async with open_log() as log:
        inbox_id = await searched(log)
        await append(log, inbox_id, [entry(6)])
    async with open_log() as log:
        assert await found(log, inbox_id, "apple") == [2, 1]
        assert await states(log) == [(inbox_id, 5, 6)]
        page = await unindexed(log, inbox_id)
        assert page is not None
        assert [row.seq for row in page.rows] == [6]


# -- what leaves it --------------------------------------------------------------------------------------


async def test_an_erased_message_is_not_found_any_more(store: Log) -> None:
    inbox_id = await searched(store)
    await erase(store, inbox_id, 2)
    assert await found(store, inbox_id, "apple") == [1]
    assert await found(store, inbox_id, "apple+tree") == []


async def test_what_is_erased_before_it_is_indexed_is_left_out(store: Log) -> None:
    inbox_id = (await create(store, settings=SEARCHED)).inbox_id
    await fill(store, inbox_id, 3)
    await erase(store, inbox_id, 2)
    page = await unindexed(store, inbox_id)
    assert page is not None
    assert [row.seq for row in page.rows] == [1, 3]
    assert await index(store, inbox_id, ["word"] * 3)  # as read before the erasure
    assert await found(store, inbox_id, "word") == [3, 1]


async def test_the_cursor_passes_what_is_gone_at_the_end(store: Log) -> None:
    inbox_id = (await create(store, settings=SEARCHED)).inbox_id
    await fill(store, inbox_id, 3)
    for seq in (2, 3):
        await erase(store, inbox_id, seq)
    page = await unindexed(store, inbox_id)
    assert page is not None
    assert ([row.seq for row in page.rows], page.through, page.more) == ([1], 3, False)


async def test_what_is_dropped_is_not_found_from_that_moment_and_gone_with_the_sweep(store: Log) -> None:
    inbox_id = await searched(store)
    await drop_before(store, inbox_id, 3, rows=2, size=18)
    assert await found(store, inbox_id, "apple") == []
    assert await found(store, inbox_id, "red") == [3]
    await sweep_all(store, max_rows=1)
    assert await found(store, inbox_id, "red") == [3]


async def test_dropped_before_it_was_indexed_it_is_passed_over(store: Log) -> None:
    inbox_id = (await create(store, settings=SEARCHED)).inbox_id
    await fill(store, inbox_id, 5)
    await drop_before(store, inbox_id, 4, rows=3, size=27)
    page = await unindexed(store, inbox_id)
    assert page is not None
    assert ([row.seq for row in page.rows], page.after, page.through) == ([4, 5], 0, 5)
    assert await index(store, inbox_id, ["word"] * 5)
    assert await found(store, inbox_id, "word") == [5, 4]
    await sweep_all(store)
    assert await found(store, inbox_id, "word") == [5, 4]


async def test_a_deleted_inbox_takes_its_index_along(store: Log) -> None:
    inbox_id = await searched(store)
    await delete(store, inbox_id)
    assert await states(store) == []
    assert await unindexed(store, inbox_id) is None
    assert not await index(store, inbox_id, ["late"], after=5)
    with pytest.raises(InboxGone):
        await look(store, inbox_id, "red")
    again = await searched(store, ["red"])
    await sweep_all(store, max_rows=1)
    assert await found(store, again, "red") == [1]


async def test_merging_ends_and_changes_nothing_that_is_found(store: Log) -> None:
    inbox_id = (await create(store, settings=SEARCHED)).inbox_id
    for seq in range(1, 41):
        await store.commit(Do(lambda tx, seq=seq: put(tx, inbox_id, [entry(seq)])))
        await index(store, inbox_id, [f"all n{seq}"], after=seq - 1)
    await drop_before(store, inbox_id, 31, rows=30, size=sum(len(b"body of %d" % n) for n in range(1, 31)))
    await sweep_all(store)
    merges = 0
    while await store.commit(Do(lambda tx: tx.merge_index(), Lane.HOUSEKEEPING)):
        merges += 1
        assert merges < 1_000
    assert await found(store, inbox_id, "all", limit=100) == list(range(40, 30, -1))
    assert await found(store, inbox_id, "n35") == [35]
    assert await found(store, inbox_id, "n5") == []
