"""Token buckets: how many, how long to wait, and how much is remembered."""

import pytest

from web.rates import Rates


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_full_bucket_takes_one_minutes_worth_at_once() -> None:
    rates: Rates[int] = Rates(Clock())
    assert [rates.take(1, 3) for _ in range(3)] == [None, None, None]
    assert rates.take(1, 3) == 20


def test_the_wait_is_long_enough_and_not_longer() -> None:
    clock = Clock()
    rates: Rates[int] = Rates(clock)
    assert rates.take(1, 2) is None
    assert rates.take(1, 2) is None
    assert rates.take(1, 2) == 30
    clock.now += 29
    assert rates.take(1, 2) == 1
    clock.now += 1
    assert rates.take(1, 2) is None


def test_a_refused_request_costs_nothing() -> None:
    clock = Clock()
    rates: Rates[int] = Rates(clock)
    rates.take(1, 1)
    for _ in range(100):
        rates.take(1, 1)
    clock.now += 60
    assert rates.take(1, 1) is None


def test_a_bucket_never_holds_more_than_a_minutes_worth() -> None:
    clock = Clock()
    rates: Rates[int] = Rates(clock)
    rates.take(1, 2)
    clock.now += 86_400
    assert [rates.take(1, 2) for _ in range(3)][:2] == [None, None]
    assert rates.take(1, 2) is not None


def test_a_lower_limit_is_in_force_at_once() -> None:
    rates: Rates[int] = Rates(Clock())
    assert rates.take(1, 100) is None
    assert rates.take(1, 1) is None
    assert rates.take(1, 1) == 60


def test_keys_do_not_share_a_bucket() -> None:
    rates: Rates[int] = Rates(Clock())
    assert rates.take(1, 1) is None
    assert rates.take(2, 1) is None
    assert rates.take(1, 1) is not None


def test_the_bucket_used_longest_ago_is_forgotten_first() -> None:
    rates: Rates[int] = Rates(Clock(), max_buckets=2)
    for key in (1, 2, 1, 3):
        rates.take(key, 2)
    assert rates.take(1, 2) == 30, "kept: its two tokens are used up"
    assert rates.take(2, 2) is None, "forgotten, so full again"


@pytest.mark.parametrize("per_minute", [1, 7, 60, 6_000])
def test_over_an_hour_exactly_the_rate_gets_through(per_minute: int) -> None:
    clock = Clock()
    rates: Rates[int] = Rates(clock)
    step = 60 / per_minute / 4
    taken = 0
    for n in range(per_minute * 4 * 3):
        clock.now = n * step
        taken += rates.take(1, per_minute) is None
    assert per_minute * 4 - 1 <= taken <= per_minute * 4
