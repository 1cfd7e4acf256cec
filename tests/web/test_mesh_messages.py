"""What agents on machines send: stored as facts, claims and a payload, shown as messages and as diffs."""

import json
from typing import Any

import pytest

from storage.records import BodyKind, StoredMessage
from tests.web.test_diffs import MINE, delivered
from tests.web.test_render import EPOCH, row
from web import render
from web.diffs import diff
from web.mesh_messages import is_mesh, mesh_said
from web.published import is_published, published_facts, published_said

PAYLOAD = b'{ "pr" : 1e1 }'


def sent(payload: bytes = PAYLOAD, sender: str | None = "ada", msg_type: str = "pr-ready") -> StoredMessage:
    """Return a message of the mesh as it is stored."""
    return row(
        3,
        payload,
        facts=published_facts(sender, len(payload)),
        said=mesh_said(msg_type),
        body_kind=BodyKind.JSON if payload else BodyKind.EMPTY,
        event_type=msg_type,
        verified=2,
    )


def shown(message: StoredMessage, **how: Any) -> bytes:
    limits: dict[str, Any] = {"bodies": True, "inline_limit": 100, **how}
    return render.message("agent.bob", EPOCH, message, **limits)


def test_its_claims_are_type_payload_and_event_type_in_the_order_of_the_surface() -> None:
    text = shown(sent())
    assert text.endswith(
        b'"untrusted":{"msg_type":"pr-ready","payload":%b,"event_type":"pr-ready"}}' % PAYLOAD
    )
    message = json.loads(text)
    assert (message["sender"], message["size"], message["method"], message["verified"]) == (
        "ada",
        len(PAYLOAD),
        None,
        None,
    )


@pytest.mark.parametrize(
    ("how", "payload"),
    [({}, b'"payload":null,'), ({"bodies": False}, b""), ({"inline_limit": 0}, b'"payload":null,')],
)
def test_no_payload_is_null_where_payloads_are_shown(how: dict[str, Any], payload: bytes) -> None:
    text = shown(sent(b""), **how)
    assert text.endswith(b'"untrusted":{"msg_type":"pr-ready",%b"event_type":"pr-ready"}}' % payload)
    assert b"body_truncated" not in text


def test_a_payload_is_shown_as_bodies_are() -> None:
    assert b"payload" not in shown(sent(), bodies=False)
    cut = json.loads(shown(sent(), inline_limit=3))
    assert cut["body_truncated"] is True
    assert "payload" not in cut["untrusted"]
    whole = render.whole_message("agent.bob", EPOCH, sent(), message_bytes=10_000)
    assert json.loads(whole)["untrusted"]["payload"] == {"pr": 10.0}
    assert json.loads(render.whole_message("agent.bob", EPOCH, sent(b""), message_bytes=10_000))[
        "untrusted"
    ] == {
        "msg_type": "pr-ready",
        "payload": None,
        "event_type": "pr-ready",
    }


@pytest.mark.parametrize(("sender", "kind"), [("ada", "message"), (None, "system")])
def test_its_diff_is_a_created_message_or_one_of_the_system(sender: str | None, kind: str) -> None:
    members = json.loads(diff(delivered(sent(sender=sender), own=True), MINE, inline_limit=100))
    assert members.pop("origin")["sender"] == sender
    assert members == {
        "diff_id": "00000000000000000000000003",
        "type": "created",
        "kind": kind,
        "salience": 0.5,
        "supersedes": None,
        "expires_at": None,
        "untrusted": {"msg_type": "pr-ready", "payload": {"pr": 10.0}, "event_type": "pr-ready"},
    }


def test_nothing_else_is_taken_for_it() -> None:
    said = published_said(subject="msg_type", tags=(), type="created", kind="note")
    assert is_mesh(sent().said)
    assert not is_mesh(said)
    assert not is_published(sent().said)
    webhook = row(1, b'{"msg_type": "ping"}', said=b'{"path":"{\\"msg_type\\":","query":""}')
    assert json.loads(shown(webhook))["untrusted"]["body"] == {"msg_type": "ping"}
