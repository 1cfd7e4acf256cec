"""Presence as rules: a table of events and what they mean, and what must hold whatever comes in whatever order."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.rules.presence import (
    ALIVE,
    NEVER_SEEN,
    Arrived,
    Card,
    Event,
    Heard,
    Left,
    Presence,
    State,
    WaitBegan,
    WaitEnded,
    apply,
    is_alive,
    state_of,
)
from actors.rules.sessions import REMEMBERED, Sessions

SECOND = 1_000_000
CARD = Card(role="reviewer", status="reading", status_at=0)


def s(seconds: float) -> int:
    """Return a moment in µs."""
    return round(seconds * SECOND)


def after(events: Sequence[Event]) -> Presence:
    """Return the presence after these events."""
    presence = NEVER_SEEN
    for event in events:
        presence = apply(presence, event)
    return presence


ARRIVED = Arrived(s(0), CARD, 300)


@pytest.mark.parametrize(
    ("events", "now", "state"),
    [
        ([], 0, State.STALE),
        ([ARRIVED], 0, State.ACTIVE),
        ([ARRIVED], 60, State.ACTIVE),
        ([ARRIVED], 60.000001, State.IDLE),
        ([ARRIVED], 300, State.IDLE),
        ([ARRIVED], 300.000001, State.STALE),
        ([ARRIVED, Heard(s(200))], 500, State.IDLE),
        ([ARRIVED, Heard(s(200))], 501, State.STALE),
        ([ARRIVED, WaitBegan()], 200, State.WAITING),
        ([ARRIVED, WaitBegan()], 301, State.STALE),
        ([ARRIVED, WaitBegan(), WaitBegan(), WaitEnded()], 200, State.WAITING),
        ([ARRIVED, WaitBegan(), WaitEnded()], 200, State.IDLE),
        ([ARRIVED, Left(s(10))], 10, State.GONE),
        ([ARRIVED, WaitBegan(), Left(s(10))], 10, State.GONE),
        ([ARRIVED, Left(s(10)), Heard(s(11))], 12, State.GONE),
        ([ARRIVED, Left(s(10)), Heard(s(11))], 10_000, State.GONE),
        ([ARRIVED, Left(s(10)), Arrived(s(20), CARD, 30)], 20, State.ACTIVE),
        ([ARRIVED, Left(s(10)), Arrived(s(20), CARD, 30)], 51, State.STALE),
        ([Heard(s(0))], 300, State.IDLE),
        ([Heard(s(0))], 301, State.STALE),
        ([Left(s(0))], 0, State.GONE),
        ([ARRIVED, Arrived(s(10), CARD, 30)], 41, State.STALE),
        ([Heard(s(10_000))], 10_060, State.ACTIVE),
    ],
)
def test_what_an_agent_has_done_says_what_it_is_now(events: list[Event], now: float, state: State) -> None:
    presence = after(events)
    assert state_of(presence, s(now)) is state
    assert is_alive(presence, s(now)) == (state not in (State.GONE, State.STALE))


def test_a_check_in_replaces_what_was_said_before_and_a_sign_of_life_does_not() -> None:
    again = Card(repo="postroom")
    assert after([ARRIVED, Heard(s(5))]).card == CARD
    assert after([ARRIVED, Arrived(s(5), again, 60)]).card == again
    assert after([ARRIVED, Left(s(5))]).card == CARD


def test_a_late_sign_of_life_does_not_make_an_agent_older() -> None:
    assert after([ARRIVED, Heard(s(9)), Heard(s(3))]).last_activity_at == s(9)


def test_a_farewell_is_a_sign_of_life_too() -> None:
    assert after([ARRIVED, Left(s(9))]).last_activity_at == s(9)
    assert after([ARRIVED, Heard(s(9)), Left(s(3))]).last_activity_at == s(9)


moments = st.integers(0, s(1_000))
events = st.lists(
    st.one_of(
        st.builds(Arrived, moments, st.just(CARD), st.integers(30, 400)),
        st.builds(Heard, moments),
        st.builds(Left, moments),
        st.builds(WaitBegan),
        st.builds(WaitEnded),
    ),
    max_size=20,
)


@given(events, moments)
def test_only_a_check_in_ends_a_farewell(happened: list[Event], now: int) -> None:
    left = [place for place, event in enumerate(happened) if isinstance(event, Left)]
    back = [place for place, event in enumerate(happened) if isinstance(event, Arrived)]
    gone = bool(left) and (not back or left[-1] > back[-1])
    assert (state_of(after(happened), now) is State.GONE) == gone


@given(events, moments)
def test_whoever_is_alive_was_heard_of_within_its_time(happened: list[Event], now: int) -> None:
    presence = after(happened)
    if state_of(presence, now) in ALIVE:
        heard = [event.at for event in happened if isinstance(event, Arrived | Heard | Left)]
        assert now - max(heard) <= presence.ttl_seconds * SECOND


# -- sessions ------------------------------------------------------------------------------------------------
def test_two_sessions_are_told_from_one_that_calls_again() -> None:
    sessions = Sessions()
    assert not sessions.called("one", s(0), 300)
    assert not sessions.called("one", s(1), 300)
    assert sessions.called("two", s(2), 300)
    assert sessions.called("one", s(3), 300)


def test_a_session_that_has_not_called_within_the_time_to_live_does_not_count() -> None:
    sessions = Sessions()
    sessions.called("one", s(0), 300)
    assert sessions.called("two", s(300), 300)
    assert not sessions.called("two", s(301), 300)


def test_sessions_without_number_take_no_memory_without_bound() -> None:
    sessions = Sessions()
    for number in range(10 * REMEMBERED):
        sessions.called(str(number), s(number), 300)
    assert len(sessions._called) == REMEMBERED
    assert sessions.called("another", s(10 * REMEMBERED), 300)


def test_of_too_many_sessions_those_are_forgotten_that_called_least_lately() -> None:
    sessions = Sessions()
    for number in range(REMEMBERED):
        sessions.called(str(number), s(0), 300)
    sessions.called("0", s(1), 300)
    sessions.called("another", s(1), 300)
    assert list(sessions._called) == [*map(str, range(2, REMEMBERED)), "0", "another"]
