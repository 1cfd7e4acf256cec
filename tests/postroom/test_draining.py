"""Draining an inbox: every item once, best first, acknowledged by the client rule, whatever happens to the server."""

import itertools
import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from postroom.client import Client, Refused, Unreachable
from postroom.deliveries import Item
from postroom.draining import FRESH_SECONDS, Budget, Drained, Drainer, drain
from postroom.following import Lost
from tests.postroom.drained import Break, Inbox, Letter, item, page
from tests.postroom.scriptedserver import ScriptedServer, answer


class Clock:
    """A time that passes only when somebody sleeps or works."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def drainer(inbox: Inbox, clock: Clock | None = None, **how: Any) -> Drainer:
    clock = clock or Clock()
    api = Client("http://postroom.test", "token", inbox.transport())
    options: dict[str, Any] = {"sleep": clock.sleep, "clock": clock, "jitter": lambda: 1.0}
    return Drainer(api, **(options | how))


def collecting() -> tuple[list[int], Callable[[Item], None]]:
    seqs: list[int] = []
    return seqs, lambda item: seqs.append(item.delivery_seq)


def sized(inbox: Inbox) -> int:
    """Return the size of one item of an inbox whose items are all alike."""
    return len(json.dumps(item(inbox.letters[0])).encode())


# -- the client rule -----------------------------------------------------------------------------------------


def test_each_page_is_handed_over_best_first_and_acknowledged_with_the_call_for_the_next() -> None:
    inbox = Inbox()
    for score in (0.1, 0.2, 0.3, 0.9, 0.5, 0.8):
        inbox.deliver(score)
    seqs, handle = collecting()
    done = drainer(inbox).drain(handle)
    assert seqs == [4, 3, 2, 1, 6, 5]
    assert inbox.acks == [None, 4, 6]
    assert (done.items, done.left) == (6, False)
    assert inbox.reader.ack_cursor == 6


def test_rows_that_the_token_may_not_see_are_passed_even_a_whole_window_of_them() -> None:
    inbox = Inbox()
    for n in range(1, 11):
        inbox.deliver(shown=n in (1, 10))
    seqs, handle = collecting()
    drainer(inbox).drain(handle)
    assert seqs == [1, 10]
    assert inbox.acks == [None, 4, 8, 10]


def test_an_empty_inbox_is_looked_at_once() -> None:
    inbox = Inbox()
    assert drainer(inbox).drain(lambda item: None) == Drained(0, 0, False)
    assert inbox.calls == [("/v1/inbox:pull", {})]


def test_a_budget_that_ends_in_a_page_leaves_the_first_unhandled_item_unacknowledged() -> None:
    inbox = Inbox()
    for score in (0.9, 0.1, 0.8, 0.7):
        inbox.deliver(score)
    seqs, handle = collecting()
    draining = drainer(inbox)
    budget = Budget(max_bytes=3 * sized(inbox))
    assert draining.drain(handle, budget) == Drained(3, 3 * sized(inbox), True)
    assert seqs == [1, 3, 4]
    assert inbox.reader.ack_cursor == 1
    inbox.deliver(1.0)
    assert draining.drain(handle, budget).left is False
    assert seqs == [1, 3, 4, 5, 2]
    assert inbox.reader.ack_cursor == 5


def test_the_first_item_is_handed_over_whatever_its_size() -> None:
    inbox = Inbox()
    inbox.deliver(0.9, text="x" * 10_000)
    inbox.deliver(0.1)
    seqs, handle = collecting()
    draining = drainer(inbox)
    for _ in range(2):
        draining.drain(handle, Budget(max_tokens=100))
    assert seqs == [1, 2]


def test_a_budget_of_both_kinds_is_the_smaller_one() -> None:
    assert Budget(max_bytes=100, max_tokens=20).size == 60
    assert Budget(max_bytes=50, max_tokens=20).size == 50
    assert Budget().size == float("inf")


def test_rows_in_front_of_an_unhandled_item_are_acknowledged_without_it() -> None:
    inbox = Inbox()
    for score, shown in ((0.9, True), (0.5, False), (0.1, True)):
        inbox.deliver(score, shown=shown)
    draining = drainer(inbox)
    draining.drain(lambda item: None, Budget(max_bytes=1))
    assert inbox.reader.ack_cursor == 2


def test_a_handler_that_fails_is_asked_again_for_its_item_alone() -> None:
    inbox = Inbox()
    for score in (0.3, 0.2, 0.1):
        inbox.deliver(score)
    seqs: list[int] = []

    def handle(item: Item) -> None:
        seqs.append(item.delivery_seq)
        if seqs == [1, 2]:
            raise RuntimeError("not today")

    draining = drainer(inbox)
    with pytest.raises(RuntimeError, match="not today"):
        draining.drain(handle)
    assert inbox.reader.ack_cursor == 1
    draining.drain(handle)
    assert seqs == [1, 2, 2, 3]


def test_a_handler_s_error_comes_through_when_nobody_can_be_told_what_was_handled() -> None:
    inbox = Inbox()
    inbox.deliver(0.3)
    inbox.deliver(0.2)
    inbox.breaks = [None, "before", None]

    def handle(item: Item) -> None:
        if item.delivery_seq == 2:
            raise RuntimeError

    with pytest.raises(RuntimeError):
        drainer(inbox).drain(handle)
    assert len(inbox.calls) == 2


# -- a server that goes away -----------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["before", "after"])
@pytest.mark.parametrize("at", range(4))
def test_a_break_at_any_call_costs_time_and_no_item(at: int, how: Break) -> None:
    inbox = Inbox(max_batch=2)
    for _ in range(5):
        inbox.deliver()
    inbox.breaks = [how if n == at else None for n in range(4)]
    seqs, handle = collecting()
    lost: list[Lost] = []
    drainer(inbox, on_lost=lost.append).drain(handle)
    assert seqs == [1, 2, 3, 4, 5]
    assert len(lost) == 1
    assert inbox.reader.ack_cursor == 5


@pytest.mark.parametrize("how", ["before", "after"])
def test_an_acknowledgement_is_not_repeated_blindly_to_a_server_that_was_restored(how: Break) -> None:
    inbox = Inbox()
    nothing = inbox.backup()
    for _ in range(3):
        inbox.deliver()
    inbox.breaks = [None, how]
    ids: list[str] = []

    def restore(lost: Lost) -> None:
        inbox.restore(nothing)
        inbox.deliver()
        inbox.deliver()

    drainer(inbox, on_lost=restore).drain(lambda item: ids.append(item.diff.diff_id))
    assert ids == ["id-1", "id-2", "id-3", "id-4", "id-5"]


def test_a_page_that_took_long_is_read_again_before_it_is_acknowledged() -> None:
    inbox, clock = Inbox(), Clock()
    nothing = inbox.backup()
    for _ in range(3):
        inbox.deliver()
    ids: list[str] = []

    def handle(item: Item) -> None:
        ids.append(item.diff.diff_id)
        if item.diff.diff_id == "id-3":
            clock.sleep(FRESH_SECONDS + 1)
            inbox.restore(nothing)
            for _ in range(3):
                inbox.deliver()

    drainer(inbox, clock).drain(handle)
    assert ids == [f"id-{n}" for n in range(1, 7)]
    assert inbox.acks == [None, None, 3]


def test_patience_has_an_end_and_begins_anew_with_each_success() -> None:
    inbox = Inbox(max_batch=1)
    for _ in range(2):
        inbox.deliver()
    seqs, handle = collecting()
    inbox.breaks = [None, *["before"] * 3, None, None, *["before"] * 100]  # type: ignore[list-item]  # literals
    draining = drainer(inbox, patience_seconds=20)
    with pytest.raises(Unreachable):
        draining.drain(handle)
    assert seqs == [1, 2]
    inbox.breaks.clear()
    draining.drain(handle)
    assert seqs == [1, 2]
    assert inbox.reader.ack_cursor == 2


def test_without_patience_the_first_failure_is_the_last() -> None:
    inbox = Inbox()
    inbox.breaks = ["before"]
    with pytest.raises(Unreachable):
        drainer(inbox, patience_seconds=0).drain(lambda item: None)
    assert len(inbox.calls) == 1


def test_a_refusal_that_no_retry_changes_ends_the_draining() -> None:
    refusal = b'{"error":{"code":"permission_denied","message":"No."}}'
    with (
        ScriptedServer(answer(refusal, status="403 Forbidden")) as server,
        Client(server.url, "token") as api,
        pytest.raises(Refused),
    ):
        drain(api, lambda item: None)


def test_a_server_that_takes_no_acknowledgement_is_not_asked_for_ever() -> None:
    stuck = page([item(Letter(1, "a", 0.5))], 0, 1)
    with ScriptedServer(*[answer(stuck)] * 2) as server, Client(server.url, "token") as api:
        seqs, handle = collecting()
        drain(api, handle)
    assert seqs == [1]
    assert len(server.asked) == 2


# -- on the wire -----------------------------------------------------------------------------------------------


def test_the_calls_are_those_of_the_surface() -> None:
    pages = [page([item(Letter(7, "a", 0.5))], 6, 9), page([], 9, 9)]
    with ScriptedServer(*map(answer, pages)) as server, Client(server.url, "token") as api:
        seqs, handle = collecting()
        assert api.drain(handle, wait_seconds=50, limit=8).items == 1
    assert [(asked.method, asked.target, json.loads(asked.body)) for asked in server.asked] == [
        ("POST", "/v1/inbox:wait", {"limit": 8, "timeout_seconds": 50}),
        ("POST", "/v1/inbox:pull", {"ack": 9, "limit": 8}),
    ]
    assert dict(server.asked[0].headers)["Authorization"] == "Bearer token"
    assert seqs == [7]


@pytest.mark.parametrize("body", [b"[]", b'{"items":[]}', page([{"delivery_seq": 1}], 0, 1)])
def test_an_answer_that_is_no_page_is_no_postroom_server(body: bytes) -> None:
    with (
        ScriptedServer(answer(body)) as server,
        Client(server.url, "token") as api,
        pytest.raises(Unreachable, match="not as a Postroom server"),
    ):
        api.pull(since=3)
    assert json.loads(server.asked[0].body) == {"since": 3}


def test_what_a_sender_wrote_is_there_as_it_was_received_and_decoded() -> None:
    sent = item(
        Letter(1, "a", 0.5), untrusted={"body": "BODY", "headers": [["a", "b"]]}, kind="webhook", more=1
    )
    body = b'{"n": 1.10, "n": 12345678901234567890123, "t": "\\ud83d\\ude00"}'
    document = json.dumps(sent).encode().replace(b'"BODY"', body)
    whole = page([sent], 0, 1).replace(b'"BODY"', body)
    with ScriptedServer(answer(whole)) as server, Client(server.url, "token") as api:
        [got] = api.pull().items
    assert got.document == document
    assert bytes(got.diff.untrusted["body"]) == body
    assert got.untrusted == {"body": {"n": 12345678901234567890123, "t": "😀"}, "headers": [["a", "b"]]}
    assert (got.diff.kind, got.diff.origin.sender, got.delivery.via) == ("webhook", "planner", "direct")


# -- anything at all -------------------------------------------------------------------------------------------

deliveries = st.lists(st.tuples(st.integers(0, 9), st.booleans()), max_size=12)
breaks = st.lists(st.sampled_from([None, None, "before", "after"]), max_size=20)


@given(
    st.lists(st.tuples(deliveries, st.integers(1, 5), breaks, st.booleans()), min_size=1, max_size=6),
    st.integers(1, 5),
)
def test_every_visible_item_is_handed_over_once_and_in_the_end_all_is_acknowledged(
    rounds: list[tuple[list[tuple[int, bool]], int, list[Break | None], bool]], max_batch: int
) -> None:
    inbox, clock = Inbox(max_batch), Clock()
    draining = drainer(inbox, clock, patience_seconds=None)
    seqs, collect = collecting()
    cursors: list[int] = []
    for deliveries, fits, planned, is_slow in rounds:

        def handle(item: Item, seconds: float = 2 * FRESH_SECONDS * is_slow) -> None:
            collect(item)
            clock.sleep(seconds)

        for score, shown in deliveries:
            inbox.deliver(score / 10, shown=shown)
        inbox.breaks = list(planned)
        size = sized(inbox) if inbox.letters else 1
        draining.drain(handle, Budget(max_bytes=fits * (size + 10)))
        cursors.append(inbox.reader.ack_cursor)
        acked = [one.seq for one in inbox.letters if one.shown and one.seq <= cursors[-1]]
        assert set(acked) <= set(seqs)
    inbox.breaks = []
    draining.drain(collect)
    assert sorted(seqs) == [one.seq for one in inbox.letters if one.shown]
    assert inbox.reader.ack_cursor == len(inbox.letters)
    assert all(earlier <= later for earlier, later in itertools.pairwise(cursors))
