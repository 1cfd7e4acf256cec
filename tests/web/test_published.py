"""What an agent publishes: stored as facts, claims and a text, shown as a message in the order of the surface."""

import json
from typing import Any

from storage.records import BodyKind, StoredMessage
from tests.web.test_render import EPOCH, row
from web import render
from web.published import decode_said, is_published, published_facts, published_said, text_kind

TEXT = 'DROP TABLE "x" \u2013 {not json}'


def published(text: str = TEXT, **changes: Any) -> StoredMessage:
    body = text.encode()
    said = published_said(
        **{"subject": 'Say "hi"', "tags": ("ci", "prod"), "type": "created", "kind": "note", **changes}
    )
    return row(
        3,
        body,
        facts=published_facts("scout", len(body)),
        said=said,
        body_kind=text_kind(body),
        event_type="note",
        verified=2,
    )


def shown(message: StoredMessage, **how: Any) -> Any:
    limits: dict[str, Any] = {"bodies": True, "inline_limit": 100, **how}
    return json.loads(render.message("commons", EPOCH, message, **limits))


def test_a_published_message_has_its_fields_in_the_order_of_the_surface() -> None:
    message = shown(published())
    assert list(message.items()) == [
        ("id", "00000000000000000000000003"),
        ("inbox", "commons"),
        ("seq", 3),
        ("epoch", EPOCH),
        ("received_at", "2023-11-14T22:13:20.000003Z"),
        ("method", None),
        ("source_ip", None),
        ("size", len(TEXT.encode())),
        ("verified", None),
        ("verifier", None),
        ("verify_error", None),
        ("sender", "scout"),
        ("untrusted", message["untrusted"]),
    ]
    assert list(message["untrusted"].items()) == [
        ("subject", 'Say "hi"'),
        ("text", TEXT),
        ("tags", ["ci", "prod"]),
        ("type", "created"),
        ("kind", "note"),
        ("event_type", "note"),
    ]


def test_the_text_is_shown_as_bodies_are() -> None:
    claims = ["subject", "tags", "type", "kind", "event_type"]
    assert list(shown(published(), bodies=False)["untrusted"]) == claims
    assert "body_truncated" not in shown(published(), bodies=False)
    cut = shown(published(), inline_limit=3)
    assert cut["body_truncated"] is True
    assert list(cut["untrusted"]) == claims
    assert shown(published(""))["untrusted"]["text"] == ""
    whole = render.whole_message("commons", EPOCH, published(), message_bytes=10_000)
    assert json.loads(whole)["untrusted"]["text"] == TEXT


def test_a_text_is_no_json_whatever_it_looks_like() -> None:
    assert text_kind(b"{}") == BodyKind.TEXT
    assert text_kind(b"") == BodyKind.EMPTY
    assert shown(published("[1]"))["untrusted"]["text"] == "[1]"


def test_only_what_was_published_is_taken_for_it() -> None:
    assert is_published(published().said)
    assert not is_published(row(1).said)
    webhook = row(1, b'{"subject": "a"}', said=b'{"path":"{\\"subject\\":","query":""}')
    assert shown(webhook)["untrusted"]["body"] == {"subject": "a"}


def test_what_a_diff_shows_at_its_top_is_kept_with_the_claims() -> None:
    kept = decode_said(published(salience=0.9, supersedes="01M8PKRX87DWZMGC1XN4D5CRQ5").said)
    assert (kept.salience, kept.supersedes) == (0.9, "01M8PKRX87DWZMGC1XN4D5CRQ5")
    assert "salience" not in shown(published(salience=0.9))["untrusted"]
