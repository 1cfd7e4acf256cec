"""What is delivered to an agent and why, as it is stored and shown."""

import json
from typing import Any

import pytest

from actors.commands import DeliveryDraft
from actors.rules.delivery import addressed, broadcast, by_beacons, direct, drafted
from actors.rules.matching.scoring import Heard, Match
from storage.mail_records import Pending, Routable


def shown(record: bytes) -> Any:
    return json.loads(record)


def test_what_beacons_brought_is_told_by_the_best_and_names_the_others() -> None:
    best = Match("ada", "refunds", 0.83, ("refund", "failed"))
    assert shown(by_beacons(Heard("ada", best))) == {
        "score": 0.83,
        "via": "beacon:refunds",
        "also_via": [],
        "matched_terms": ["refund", "failed"],
    }
    others = (Match("ada", "all", 0.7, ("x",)), Match("ada", "shop", 0.6))
    told = shown(by_beacons(Heard("ada", best, others)))
    assert (told["score"], told["also_via"]) == (0.83, ["beacon:all", "beacon:shop"])
    assert told["matched_terms"] == ["refund", "failed"]


@pytest.mark.parametrize(("salience", "score"), [(0.0, 0.9), (0.5, 0.95), (1.0, 1.0)])
def test_what_was_sent_to_the_agent_itself_counts_as_a_match_in_full(salience: float, score: float) -> None:
    assert shown(direct(salience)) == {"score": score, "via": "direct", "also_via": [], "matched_terms": []}


def test_a_message_without_a_salience_has_that_of_a_webhook() -> None:
    assert direct() == direct(0.5)


def test_a_broadcast_counts_as_sent_to_the_agent_itself() -> None:
    assert shown(broadcast()) == shown(direct()) | {"via": "broadcast"}


def test_a_delivery_is_read_where_its_message_is_at_home() -> None:
    row = Routable(7, b"i" * 16, 3, "ci", "webhook", 2, 1_000, "push", 1, 50, 9_000)
    assert drafted(row, b"why") == DeliveryDraft(
        mid=7, event_type="push", verified=1, size=50, origin=3, expires_at=9_000, delivery=b"why"
    )


@pytest.mark.parametrize(("record", "delivery"), [(b"why", b"why"), (None, direct())])
def test_what_was_sent_to_somebody_is_read_in_its_own_inbox_and_keeps_its_record(
    record: bytes | None, delivery: bytes
) -> None:
    pending = Pending(7, 5, 3, "note", 0, 50, 9_000, record)
    assert addressed(pending) == DeliveryDraft(
        mid=7, event_type="note", verified=0, size=50, origin=5, expires_at=9_000, delivery=delivery
    )
