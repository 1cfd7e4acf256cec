"""Serving one by one, as rules: what was served is not served again, and acknowledging folds as it always does."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.rules import draining
from actors.rules.draining import MAX_RUNS, Reader, Run, TooManyRuns, acknowledge_each, mark_served, passed

LATEST = 40
seqs = st.lists(st.integers(1, LATEST), max_size=12)


def nothing_missing(after: int) -> int:
    """Return the seq after one, of an inbox without holes."""
    return min(after, LATEST) + 1


def test_serving_moves_no_cursor() -> None:
    reader = mark_served(Reader(), [1, 2, 3, 5], nothing_missing)
    assert reader == Reader(served=(Run(1, 3), Run(5, 5)))
    assert [seq for seq in range(1, 7) if reader.was_served(seq)] == [1, 2, 3, 5]
    assert not reader.has_acked(1)


def test_what_the_cursor_passes_is_remembered_no_longer() -> None:
    reader = mark_served(Reader(), range(1, 8), nothing_missing)
    assert acknowledge_each(reader, [1, 2, 4], nothing_missing) == Reader(
        ack_cursor=2, acked=(Run(4, 4),), served=(Run(3, 7),)
    )
    assert draining.advanced(reader, 3) == Reader(ack_cursor=3, served=(Run(4, 7),))
    assert acknowledge_each(reader, range(1, 8), nothing_missing) == Reader(ack_cursor=7)


def test_there_are_so_many_runs_at_most() -> None:
    reader = mark_served(Reader(), range(2, 2 * MAX_RUNS + 1, 2), lambda after: after + 1)
    assert len(reader.served) == MAX_RUNS
    with pytest.raises(TooManyRuns) as refused:
        mark_served(reader, [2 * MAX_RUNS + 2], lambda after: after + 1)
    assert refused.value.oldest == 1
    assert mark_served(reader, [1, 3], lambda after: after + 1).served[0] == Run(1, 4)


def test_a_look_starts_behind_what_was_taken() -> None:
    reader = Reader(ack_cursor=2, acked=(Run(5, 6),), served=(Run(3, 4), Run(7, 9), Run(12, 12)))
    assert [passed(reader, floor, unserved=True) for floor in (0, 2, 3, 9, 10, 11)] == [9, 9, 9, 9, 10, 12]
    assert [passed(reader, floor, unserved=False) for floor in (0, 4, 5, 6)] == [2, 6, 6, 6]


@given(seqs, seqs, st.integers(0, LATEST), st.booleans())
def test_nothing_that_may_be_served_is_passed_over(
    served: list[int], acked: list[int], floor: int, unserved: bool
) -> None:
    reader = acknowledge_each(mark_served(Reader(), served, nothing_missing), acked, nothing_missing)
    taken = reader.was_served if unserved else reader.has_acked
    through = passed(reader, floor, unserved=unserved)
    assert through >= floor
    assert all(taken(seq) for seq in range(floor + 1, through + 1))
    assert through == LATEST or not taken(through + 1)


@given(st.lists(st.tuples(st.sampled_from(["serve", "ack", "cursor"]), seqs), max_size=12))
def test_a_reader_remembers_what_a_plain_set_of_each_would(steps: list[tuple[str, list[int]]]) -> None:
    reader = Reader()
    served: set[int] = set()
    acked: set[int] = set()
    for step, numbers in steps:
        if step == "serve":
            reader = mark_served(reader, numbers, nothing_missing)
            served.update(numbers)
        elif step == "ack":
            reader = acknowledge_each(reader, numbers, nothing_missing)
            acked.update(numbers)
        elif numbers:
            reader = draining.fold(draining.advanced(reader, numbers[0]), nothing_missing)
            acked.update(range(1, numbers[0] + 1))
        assert {seq for seq in range(1, LATEST + 1) if reader.has_acked(seq)} == acked
        assert {seq for seq in range(1, LATEST + 1) if reader.was_served(seq)} == served | acked
        assert reader.ack_cursor == max(n for n in range(LATEST + 1) if set(range(1, n + 1)) <= acked)
        for runs in (reader.acked, reader.served):
            assert all(run.low > reader.ack_cursor for run in runs)
