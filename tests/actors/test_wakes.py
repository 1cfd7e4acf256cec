"""When an agent is called, as rules: a table of what happens and what is due then."""

from actors.rules import wakes
from actors.rules.wakes import (
    DEBOUNCE_SECONDS,
    FAILURES_ALLOWED,
    OPEN_SECONDS,
    QUIET,
    RETRY_SECONDS,
    Wake,
    called,
    came,
    expired,
    failed,
    mail_came,
)


def test_much_mail_is_due_once_a_little_after_the_first() -> None:
    wake = QUIET
    for number in range(100):
        wake = mail_came(wake, 10 + number / 100)
    assert wake.next_at == 10 + DEBOUNCE_SECONDS


def test_mail_that_comes_while_a_call_is_open_makes_no_other() -> None:
    wake = called(mail_came(QUIET, 0), "token", 5)
    assert wake.next_at == 5 + OPEN_SECONDS
    assert mail_came(wake, 6).next_at == 5 + OPEN_SECONDS


def test_the_token_ends_a_call_and_nothing_else_does() -> None:
    wake = called(mail_came(QUIET, 0), "token", 5)
    for other in ("", "another", "toke"):
        assert came(wake, other) == wake
    assert came(wake, "token") == QUIET
    assert came(QUIET, "token") == came(QUIET, "") == QUIET
    assert came(mail_came(QUIET, 0), "token") == mail_came(QUIET, 0), "a spent one takes no other away"


def test_a_call_that_nobody_follows_ends_and_is_made_again_if_mail_came_meanwhile() -> None:
    wake = called(mail_came(QUIET, 0), "token", 5)
    end = 5 + OPEN_SECONDS
    assert expired(wake, end - 1) == wake
    assert expired(wake, end) == QUIET
    assert expired(mail_came(wake, 100), end) == Wake(due_at=end)
    assert expired(mail_came(QUIET, 0), 1_000) == mail_came(QUIET, 0)


def test_a_call_that_failed_is_tried_later_each_time_and_at_once_for_new_mail() -> None:
    wake = called(QUIET, "token", 0)
    assert [failed(wake, "token", n + 1, 0).next_at for n in range(len(RETRY_SECONDS))] == list(RETRY_SECONDS)
    assert failed(mail_came(wake, 0), "token", 1, 0).next_at == DEBOUNCE_SECONDS
    assert mail_came(failed(wake, "token", 2, 0), 1).next_at == 1 + DEBOUNCE_SECONDS
    assert mail_came(failed(wake, "token", 1, 0), 29).next_at == RETRY_SECONDS[0], "it is never put off"
    assert failed(came(wake, "token"), "token", 1, 0) == QUIET, "the agent came all the same"
    assert FAILURES_ALLOWED == len(RETRY_SECONDS) + 1 == 3


def test_what_is_told_with_a_call_is_not_due_again() -> None:
    assert called(mail_came(mail_came(QUIET, 0), 4), "token", 5) == Wake(
        token="token", open_until=5 + wakes.OPEN_SECONDS
    )
