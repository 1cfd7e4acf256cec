"""Deliveries as JSON: the diff and the delivery record of section 3 of the surface, member by member."""

import json
from typing import Any

import pytest

from storage.mail_records import Delivered
from tests.web.test_published import published
from tests.web.test_render import row
from web.diffs import Place, delivery, diff, item

EPOCH = "0123456789abcdef"
MINE = Place("agent.me", "fedcba9876543210")
RECORD = b'{"score":0.95,"via":"beacon:ci","also_via":["beacon:all"],"matched_terms":["deploy"]}'
TIMES = {"received": "2023-11-14T22:13:20.000003Z", "delivered": "2023-11-14T22:13:25.000000Z"}


def delivered(message: Any, **changes: Any) -> Delivered:
    """Return a message as it was routed to the reader's inbox."""
    fields: dict[str, Any] = {
        "seq": 41,
        "delivered_at": 1_700_000_005_000_000,
        "delivery": RECORD,
        "expires_at": None,
        "own": False,
        "id": message.id,
        "received_at": message.received_at,
        "size": message.size,
        "facts": message.facts,
        "said": message.said,
        "body_kind": message.body_kind,
        "body": message.body,
        "body_id": None,
        "event_type": message.event_type,
        "verified": message.verified,
        "home": "builds",
        "home_seq": 7,
        "home_epoch": EPOCH,
    }
    return Delivered(**{**fields, **changes})


def shown(of: Delivered, inline_limit: int = 100) -> list[tuple[str, Any]]:
    return list(json.loads(diff(of, MINE, inline_limit=inline_limit)).items())


def test_a_webhook_is_a_created_webhook_with_its_claims_and_body_below() -> None:
    members = shown(delivered(row(3)))
    origin, untrusted = members[3][1], members[-1][1]
    assert members == [
        ("diff_id", "00000000000000000000000003"),
        ("type", "created"),
        ("kind", "webhook"),
        ("origin", origin),
        ("salience", 0.5),
        ("supersedes", None),
        ("expires_at", None),
        ("untrusted", untrusted),
    ]
    assert list(origin.items()) == [
        ("inbox", "builds"),
        ("seq", 7),
        ("epoch", EPOCH),
        ("sender", None),
        ("verified", True),
        ("received_at", TIMES["received"]),
    ]
    assert list(untrusted) == [
        "path",
        "query",
        "headers",
        "content_type",
        "delivery_id",
        "event_type",
        "body",
    ]
    assert untrusted["body"] == {"a": 1}


def test_a_published_message_says_at_the_top_what_it_is() -> None:
    message = published(type="superseded", kind="decision", salience=1.0, supersedes="0" * 26)
    members = shown(delivered(message, expires_at=1_700_000_009_000_000))
    origin, untrusted = members[3][1], members[-1][1]
    assert members == [
        ("diff_id", "00000000000000000000000003"),
        ("type", "superseded"),
        ("kind", "decision"),
        ("origin", origin),
        ("salience", 1.0),
        ("supersedes", "0" * 26),
        ("expires_at", "2023-11-14T22:13:29.000000Z"),
        ("untrusted", untrusted),
    ]
    assert origin["sender"] == "scout"
    assert origin["verified"] is None
    assert list(untrusted) == ["subject", "text", "tags", "event_type"]
    assert untrusted["event_type"] == "decision"


@pytest.mark.parametrize("message", [row(3), published()], ids=["webhook", "published"])
def test_what_is_over_the_inline_limit_is_left_out_and_said_so(message: Any) -> None:
    names = [name for name, _ in shown(delivered(message), inline_limit=3)]
    assert names[-2:] == ["body_truncated", "untrusted"]
    untrusted = dict(shown(delivered(message), inline_limit=3))["untrusted"]
    assert not {"body", "body_text", "body_base64", "text"} & untrusted.keys()


def test_a_body_stays_byte_for_byte() -> None:
    body = b'{ "n" : 1e2, "n" : 1.0 }'
    assert b'"body":' + body + b"}}" in diff(delivered(row(1, body)), MINE, inline_limit=100)


@pytest.mark.parametrize("home", ["agent.me", "agent.first-recipient", None])
def test_what_was_sent_to_the_reader_has_its_origin_in_the_readers_inbox(home: str | None) -> None:
    origin = dict(shown(delivered(published(), own=True, home=home)))["origin"]
    assert (origin["inbox"], origin["seq"], origin["epoch"]) == ("agent.me", 41, MINE.epoch)


def test_a_delivery_record_says_how_and_when_a_message_came() -> None:
    assert list(json.loads(delivery(delivered(row(3)))).items()) == [
        ("delivery_seq", 41),
        ("score", 0.95),
        ("via", "beacon:ci"),
        ("also_via", ["beacon:all"]),
        ("matched_terms", ["deploy"]),
        ("delivered_at", TIMES["delivered"]),
    ]
    assert json.loads(delivery(delivered(row(3), delivery=None)))["via"] == "direct"


def test_an_item_has_both_under_its_number() -> None:
    of = delivered(row(3))
    members = json.loads(item(of.seq, diff(of, MINE, inline_limit=9), delivery(of)))
    assert list(members) == ["delivery_seq", "diff", "delivery"]
    assert members["delivery_seq"] == members["delivery"]["delivery_seq"] == 41
