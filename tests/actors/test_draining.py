"""Draining as rules: the conversations of the contract, and what must hold for any client, on a plain list of rows."""

from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.rules import draining
from actors.rules.draining import Reader, Row, Run, TooManyRuns, Window, acknowledge_each, fold
from tests.pulls import CONVERSATIONS, MAX_BATCH, Conversation


class Inbox:
    """Rows in memory and one reader of them."""

    def __init__(self, rows: Sequence[Row], latest: int = 0) -> None:
        self.rows = list(rows)
        self.latest = max([latest, *(row.seq for row in rows)])
        self.reader = Reader()

    def next_seq(self, after: int) -> int:
        return min((row.seq for row in self.rows if row.seq > after), default=max(self.latest, after) + 1)

    def above(self, seq: int, limit: int) -> list[Row]:
        return [row for row in self.rows if row.seq > seq][:limit]

    def pull(self, since: int | None = None, ack: int | None = None, limit: int = MAX_BATCH) -> Window:
        if ack is not None:
            ahead = [row.seq for row in self.above(self.reader.ack_cursor, MAX_BATCH)]
            self.reader = draining.acknowledge(self.reader, ack, ahead, self.next_seq)
        limit = min(limit, MAX_BATCH)
        found = self.above(draining.floor(self.reader, since), limit + 1)
        window = draining.look(self.reader, since, found[:limit], has_more=len(found) > limit)
        self.reader = window.reader
        return window


@pytest.mark.parametrize("conversation", CONVERSATIONS, ids=lambda one: one.name)
def test_a_conversation_of_the_contract_goes_as_it_says(conversation: Conversation) -> None:
    inbox = Inbox([Row(*seed) for seed in conversation.rows])
    inbox.reader = acknowledge_each(inbox.reader, conversation.acked, inbox.next_seq)
    for step in conversation.steps:
        window = inbox.pull(**step.call)
        assert (window.items, inbox.reader.ack_cursor, window.window_high, window.has_more) == step[1:]


def test_what_was_looked_at_without_a_break_is_remembered_also_while_nothing_is_acknowledged() -> None:
    inbox = Inbox([Row(seq, 0.5, True) for seq in range(1, 7)])
    assert inbox.pull(limit=2).reader.served_high == 2
    assert inbox.pull(limit=4).reader.served_high == 4
    assert inbox.pull(limit=1).reader.served_high == 4, "looking at less again takes nothing back"
    assert inbox.pull(since=4, limit=1).reader.served_high == 5
    assert inbox.pull(since=6).reader.served_high == 5, "6 was passed over"


def test_what_does_not_fit_begins_with_the_first_seq_beyond_the_budget() -> None:
    costs = [(3, 40), (4, 30), (7, 30), (9, 1)]
    assert draining.fitting(costs, 101) is None
    assert draining.fitting(costs, 100) == 9
    assert draining.fitting(costs, 99) == 7
    assert draining.fitting(costs, 70) == 7
    assert draining.fitting(costs, 1) == 4, "the first one fits always"
    assert draining.fitting([(3, 1), (4, 0)], 1) is None
    assert draining.fitting([(3, 40)], 1) is None
    assert draining.fitting([], 0) is None


# -- acknowledging one by one ------------------------------------------------------------------------


def test_acknowledgements_out_of_order_fold_over_a_run_without_a_break() -> None:
    inbox = Inbox([Row(seq, 0.5, True) for seq in range(1, 7)])
    for seqs, cursor, runs in (
        ([3], 0, ((3, 3),)),
        ([5, 2], 0, ((2, 3), (5, 5))),
        ([1], 3, ((5, 5),)),
        ([1, 3, 4], 5, ()),
    ):
        inbox.reader = acknowledge_each(inbox.reader, seqs, inbox.next_seq)
        assert inbox.reader == Reader(cursor, 0, tuple(Run(*run) for run in runs))


