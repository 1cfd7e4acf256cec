"""The parameters of agents on machines: ranges, refusals by name, and a payload that keeps its bytes."""

import json
from typing import Any

import msgspec
import pytest

from web.decoding import from_object, from_query, raw_members
from web.errors import ApiError
from web.grammar import parse_ulid, ulid_text
from web.mesh_params import AckMail, CheckIn, CheckOut, ListRoster, ListSent, ReadMail, SendMail
from web.mesh_routes import sent_form

ME: dict[str, Any] = {"agent_id": "me"}


def refused(form: type[msgspec.Struct], values: Any) -> str | None:
    """Return the field for which values are refused."""
    with pytest.raises(ApiError) as found:
        from_object(form, values)
    assert found.value.code == "invalid_argument"
    return found.value.field


REFUSED: list[tuple[type[msgspec.Struct], dict[str, Any], str]] = [
    (CheckIn, {}, "agent_id"),
    (CheckIn, {"agent_id": "Me"}, "agent_id"),
    (CheckIn, {**ME, "ttl_seconds": 29}, "ttl_seconds"),
    (CheckIn, {**ME, "ttl_seconds": 86_401}, "ttl_seconds"),
    (CheckIn, {**ME, "ttl_seconds": 60.5}, "ttl_seconds"),
    (CheckIn, {**ME, "status": "x" * 201}, "status"),
    (CheckIn, {**ME, "caps": ["x"] * 21}, "caps"),
    (CheckIn, {**ME, "caps": [""]}, "caps"),
    (CheckIn, {**ME, "caps": "all"}, "caps"),
    (CheckIn, {**ME, "wake": "http://x/"}, "wake"),
    (CheckIn, {**ME, "wake": {}}, "wake.url"),
    (CheckIn, {**ME, "wake": {"url": "http://x/", "method": "GET"}}, "wake.method"),
    (CheckIn, {**ME, "machine": "box"}, "machine"),
    (CheckOut, {}, "agent_id"),
    (ListRoster, {"machine": "box"}, "machine"),
    (ReadMail, {}, "agent_id"),
    (ReadMail, {**ME, "limit": 0}, "limit"),
    (ReadMail, {**ME, "limit": 101}, "limit"),
    (ReadMail, {**ME, "peek": 1}, "peek"),
    (AckMail, ME, "message_ids"),
    (AckMail, {**ME, "message_ids": ["x"] * 101}, "message_ids"),
    (AckMail, {**ME, "message_ids": [1]}, "message_ids"),
    (AckMail, {**ME, "message_ids": "x"}, "message_ids"),
    (ListSent, {"before": "x"}, "before"),
    (ListSent, {"limit": 101}, "limit"),
    (SendMail, {}, "msg_type"),
    (SendMail, {"msg_type": "system"}, "msg_type"),
    (SendMail, {"msg_type": "note", "to": "Box"}, "to"),
    (SendMail, {"msg_type": "note", "idempotency_key": ""}, "idempotency_key"),
    (SendMail, {"msg_type": "note", "require_alive": "no"}, "require_alive"),
    (SendMail, {"msg_type": "note", "text": "x"}, "text"),
]


@pytest.mark.parametrize(("form", "values", "field"), REFUSED, ids=str)
def test_what_is_not_as_it_must_be_is_refused_by_name(
    form: type[msgspec.Struct], values: dict[str, Any], field: str
) -> None:
    assert refused(form, values) == field


def test_what_is_left_out_has_the_defaults_of_the_surface() -> None:
    assert from_object(CheckIn, ME).ttl_seconds == 300
    read = from_query(ReadMail, b"agent_id=me&wake_token=")
    assert (read.limit, read.background, read.peek, read.wake_token) == (50, False, False, "")
    assert from_object(ListSent, {}).limit == 20
    assert from_object(SendMail, {"msg_type": "ping"}).require_alive is True
    assert from_object(AckMail, {**ME, "message_ids": []}).message_ids == ()


