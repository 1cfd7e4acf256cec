"""Slots: all of them or none, and each given back exactly once."""

import pytest

from web.errors import ApiError
from web.slots import Slots


def test_a_slot_counts_overall_and_on_each_inbox_until_it_is_left() -> None:
    slots = Slots(3, 2)
    with slots.take((1, 2)), slots.take((2, 3)):
        assert (slots.taken, slots.on(1), slots.on(2), slots.on(3)) == (2, 1, 2, 1)
    assert (slots.taken, slots.on(1), slots.on(2), slots.on(3)) == (0, 0, 0, 0)


def test_a_refusal_takes_nothing() -> None:
    slots = Slots(10, 1)
    with slots.take((1,)):
        with pytest.raises(ApiError, match="too_many_waits"):
            slots.take((2, 1))
        assert (slots.taken, slots.on(2)) == (1, 0)


def test_the_overall_limit_comes_first_and_refusals_are_counted() -> None:
    slots = Slots(1, 5)
    with slots.take((1,)), pytest.raises(ApiError) as refused:
        slots.take((2,))
    assert refused.value.status == 429
    assert dict(refused.value.answer().headers)[b"retry-after"].isdigit()
    assert slots.refused == 1


def test_a_slot_that_is_left_twice_is_given_back_once() -> None:
    slots = Slots(2, 2)
    slot = slots.take((1,))
    with slots.take((1,)):
        for _ in range(2):
            slot.__exit__(None, None, None)
        assert (slots.taken, slots.on(1)) == (1, 1)


def test_smaller_limits_leave_those_that_are_open_alone() -> None:
    slots = Slots(3, 3)
    with slots.take((1,)), slots.take((1,)):
        slots.resize(1, 1)
        assert slots.taken == 2
        with pytest.raises(ApiError):
            slots.take((2,))
    with slots.take((1,)):
        assert slots.taken == 1
