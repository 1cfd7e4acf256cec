"""Messages and pages as bytes: order of fields, bodies, cursors, and the size of a page."""

import base64
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage.records import BodyKind, Head, Page, StoredMessage
from web import claims, render
from web.errors import ApiError
from web.verify.model import Judgement

EPOCH = "0123456789abcdef"
MIB = 1024 * 1024


def row(seq: int, body: bytes | None = b'{"a": 1}', **changes: Any) -> StoredMessage:
    judgement = Judgement(True, None, "push", f"d-{seq}")
    content = body or b""
    fields: dict[str, Any] = {
        "seq": seq,
        "id": seq.to_bytes(16, "big"),
        "received_at": 1_700_000_000_000_000 + seq,
        "size": len(content),
        "facts": claims.facts("POST", "127.0.0.1", len(content), judgement, "github"),
        "said": claims.said(b"/p", b"q=1", [(b"host", b"example.org")], judgement),
        "body_kind": claims.body_kind(content),
        "body": body or None,
        "body_id": None,
        "event_type": "push",
        "verified": 1,
    }
    return StoredMessage(**{**fields, **changes})


def page(rows: list[StoredMessage], *, exhausted: bool = True, latest: int = 100, first: int = 1) -> Page:
    return Page(Head(EPOCH, latest_seq=latest, first_seq=first), rows, exhausted)


def forward(rows: Page, after: int = 0, **changes: Any) -> dict[str, Any]:
    limits: dict[str, Any] = {"bodies": True, "inline_limit": 16_384, "page_bytes": MIB, **changes}
    answer: dict[str, Any] = json.loads(render.forward_page("demo", rows, after=after, **limits))
    return answer


def backward(rows: Page, **changes: Any) -> dict[str, Any]:
    limits: dict[str, Any] = {"bodies": True, "inline_limit": 16_384, "page_bytes": MIB, **changes}
    answer: dict[str, Any] = json.loads(render.backward_page("demo", rows, **limits))
    return answer


def test_a_message_has_its_fields_in_the_order_of_the_surface() -> None:
    message = json.loads(render.message("demo", EPOCH, row(7), bodies=True, inline_limit=10))
    assert list(message.items()) == [
        ("id", "00000000000000000000000007"),
        ("inbox", "demo"),
        ("seq", 7),
        ("epoch", EPOCH),
        ("received_at", "2023-11-14T22:13:20.000007Z"),
        ("method", "POST"),
        ("source_ip", "127.0.0.1"),
        ("size", 8),
        ("verified", True),
        ("verifier", "github"),
        ("verify_error", None),
        ("sender", None),
        ("untrusted", message["untrusted"]),
    ]
    assert list(message["untrusted"]) == [
        "path",
        "query",
        "headers",
        "content_type",
        "delivery_id",
        "event_type",
        "body",
    ]


def test_a_json_body_is_spliced_in_byte_for_byte() -> None:
    body = b' {"n": 1.10, "n": 12345678901234567890123,\n "e": 1E5} '
    text = render.message("demo", EPOCH, row(1, body), bodies=True, inline_limit=100)
    assert b',"body":' + body + b"}}" in text


@pytest.mark.parametrize(
    ("body", "shown"),
    [
        (b"", {"body_text": ""}),
        (b"null", {"body": None}),
        (b"a=1&b=\xc3\xa9", {"body_text": "a=1&b=é"}),
        (b'"\x00', {"body_text": '"\x00'}),
        (b"\xff\x00", {"body_base64": "/wA="}),
    ],
)
def test_a_body_is_shown_once_and_only_when_it_is_asked_for(body: bytes, shown: dict[str, Any]) -> None:
    stored = row(1, body)
    with_body = json.loads(render.message("demo", EPOCH, stored, bodies=True, inline_limit=100))
    without = json.loads(render.message("demo", EPOCH, stored, bodies=False, inline_limit=100))
    assert with_body["untrusted"] == {**without["untrusted"], **shown}
    assert "body_truncated" not in with_body
    assert "body_truncated" not in without


@pytest.mark.parametrize(
    "stored",
    [
        row(1, b"x" * 101),
        row(1, None, size=101, body_kind=BodyKind.TEXT),
        row(1, None, size=90_000, body_kind=BodyKind.LARGE, body_id=4),
    ],
)
def test_a_body_over_the_inline_limit_is_left_out_and_marked(stored: StoredMessage) -> None:
    message = json.loads(render.message("demo", EPOCH, stored, bodies=True, inline_limit=100))
    assert message["body_truncated"] is True
    assert list(message)[-2:] == ["body_truncated", "untrusted"]
    assert not {"body", "body_text", "body_base64"} & set(message["untrusted"])
    assert "body_truncated" not in json.loads(
        render.message("demo", EPOCH, stored, bodies=False, inline_limit=100)
    )


def test_a_message_with_bare_fragments_is_still_an_object() -> None:
    stored = row(1, b"x", facts=b"{}", said=b"{}")
    message = json.loads(render.message("demo", EPOCH, stored, bodies=True, inline_limit=10))
    assert list(message) == ["id", "inbox", "seq", "epoch", "received_at", "untrusted"]
    assert message["untrusted"] == {"body_text": "x"}
    bare = json.loads(render.message("demo", EPOCH, stored, bodies=False, inline_limit=10))
    assert bare["untrusted"] == {}


# -- pages ------------------------------------------------------------------------------------------------


