import msgspec
from hypothesis import given
from hypothesis import strategies as st

from actors.tail import ENTRY_OVERHEAD_BYTES, TAIL_ENTRIES, Tail, TailBudget
from storage.records import BodyKind, Head, NewEntry, StoredMessage, Verdict

LIMIT = 1_000_000
BODY_LIMIT = 100


def entries(first: int, count: int, *, body: bytes = b"{}", event_type: str = "push") -> list[NewEntry]:
    return [
        NewEntry(
            seq, b"i" * 16, seq, len(body), b"{}", b"{}", BodyKind.JSON, body, None, event_type, Verdict.NONE
        )
        for seq in range(first, first + count)
    ]


def head(latest: int, first: int = 1) -> Head:
    return Head(epoch="e", latest_seq=latest, first_seq=first)


def warm(latest: int = 10) -> Tail:
    """A tail whose first turn brought the inbox from 5 to `latest`."""
    tail = Tail(TailBudget(LIMIT, BODY_LIMIT))
    tail.extend(head(latest), entries(6, latest - 5))
    return tail


def seqs(tail: Tail, after: int, limit: int = 100, types: frozenset[str] | None = None) -> list[int]:
    page, found = tail.look(after, types, limit)
    assert [row.seq for row in page.rows] == [entry.row.seq for entry in found]
    return [row.seq for row in page.rows]


def test_a_cold_tail_covers_nothing() -> None:
    tail = Tail(TailBudget(LIMIT, BODY_LIMIT))
    assert not tail.covers(0)
    assert not tail.covers(10)


def test_a_tail_covers_what_was_added_since_it_was_warmed_and_nothing_older() -> None:
    tail = warm()
    assert not tail.covers(4)
    assert tail.covers(5)
    assert seqs(tail, 5) == [6, 7, 8, 9, 10]
    assert seqs(tail, 8) == [9, 10]
    assert seqs(tail, 10) == []


def test_a_turn_that_adds_nothing_warms_a_tail_too() -> None:
    tail = Tail(TailBudget(LIMIT, BODY_LIMIT))
    tail.extend(head(7), [])
    assert tail.covers(7)
    assert not tail.covers(6)
    tail.extend(head(8), entries(8, 1))
    assert seqs(tail, 7) == [8]


def test_a_row_and_its_head_are_those_that_were_committed() -> None:
    tail = Tail(TailBudget(LIMIT, BODY_LIMIT))
    whole = NewEntry(
        1,
        b"a" * 16,
        70,
        BODY_LIMIT,
        b'{"f":1}',
        b"{}",
        BodyKind.TEXT,
        b"x" * BODY_LIMIT,
        None,
        "push",
        Verdict.VERIFIED,
    )
    apart = NewEntry(2, b"b" * 16, 71, 900, b"{}", b'{"s":"t"}', BodyKind.LARGE, None, 5, "", Verdict.FAILED)
    tail.extend(head(2), [whole, apart])
    page, _ = tail.look(0, None, 10)
    assert page.head == head(2)
    assert page.rows == [StoredMessage(*msgspec.structs.astuple(entry)[:11]) for entry in (whole, apart)]
    for limit in (1, 2):
        looked = tail.look_back(None, None, limit)
        assert looked is not None
        assert looked[0].head == head(2)


def test_an_entry_costs_its_texts_and_something_more() -> None:
    budget = TailBudget(LIMIT, BODY_LIMIT)
    tail = Tail(budget)
    kept = msgspec.structs.replace(entries(1, 1, body=b"x" * BODY_LIMIT)[0], facts=b"f" * 30, said=b"s" * 7)
    empty = msgspec.structs.replace(kept, seq=2, body=None)
    tail.extend(head(2), [kept, empty])
    assert tail.bytes == budget.bytes == 2 * (ENTRY_OVERHEAD_BYTES + 37) + BODY_LIMIT


def test_a_head_whose_entries_are_not_known_leaves_nothing_and_is_gone_on_from() -> None:
    tail = warm()
    tail.skip(head(14))
    assert (tail.covers(13), tail.covers(14), tail.covers(15)) == (False, True, False)
    assert tail.look(14, None, 1)[0].head == head(14)
    tail.extend(head(16), entries(15, 2))
    assert seqs(tail, 14) == [15, 16]


def test_a_look_says_whether_more_matches_lie_beyond_its_limit() -> None:
    tail = warm()
    page, _ = tail.look(5, None, 2)
    assert ([row.seq for row in page.rows], page.exhausted) == ([6, 7], False)
    page, _ = tail.look(8, None, 2)
    assert ([row.seq for row in page.rows], page.exhausted) == ([9, 10], True)


def test_a_look_finds_the_wanted_types_only() -> None:
    tail = warm()
    tail.extend(head(11), entries(11, 1, event_type="ping"))
    assert seqs(tail, 5, types=frozenset({"ping"})) == [11]
    page, _ = tail.look(5, frozenset({"ping"}), 1)
    assert page.exhausted


def test_retention_trims_the_tail_in_the_step_that_moves_first_seq() -> None:
    tail = warm()
    tail.extend(head(10, first=9), [])
    assert not tail.covers(7)
    assert seqs(tail, 8) == [9, 10]


def test_an_erased_message_leaves_no_hole_in_memory() -> None:
    tail = warm()
    tail.remove(8)
    assert not tail.covers(7)
    assert seqs(tail, 8) == [9, 10]


def backward(
    tail: Tail, before: int | None = None, limit: int = 100, types: frozenset[str] | None = None
) -> tuple[list[int], bool] | None:
    """Return the seqs of a backward page and whether it is exhausted, None when the store must be asked."""
    looked = tail.look_back(before, types, limit)
    if looked is None:
        return None
    page, found = looked
    assert [row.seq for row in page.rows] == [entry.row.seq for entry in found]
    return [row.seq for row in page.rows], page.exhausted