# -- sending -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "payload"),
    [
        (b'{"msg_type": "note", "payload": { "n" : 1e2, "n" : 1.0 } }', b'{ "n" : 1e2, "n" : 1.0 }'),
        (b'{"payload":[1,\n2],"msg_type":"note"}', b"[1,\n2]"),
        (b'{"msg_type": "note", "payload": null }', b"null"),
        (b'{"msg_type": "note", "payload": %b}' % (b"[" * 100 + b"]" * 100), b"[" * 100 + b"]" * 100),
        (b'{"msg_type": "note"}', b""),
    ],
)
def test_a_payload_keeps_its_bytes(body: bytes, payload: bytes) -> None:
    assert sent_form(body).payload_json() == payload


@pytest.mark.parametrize(
    ("body", "field"),
    [
        (b'{"msg_type": "note", "msg_type": "ping"}', "msg_type"),
        (b'{"msg_type": "note", "payload": 1, "payload": 1}', "payload"),
        (b"", "msg_type"),
        (b"[]", None),
        (b"null", None),
        (b"{", None),
        (b'{"msg_type": "note", "payload": 1e999}', "payload"),
        (b'{"msg_type": "note", "payload": "\xff"}', "payload"),
        (b'{"msg_type": "note", "payload": %b}' % (b"[" * 101 + b"]" * 101), "payload"),
        (b'{"msg_type": "note", "payload": %b, "payload": 1}' % (b"[" * 900 + b"]" * 900), "payload"),
        (b'{"msg_type": "note", "payload": %b}' % (b"[" * 100_000), None),
    ],
)
def test_a_body_that_is_none_is_refused(body: bytes, field: str | None) -> None:
    with pytest.raises(ApiError) as found:
        sent_form(body)
    assert (found.value.code, found.value.field) == ("invalid_argument", field)


def test_members_are_told_apart_at_the_top_alone() -> None:
    assert raw_members(b'{"a": {"b": 1, "b": 2}, "b": [{"a": 1}]}') == {
        "a": b'{"b": 1, "b": 2}',
        "b": b'[{"a": 1}]',
    }


def test_a_request_is_known_by_what_it_asks_for() -> None:
    def of(**members: Any) -> bytes:
        asked = {"msg_type": "note", "payload": {"a": 1, "b": [2]}, **members}
        return sent_form(json.dumps(asked).encode()).fingerprint()

    assert of() == of(idempotency_key="k", from_agent="me")
    changes: list[dict[str, Any]] = [
        {"payload": {"a": 1}},
        {"payload": None},
        {"msg_type": "ping"},
        {"to": "box"},
        {"to_agent": "box"},
        {"require_alive": False},
    ]
    assert len({of(), *(of(**change) for change in changes)}) == len(changes) + 1


def test_its_payload_counts_by_the_bytes_that_are_stored() -> None:
    def of(payload: bytes) -> bytes:
        return sent_form(b'{"msg_type": "note"%b}' % payload).fingerprint()

    assert of(b',"payload":{"a":1}') == of(b' , "payload" : {"a":1}\n')
    different = [
        b"",
        b', "payload": null',
        b', "payload": 1',
        b', "payload": 1.0',
        b', "payload": 0.1',
        b', "payload": 0.10000000000000000001',
        b', "payload": {"a":1,"a":2}',
        b', "payload": {"a":3,"a":2}',
        b', "payload": {"a":2}',
        b', "payload": {"a": 2}',
        b', "payload": "\\u0041"',
        b', "payload": "A"',
    ]
    assert len({of(payload) for payload in different}) == len(different)


# -- ids -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [0, 1, 2**128 - 1, 0x0123456789ABCDEF0123456789ABCDEF])
def test_an_id_is_read_in_either_case(number: int) -> None:
    raw = number.to_bytes(16, "big")
    assert parse_ulid(ulid_text(raw)) == parse_ulid(ulid_text(raw).lower()) == raw


@pytest.mark.parametrize(
    "text", ["", "x", "8" + "0" * 25, "0" * 25, "0" * 27, "0" * 25 + "U", "0" * 25 + "\n", "ſ" * 26]
)
def test_what_is_no_id_is_none(text: str) -> None:
    assert parse_ulid(text) is None