def test_a_forward_page_that_saw_everything_moves_to_the_latest_seq() -> None:
    answer = forward(page([row(3), row(9)]))
    assert [m["seq"] for m in answer["messages"]] == [3, 9]
    assert {k: v for k, v in answer.items() if k != "messages"} == {
        "latest_seq": 100,
        "epoch": EPOCH,
        "gap": False,
        "next_after": 100,
    }
    assert list(answer) == ["messages", "latest_seq", "epoch", "gap", "next_after"]


def test_a_forward_page_cut_by_its_limit_continues_from_its_last_message() -> None:
    assert forward(page([row(3), row(9)], exhausted=False))["next_after"] == 9


def test_an_empty_forward_page_still_carries_its_cursor() -> None:
    assert forward(page([]), after=40)["next_after"] == 100
    assert forward(page([], latest=0))["next_after"] == 0


@pytest.mark.parametrize(
    ("after", "first", "gap"), [(0, 50, False), (1, 2, False), (1, 3, True), (48, 50, True), (49, 50, False)]
)
def test_a_gap_is_said_when_retention_took_what_follows_the_cursor(after: int, first: int, gap: bool) -> None:
    assert forward(page([], first=first), after=after)["gap"] is gap


def test_a_backward_page_ends_with_null_at_the_oldest() -> None:
    answer = backward(page([row(9), row(3)]))
    assert list(answer) == ["messages", "latest_seq", "epoch", "next_before"]
    assert answer["next_before"] is None
    assert backward(page([row(9), row(3)], exhausted=False))["next_before"] == 3
    assert backward(page([]))["next_before"] is None


def test_a_page_never_has_fewer_than_one_message() -> None:
    rows = page([row(1, b"x" * 5_000), row(2)])
    answer = forward(rows, page_bytes=100)
    assert [m["seq"] for m in answer["messages"]] == [1]
    assert answer["next_after"] == 1
    assert backward(rows, page_bytes=100)["next_before"] == 1


@given(
    st.lists(st.integers(0, 3_000), min_size=1, max_size=12),
    st.integers(300, 12_000),
    st.booleans(),
    st.booleans(),
)
def test_a_page_fits_its_budget_and_following_it_skips_nothing(
    sizes: list[int], page_bytes: int, exhausted: bool, twice: bool
) -> None:
    rows = [row(n + 1, b"x" * size) for n, size in enumerate(sizes)]

    def escaped(fragment: bytes) -> int:  # as an MCP result carries a page: structured, and as escaped text
        return len(fragment) + len(json.dumps(fragment.decode())) - 2

    measure = escaped if twice else len
    seen: list[int] = []
    after = 0
    while after < rows[-1].seq:
        left = page(rows[after:], exhausted=exhausted, latest=len(rows))
        text = render.forward_page(
            "demo",
            left,
            after=after,
            bodies=True,
            inline_limit=16_384,
            page_bytes=page_bytes,
            cost=render.Cost(measure, 2, 3) if twice else render.PLAIN,
        )
        answer = json.loads(text)
        assert measure(text) <= page_bytes or len(answer["messages"]) == 1
        assert answer["next_after"] > after
        seen += [m["seq"] for m in answer["messages"]]
        after = answer["next_after"]
    assert seen == [stored.seq for stored in rows]


# -- one message, whole -------------------------------------------------------------------------------------


def whole(stored: StoredMessage, **changes: Any) -> dict[str, Any]:
    limits: dict[str, Any] = {"message_bytes": 4 * MIB, **changes}
    answer: dict[str, Any] = json.loads(render.whole_message("demo", EPOCH, stored, **limits))
    return answer


def test_a_whole_message_has_its_body_whatever_the_inline_limit() -> None:
    assert whole(row(1, b"x" * 60_000))["untrusted"]["body_text"] == "x" * 60_000
    assert whole(row(1, b""))["untrusted"]["body_text"] == ""


def test_a_large_body_is_spliced_in_as_what_it_turned_out_to_be() -> None:
    stored = row(1, None, size=90_000, body_kind=BodyKind.LARGE, body_id=4)
    body = b'"' + b"x" * 89_998 + b'"'
    for kind, key, value in (
        (BodyKind.JSON, "body", "x" * 89_998),
        (BodyKind.TEXT, "body_text", body.decode()),
        (BodyKind.BYTES, "body_base64", base64.b64encode(body).decode()),
    ):
        message = whole(stored, large=body, large_kind=kind)
        assert message["untrusted"][key] == value
        assert "body_truncated" not in message


@pytest.mark.parametrize("size", [5_000, 900])
def test_a_message_that_is_too_large_as_sent_names_the_url_of_its_bytes(size: int) -> None:
    stored = row(12, b"\x01" * size)  # each byte is six as JSON text
    with pytest.raises(ApiError) as refused:
        whole(stored, message_bytes=4_000, base_url="https://example.org/")
    url = "https://example.org/v1/inboxes/demo/messages/12/raw"
    assert refused.value.code == "payload_too_large"
    assert refused.value.details == {"raw_url": url, "size": size}
    assert url in refused.value.message


def test_a_body_that_cannot_fit_is_refused_before_it_is_loaded() -> None:
    stored = row(12, None, size=5 * MIB, body_kind=BodyKind.LARGE, body_id=4)
    with pytest.raises(ApiError) as refused:
        render.refuse_oversized("demo", stored, message_bytes=4 * MIB)
    assert refused.value.details == {"raw_url": "/v1/inboxes/demo/messages/12/raw", "size": 5 * MIB}
    render.refuse_oversized("demo", row(1), message_bytes=4 * MIB)