def test_a_look_back_is_newest_first_and_whole_or_left_to_the_store() -> None:
    tail = warm()
    assert backward(tail, limit=3) == ([10, 9, 8], False)
    assert backward(tail, before=9, limit=2) == ([8, 7], False)
    assert backward(tail, limit=5) is None, "whether there are more is not known here"
    tail.extend(head(10, first=5), [])
    assert backward(tail, limit=5) is None, "5 is kept, and not here"
    tail.extend(head(10, first=6), [])
    assert backward(tail, limit=5) == ([10, 9, 8, 7, 6], True)
    assert backward(tail, before=6) == ([], True)
    tail.clear()
    assert backward(tail) is None
    assert backward(Tail(TailBudget(LIMIT, BODY_LIMIT))) is None


def test_a_look_back_for_types_goes_to_the_store_when_it_does_not_find_enough() -> None:
    tail = warm()
    tail.extend(head(12), entries(11, 2, event_type="ping"))
    tail.extend(head(13), entries(13, 1))
    ping = frozenset({"ping"})
    assert backward(tail, limit=1, types=ping) == ([12], False)
    assert backward(tail, limit=2, types=ping) is None
    tail.extend(head(13, first=9), [])
    assert backward(tail, limit=2, types=ping) == ([12, 11], True)


def test_a_tail_keeps_a_bounded_number_of_entries() -> None:
    tail = warm()
    tail.extend(head(10 + TAIL_ENTRIES), entries(11, TAIL_ENTRIES))
    assert not tail.covers(9)
    assert seqs(tail, 10, limit=TAIL_ENTRIES) == list(range(11, 11 + TAIL_ENTRIES))


def test_bodies_that_no_page_shows_are_not_kept() -> None:
    tail = Tail(TailBudget(LIMIT, BODY_LIMIT))
    tail.extend(head(1), entries(1, 1, body=b"x" * (BODY_LIMIT + 1)))
    page, _ = tail.look(0, None, 1)
    assert page.rows[0].body is None
    assert page.rows[0].size == BODY_LIMIT + 1


def test_the_inbox_written_to_least_lately_gives_way() -> None:
    budget = TailBudget(10 * (ENTRY_OVERHEAD_BYTES + 6), BODY_LIMIT)
    old, new = Tail(budget), Tail(budget)
    old.extend(head(6), entries(1, 6))
    new.extend(head(6), entries(1, 6))
    assert old.covers(2)
    assert not old.covers(1)
    assert new.covers(0)
    new.extend(head(12), entries(7, 6))
    assert not old.covers(5)
    assert old.covers(6)
    assert not new.covers(0)


def test_clearing_gives_the_bytes_back() -> None:
    budget = TailBudget(LIMIT, BODY_LIMIT)
    tail = Tail(budget)
    tail.extend(head(6), entries(1, 6))
    tail.clear()
    assert budget.bytes == 0
    assert not tail.covers(6)
    assert tail not in budget._by_use, "else the inboxes that nobody uses would be kept for ever"


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 5), st.integers(0, 3)), max_size=40))
def test_whatever_happens_a_tail_answers_as_the_store_would_or_says_no(
    steps: list[tuple[int, int, int]],
) -> None:
    budget = TailBudget(40 * (ENTRY_OVERHEAD_BYTES + 6), BODY_LIMIT)
    tails = [Tail(budget) for _ in range(3)]
    latest, first = [0, 0, 0], [1, 1, 1]
    for which, added, dropped in steps:
        latest[which] += added
        first[which] = min(first[which] + dropped, latest[which] + 1)
        new = entries(latest[which] - added + 1, added)
        tails[which].extend(head(latest[which], first[which]), new)
    assert budget.bytes == sum(tail.bytes for tail in tails) <= budget.limit_bytes
    for which, tail in enumerate(tails):
        for after in range(latest[which] + 1):
            if tail.covers(after):
                assert seqs(tail, after) == list(range(max(after + 1, first[which]), latest[which] + 1))
            kept = list(range(first[which], after))[::-1]
            for limit in (1, 3):
                assert backward(tail, after, limit) in (None, (kept[:limit], len(kept) <= limit))


def test_kept_encodings_count_until_their_entry_goes() -> None:
    budget = TailBudget(LIMIT, BODY_LIMIT)
    tail = Tail(budget)
    tail.extend(head(3), entries(1, 3))
    before = budget.bytes
    _, [first, second, third] = tail.look(0, None, 10)
    for entry in (first, second, third):
        entry.keep("variant", b"x" * 1_000)
    assert (tail.bytes, budget.bytes) == (before + 3_000, before + 3_000)
    assert first.fragments == {"variant": b"x" * 1_000}
    cost = first.cost
    assert cost > 1_000 + ENTRY_OVERHEAD_BYTES
    tail.drop_oldest()
    first.keep("another", b"x" * 1_000)  # by a reader that has it still
    assert budget.bytes == tail.bytes == (before + 3_000) - cost
    tail.clear()
    second.keep("another", b"x" * 1_000)
    assert budget.bytes == tail.bytes == 0


def test_kept_encodings_make_the_least_used_tail_give_way() -> None:
    budget = TailBudget(10_000, BODY_LIMIT)
    old, new = Tail(budget), Tail(budget)
    old.extend(head(2), entries(1, 2))
    new.extend(head(2), entries(1, 2))
    for entry in old.look(0, None, 10)[1]:
        entry.keep("variant", b"x" * 5_000)
    new.extend(head(3), entries(3, 1))
    assert budget.bytes <= budget.limit_bytes
    assert (old.covers(0), new.covers(0)) == (False, True)