def test_the_cursor_folds_over_what_is_retained_no_longer() -> None:
    inbox = Inbox([Row(seq, 0.5, True) for seq in (7, 8, 10)], latest=12)
    inbox.reader = acknowledge_each(inbox.reader, [8], inbox.next_seq)
    assert inbox.reader == Reader(6, 0, (Run(8, 8),)), "1 to 6 are gone"
    inbox.pull(ack=7)
    assert inbox.reader.ack_cursor == 9, "8 was acknowledged, 9 is gone"
    inbox.pull(ack=10)
    assert inbox.reader.ack_cursor == 12, "there is nothing after 10"


def test_too_many_holes_are_refused_by_the_oldest() -> None:
    seqs = range(1, 2 * draining.MAX_RUNS + 4)
    inbox = Inbox([Row(seq, 0.5, True) for seq in seqs])
    reader = acknowledge_each(Reader(), seqs[1 : 2 * draining.MAX_RUNS : 2], lambda after: after + 1)
    assert len(reader.acked) == draining.MAX_RUNS
    with pytest.raises(TooManyRuns) as refused:
        acknowledge_each(reader, [seqs[-1]], lambda after: after + 1)
    assert refused.value.oldest == 1
    assert "seq 1 " in str(refused.value)
    assert acknowledge_each(reader, [1], inbox.next_seq).ack_cursor == 2


# -- for any client -----------------------------------------------------------------------------------

ROWS = st.lists(st.tuples(st.booleans(), st.sampled_from([0.1, 0.5, 0.9]), st.booleans()), max_size=14).map(
    lambda drawn: [Row(n, score, shown) for n, (kept, score, shown) in enumerate(drawn, 1) if kept]
)
CALLS = st.lists(
    st.fixed_dictionaries(
        {},
        optional={"since": st.integers(0, 20), "ack": st.integers(0, 20), "limit": st.integers(1, 6)},
    ),
    max_size=12,
)


@given(ROWS, CALLS)
def test_the_cursor_never_moves_back_nor_over_a_row_that_was_not_looked_at(
    rows: list[Row], calls: list[dict[str, int]]
) -> None:
    inbox = Inbox(rows, latest=14)
    looked_at: set[int] = set()
    for call in calls:
        before = inbox.reader.ack_cursor
        # An acknowledgement may reach over the window that this call examines before it applies it.
        examined = {row.seq for row in inbox.above(before, MAX_BATCH)} if "ack" in call else set()
        window = inbox.pull(**call)
        cursor = inbox.reader.ack_cursor
        assert cursor >= before
        assert {row.seq for row in rows if before < row.seq <= cursor} <= looked_at | examined
        start = call.get("since", cursor)
        looked_at |= {row.seq for row in rows if start < row.seq <= window.window_high}


@given(ROWS, st.lists(st.integers(1, 6), min_size=1, max_size=40))
def test_who_follows_the_rule_is_served_every_row_that_it_may_see(rows: list[Row], limits: list[int]) -> None:
    inbox = Inbox(rows, latest=14)
    served: list[int] = []
    ack: int | None = None
    for limit in limits:
        window = inbox.pull(ack=ack, limit=limit)
        served += window.items
        ack = window.window_high
    cursor = inbox.reader.ack_cursor
    assert len(served) == len(set(served))
    assert [row.seq for row in rows if row.shown and row.seq <= cursor] == sorted(
        seq for seq in served if seq <= cursor
    )


@given(ROWS, st.lists(st.integers(1, 14), max_size=20))
def test_acknowledged_is_the_cursor_and_the_runs_together(rows: list[Row], seqs: list[int]) -> None:
    inbox = Inbox(rows, latest=14)
    retained = {row.seq for row in rows}
    acked: set[int] = set()
    for seq in seqs:
        if seq in retained:
            inbox.reader = acknowledge_each(inbox.reader, [seq], inbox.next_seq)
            acked.add(seq)
        assert {seq for seq in retained if inbox.reader.has_acked(seq)} == acked
        runs = inbox.reader.acked
        assert all(one.high + 1 < two.low for one, two in pairwise(runs))
        assert not runs or runs[0].low > inbox.reader.ack_cursor + 1
        assert not acked or fold(inbox.reader, inbox.next_seq) == inbox.reader
