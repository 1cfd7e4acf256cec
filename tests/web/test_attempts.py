"""Wrong tokens by address: how many are answered 401, who shares a count, what is remembered and what is logged."""

from collections.abc import Iterator

import pytest
import trio
import trio.testing
from structlog.testing import capture_logs
from structlog.typing import EventDict

from tests.web.test_rates import Clock
from web.attempts import (
    KEPT_BACK_SECONDS,
    MAX_LINES_PER_MINUTE,
    STORM,
    UNKNOWN,
    KeptBack,
    WrongTokens,
    keep_back,
)
from web.errors import ApiError

ADDRESS = "192.0.2.7"


def codes(wrong: WrongTokens, count: int, address: str | None = ADDRESS, per_minute: int = 3) -> list[str]:
    return [wrong.refusal(address, per_minute).code for _ in range(count)]


@pytest.fixture(autouse=True)
def logs() -> Iterator[list[EventDict]]:
    with capture_logs() as lines:
        yield lines


def test_so_many_in_a_minute_are_told_that_they_are_wrong_and_the_next_to_wait() -> None:
    clock = Clock()
    wrong = WrongTokens(clock)
    assert codes(wrong, 5) == ["unauthenticated"] * 3 + ["rate_limited"] * 2
    assert wrong.refusal(ADDRESS, 3).retry_after == 20
    clock.now += 20
    assert codes(wrong, 2) == ["unauthenticated", "rate_limited"]
    clock.now += 3600
    assert codes(wrong, 4) == ["unauthenticated"] * 3 + ["rate_limited"]


def test_of_a_storm_from_one_address_refusals_are_kept_back_until_it_has_passed() -> None:
    clock = Clock()
    wrong = WrongTokens(clock)
    at_once = 3 + STORM * 3
    refusals = [wrong.refusal(ADDRESS, 3) for _ in range(at_once + 2)]
    assert [isinstance(refusal, KeptBack) for refusal in refusals] == [False] * at_once + [True] * 2
    assert refusals[-1].answer() == refusals[-3].answer(), "it is told nothing else"
    assert not isinstance(wrong.refusal("192.0.2.8", 3), KeptBack)
    clock.now += 60
    assert not any(isinstance(wrong.refusal(ADDRESS, 3), KeptBack) for _ in range(at_once))


async def test_what_is_kept_back_comes_late_and_nothing_else(autojump_clock: trio.testing.MockClock) -> None:
    began = trio.current_time()
    await keep_back(ApiError("rate_limited", "x"))
    assert trio.current_time() == began
    await keep_back(KeptBack("rate_limited", "x"))
    assert trio.current_time() == began + KEPT_BACK_SECONDS


def test_the_refusals_are_those_of_the_table_and_say_nothing_else() -> None:
    wrong = WrongTokens(Clock())
    first, second = wrong.refusal(ADDRESS, 1), wrong.refusal(ADDRESS, 1)
    assert (first.status, second.status) == (401, 429)
    assert b"invalid_token" in dict(first.headers)[b"www-authenticate"]
    assert (b"retry-after", b"60") in second.answer().headers
    assert b"www-authenticate" not in dict(second.headers)
    assert ADDRESS not in second.message


def test_zero_is_no_limit() -> None:
    assert set(codes(WrongTokens(Clock()), 1000, per_minute=0)) == {"unauthenticated"}


@pytest.mark.parametrize(
    ("one", "other", "together"),
    [
        ("192.0.2.7", "192.0.2.8", False),
        ("192.0.2.7", "::ffff:192.0.2.7", True),
        ("2001:db8::1", "2001:db8::ffff:ffff:ffff:ffff", True),
        ("2001:db8::1", "2001:db8:0:1::1", False),
        (None, None, True),
        (None, "192.0.2.7", False),
    ],
)
def test_who_shares_a_count(one: str | None, other: str | None, together: bool) -> None:
    wrong = WrongTokens(Clock())
    codes(wrong, 3, one)
    assert codes(wrong, 1, other) == ["rate_limited" if together else "unauthenticated"]


def test_a_new_limit_counts_from_the_next_token_on() -> None:
    wrong = WrongTokens(Clock())
    assert codes(wrong, 10, per_minute=100) == ["unauthenticated"] * 10
    assert codes(wrong, 6, per_minute=5) == ["unauthenticated"] * 5 + ["rate_limited"]


def test_the_address_that_was_seen_longest_ago_is_forgotten_first() -> None:
    wrong = WrongTokens(Clock(), max_addresses=2)
    for address in ("192.0.2.1", "192.0.2.2", "192.0.2.1", "192.0.2.3"):
        wrong.refusal(address, 2)
    assert codes(wrong, 1, "192.0.2.1", 2) == ["rate_limited"]
    assert codes(wrong, 1, "192.0.2.2", 2) == ["unauthenticated"]


# -- the log -------------------------------------------------------------------------------------------------------


def test_an_address_is_in_the_log_once_a_minute(logs: list[EventDict]) -> None:
    clock = Clock()
    wrong = WrongTokens(clock)
    for _ in range(3):
        codes(wrong, 50)
        codes(wrong, 50, "2001:db8::1")
        clock.now += 59.9
        codes(wrong, 1)
        clock.now += 0.2
    assert [line["address"] for line in logs] == [ADDRESS, "2001:db8::/64"] * 3
    assert {line["log_level"] for line in logs} == {"warning"}


def test_without_a_limit_it_is_logged_all_the_same(logs: list[EventDict]) -> None:
    wrong = WrongTokens(Clock())
    codes(wrong, 100, None, per_minute=0)
    assert [line["address"] for line in logs] == [UNKNOWN]


def test_a_line_says_how_many_there_were_from_anywhere_since_the_last(logs: list[EventDict]) -> None:
    clock = Clock()
    wrong = WrongTokens(clock)
    codes(wrong, 10)
    clock.now += 60
    codes(wrong, 1)
    codes(wrong, 1, "192.0.2.8")
    assert [line["since_last_line"] for line in logs] == [1, 10, 1]


def test_ten_thousand_addresses_do_not_fill_the_log(logs: list[EventDict]) -> None:
    clock = Clock()
    wrong = WrongTokens(clock)
    for round_ in range(3):
        for n in range(10_000):
            wrong.refusal(f"10.0.{n // 250}.{n % 250}", 3)
        assert len(logs) == (round_ + 1) * MAX_LINES_PER_MINUTE
        clock.now += 60
