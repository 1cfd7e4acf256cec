"""Handshakes as pure functions: exact answers, what is no handshake, and what is never signed for a stranger."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec import Struct

from storage.records import InboxSettings, Secret
from storage.secret import SecretBytes
from tests.handshakes import EVERYWHERE, HANDSHAKES, MALFORMED, SECRETS, Ask, Handshake, Headers, signed
from web.handshakes import model, providers
from web.handshakes.model import MAX_HANDSHAKE_BYTES, Adoption, Reply
from web.handshakes.providers import compile_handshake
from web.handshakes.reading import MAX_CHALLENGE_BYTES, MAX_QUERY_BYTES, challenge, parameter
from web.http import Answer, Request
from web.replies import answer_headers
from web.spool import Spool
from web.verify.model import MISMATCH, Judgement
from web.verify.registry import SCHEMES

VALID = Judgement(True, None, "", "d-1")
INVALID = Judgement(False, MISMATCH, "", "d-1")

OWN = [row for row in HANDSHAKES if row.ask.preset not in EVERYWHERE]
PRESETS = sorted(providers.HANDSHAKES)
ALIASES = {"whatsapp", "twitter"}


async def nothing() -> bytes:
    raise AssertionError("a handshake is given its body")


def secrets_of(preset: str) -> tuple[Secret, ...]:
    return tuple(
        Secret(secret["name"], SecretBytes(secret["value"].encode()), n)
        for n, secret in enumerate(SECRETS.get(preset, []))
    )


def asked(
    preset: str, ask: Ask, secrets: Sequence[Secret] | None = None, **settings: Any
) -> Answer | Adoption | None:
    """Return what an inbox of that preset replies, on every step of the way."""
    active = secrets_of(preset) if secrets is None else tuple(secrets)
    handshake = compile_handshake(InboxSettings(verifier=preset, **settings), active)
    if handshake is None:
        return None
    path, _, query = ask.suffix.partition(b"?")
    headers = [(name.lower(), value) for name, value in ask.headers]
    request = Request(ask.method.decode(), b"/in/demo" + path, query, headers, None, nothing)
    if ask.method not in (b"POST", b"PUT"):
        return handshake.without_body(request)
    with Spool(Path()) as body:
        body.write(ask.body or b"")
        right = {(name.lower(), value) for name, value in signed(preset, ask.body or b"")} <= set(headers)
        return handshake.before(request, body) or handshake.after(request, body, VALID if right else INVALID)


def told(reply: Answer | Adoption | None) -> tuple[int, Headers, bytes]:
    answer = reply.answer if isinstance(reply, Adoption) else reply
    assert answer is not None
    ours = {b"cache-control", b"x-content-type-options", b"content-length"}
    return answer.status, [pair for pair in answer_headers(answer) if pair[0] not in ours], answer.body


@pytest.mark.parametrize("row", OWN, ids=lambda row: f"{row.ask.preset}-{row.ask.why}")
def test_each_provider_gets_the_answer_that_it_demands(row: Handshake) -> None:
    status, headers, body = told(asked(row.ask.preset, row.ask))
    assert (status, body) == (row.status, row.body)
    assert sorted(headers) == sorted(row.headers)


@pytest.mark.parametrize("row", OWN, ids=lambda row: f"{row.ask.preset}-{row.ask.why}")
def test_no_other_inbox_knows_a_handshake(row: Handshake) -> None:
    family = {"meta", "whatsapp", "websub"} if row.ask.preset in ("meta", "whatsapp", "websub") else set()
    family |= {"x", "twitter"} if row.ask.preset in ("x", "twitter") else {row.ask.preset}
    for preset in sorted({*PRESETS, "none", "hmac", "github"} - family):
        assert asked(preset, row.ask) is None, preset


@pytest.mark.parametrize("ask", MALFORMED, ids=lambda ask: f"{ask.preset}-{ask.why}")
def test_what_is_odd_in_any_way_is_no_handshake(ask: Ask) -> None:
    assert asked(ask.preset, ask) is None


def test_every_handshake_belongs_to_a_verifier_and_is_in_the_table_of_the_tests() -> None:
    assert {*PRESETS, *EVERYWHERE} <= set(SCHEMES)
    assert {*PRESETS, *EVERYWHERE, *ALIASES} == {row.ask.preset for row in HANDSHAKES}
    assert {ask.preset for ask in MALFORMED} == set(PRESETS)


@pytest.mark.parametrize("preset", ["meta", "whatsapp", "websub"])
@pytest.mark.parametrize(
    ("query", "status"),
    [
        (b"hub.challenge=1&hub.verify_token=right", 200),
        (b"hub.challenge=1&hub.verify_token=wrong", 403),
        (b"hub.challenge=1&hub.verify_token=rightly", 403),
        (b"hub.challenge=1&hub.verify_token=", 403),
        (b"hub.challenge=1&hub.verify_token=right&hub.verify_token=right", 403),
        (b"hub.challenge=1&hub.verify_token=%ff", 403),
        (b"hub.challenge=1", 403),
    ],
)
def test_a_verify_token_must_be_the_secret_of_that_name(preset: str, query: bytes, status: int) -> None:
    secrets = [
        Secret("default", SecretBytes(b"wrong"), 1),
        Secret("verify_token", SecretBytes(b"right"), 2),
    ]
    answer = asked(preset, Ask(preset, "", b"GET", b"?" + query), secrets)
    assert isinstance(answer, Answer)
    assert answer.status == status
    assert (answer.body == b"1") == (status == 200)


def test_without_a_verify_token_meta_is_refused_and_a_hub_is_believed() -> None:
    ask = Ask("", "", b"GET", b"?hub.challenge=1&hub.verify_token=x")
    for preset, status in (("meta", 403), ("whatsapp", 403), ("websub", 200)):
        answer = asked(preset, ask, [Secret("default", SecretBytes(b"x"), 1)])
        assert isinstance(answer, Answer)
        assert answer.status == status


@pytest.mark.parametrize("preset", ["zoom", "x"])
def test_the_newest_secret_answers_and_a_verify_token_never_does(preset: str) -> None:
    row = next(row for row in HANDSHAKES if row.ask.preset == preset)
    right = secrets_of(preset)[0].value
    others = [Secret("old", SecretBytes(b"old"), 1), Secret("new", right, 2)]
    assert told(asked(preset, row.ask, others))[2] == row.body
    assert (
        told(asked(preset, row.ask, [*others, Secret("verify_token", SecretBytes(b"x"), 3)]))[2] == row.body
    )
    assert told(asked(preset, row.ask, others[::-1]))[2] != row.body
    assert asked(preset, row.ask, []) is None
    assert asked(preset, row.ask, [Secret("verify_token", right, 3)]) is None


@pytest.mark.parametrize(
    ("limit", "wanted", "allowed"),
    [
        (None, b"120", b"120"),
        (100, b"120", b"100"),
        (100, b"50", b"50"),
        (100, None, b"100"),
        (None, None, b"*"),
        (None, b"*", b"*"),
        (None, b"-1", b"*"),
        (None, b"0", b"*"),
        (None, b"9" * 30, b"*"),
    ],
)
def test_a_sender_of_cloud_events_is_told_the_rate(
    limit: int | None, wanted: bytes | None, allowed: bytes
) -> None:
    headers = [(b"webhook-request-origin", b"a.example")]
    headers += [] if wanted is None else [(b"webhook-request-rate", wanted)]
    answer = asked("cloudevents", Ask("", "", b"OPTIONS", b"", headers), rate_per_minute=limit)
    assert isinstance(answer, Answer)
    assert dict(answer.headers)[b"webhook-allowed-rate"] == allowed


def test_discord_and_xero_are_told_nothing_of_a_ping_that_is_not_theirs() -> None:
    for preset, body in (("discord", b'{"type":1}'), ("discord", b'{"type":0}')):
        assert asked(preset, Ask(preset, "", b"POST", b"", signed(preset, b"x"), body)) is None


def test_asana_brings_a_secret_with_it() -> None:
    row = next(row for row in HANDSHAKES if row.ask.preset == "asana")
    reply = asked("asana", row.ask)
    assert isinstance(reply, Adoption)
    assert reply.secret.matches(row.headers[0][1])
    assert b"x-hook-secret" in providers.HANDSHAKES["asana"].secret_headers


tokens = st.text(st.characters(max_codepoint=0x17F), min_size=1, max_size=40) | st.from_regex(
    r"[A-Za-z0-9+/=_.~-]{1,300}", fullmatch=True
)


@given(tokens)
@example("a" * 256)
@example("a" * 257)
def test_what_x_signs_for_anybody_is_no_valid_message(token: str) -> None:
    query = b"crc_token=" + b"".join(b"%%%02x" % byte for byte in token.encode())
    signature = asked("x", Ask("x", "", b"GET", b"?" + query))
    handshake = compile_handshake(InboxSettings(verifier="x"), secrets_of("x"))
    assert handshake is not None
    with Spool(Path()) as body:
        body.write(token.encode())
        believed = handshake.doubted(VALID, body).verified
        assert handshake.doubted(INVALID, body).error == MISMATCH
    assert signature is None or believed is False
    assert believed is (signature is None)


@given(tokens)
def test_what_zoom_signs_for_anybody_is_no_signed_text(token: str) -> None:
    body = b'{"event":"endpoint.url_validation","payload":{"plainToken":"%b"}}' % token.encode()
    assert ":" not in token or asked("zoom", Ask("zoom", "", b"POST", b"", [], body)) is None


@given(
    st.sampled_from(PRESETS),
    st.sampled_from([b"POST", b"PUT", b"GET", b"HEAD", b"OPTIONS"]),
    st.binary(max_size=60),
    st.lists(
        st.tuples(
            st.sampled_from([b"x-hook-secret", b"x-okta-verification-challenge", b"webhook-request-origin"]),
            st.binary(max_size=20),
        ),
        max_size=3,
    ),
    st.binary(max_size=80),
)
def test_any_bytes_at_all_get_an_answer_or_none(
    preset: str, method: bytes, query: bytes, headers: Headers, body: bytes
) -> None:
    reply = asked(preset, Ask(preset, "", method, b"?" + query, headers, body))
    if reply is not None:
        for _, value in told(reply)[1]:
            assert not set(value) & set(range(0x20))


# -- the steps of the way ------------------------------------------------------------------------------------
class Posted(Struct):
    """A body of a size."""

    size: int

    def whole(self) -> bytes:
        return b"x" * self.size


SAID = Answer(200, b"said")


def step(on_verdict: bool = False, forgeable: bool | None = None, reply: Reply = SAID) -> model.Handshake:
    """Return a handshake that replies the same to all. `forgeable`: whether it signs any body for anybody."""
    judge = None if forgeable is None else lambda body: bool(forgeable)
    return model.Handshake(model.Recipe("POST", lambda asked, setup: reply, on_verdict, judge), model.Setup())


def request(method: str = "POST") -> Request:
    return Request(method, b"/in/demo", b"", [], None, nothing)


@pytest.mark.parametrize("on_verdict", [False, True])
def test_what_is_posted_is_answered_at_one_step_alone(on_verdict: bool) -> None:
    handshake = step(on_verdict)
    assert handshake.before(request(), Posted(1)) == (None if on_verdict else SAID)
    assert handshake.after(request(), Posted(1), VALID) == (SAID if on_verdict else None)
    assert handshake.before(request("PUT"), Posted(1)) is None
    assert handshake.without_body(request("OPTIONS")) is None


def test_what_is_larger_than_any_handshake_is_none() -> None:
    assert step().before(request(), Posted(MAX_HANDSHAKE_BYTES)) == SAID
    assert step().before(request(), Posted(MAX_HANDSHAKE_BYTES + 1)) is None


def test_without_a_body_no_secret_is_adopted() -> None:
    adoption = Adoption(SecretBytes(b"s"), SAID)
    assert step(reply=adoption).without_body(request()) is None
    assert step().without_body(request()) == SAID


@pytest.mark.parametrize(
    ("forgeable", "size", "before", "after"),
    [
        (True, MAX_HANDSHAKE_BYTES, VALID, INVALID),
        (True, MAX_HANDSHAKE_BYTES + 1, VALID, VALID),
        (False, 1, VALID, VALID),
        (None, 1, VALID, VALID),
        (
            True,
            1,
            Judgement(False, "missing signature", "", "d-1"),
            Judgement(False, "missing signature", "", "d-1"),
        ),
        (True, 1, Judgement(None, None, "", "d-1"), Judgement(None, None, "", "d-1")),
    ],
)
def test_a_signature_that_anybody_gets_from_us_is_none(
    forgeable: bool | None, size: int, before: Judgement, after: Judgement
) -> None:
    assert step(forgeable=forgeable).doubted(before, Posted(size)) == after


def test_as_much_is_read_of_a_stranger_as_is_said_and_no_more() -> None:
    longest = "é" * (MAX_CHALLENGE_BYTES // 2)
    assert challenge(longest) == longest
    assert challenge(longest + "e") is None
    room = MAX_QUERY_BYTES - len(b"a=1&")
    assert parameter(b"a=1&" + b"b" * room, b"a") == "1"
    assert parameter(b"a=1&" + b"b" * (room + 1), b"a") is None
