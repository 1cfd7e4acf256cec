"""Deliveries to a private inbox, as rules: numbers, times, what is skipped, and what is written."""

from actors.commands import DeliveryDraft
from actors.rules.delivering import decide
from storage.mail_records import NewDelivery
from storage.records import Head, Retention

HEAD = Head("e", latest_seq=9, first_seq=3, last_at=1_000, live_rows=5, live_bytes=50)


def draft(mid: int, size: int = 10) -> DeliveryDraft:
    return DeliveryDraft(mid, "push", 1, size, 4, 77, b"delivery")


def test_deliveries_are_numbered_in_their_order_and_written_as_they_are() -> None:
    plan = decide(HEAD, {1, 2}, [draft(2), draft(1, 20)], 5_000, Retention())
    assert plan.deliveries == [
        NewDelivery(10, 2, 5_000, "push", 1, 10, 4, 77, b"delivery"),
        NewDelivery(11, 1, 5_001, "push", 1, 20, 4, 77, b"delivery"),
    ]
    assert plan.seqs == (10, 11)
    assert plan.head == Head("e", 11, 3, 5_001, 7, 80)


def test_times_go_on_from_the_last_one_when_the_clock_stands() -> None:
    plan = decide(HEAD, {1, 2}, [draft(1), draft(2)], 500, Retention())
    assert [one.delivered_at for one in plan.deliveries] == [1_001, 1_002]


def test_what_was_delivered_before_is_skipped_also_within_a_group_and_consumes_no_number() -> None:
    plan = decide(HEAD, {1, 2}, [draft(3), draft(1), draft(1), draft(2)], 5_000, Retention())
    assert plan.seqs == (None, 10, None, 11)
    assert [one.mid for one in plan.deliveries] == [1, 2]


def test_the_first_one_of_an_empty_inbox_says_when_it_comes_of_age() -> None:
    plan = decide(Head("e", 0, 1), {1, 2}, [draft(1), draft(2)], 5_000, Retention(max_age_seconds=4))
    assert plan.head.due_at == 5_000 + 4_000_000
