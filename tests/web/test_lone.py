"""The short way of the commonest signatures judges as the long way does, whatever comes."""

import hashlib
import hmac
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage.secret import SecretBytes
from web.verify.check import SchemeVerifier
from web.verify.keys import MacKey, make_key
from web.verify.lone import LoneVerifier, halves, is_lone
from web.verify.model import Judgement, SignedHead, Verifier
from web.verify.signatures import method_of
from web.verify.template import PresetTemplate

SECRET = b"a secret of a webhook"
FACTS: dict[str, Any] = {"delivery_id": "header:x-delivery", "event_type": ("header:x-event", "body:kind")}
TEMPLATES = {
    "hex": PresetTemplate(header="X-Signature", prefix="sha256=", **FACTS),
    "hex of sha1": PresetTemplate(header="X-Signature", algorithm="sha1", **FACTS),
    "base64": PresetTemplate(header="X-Signature", encoding="base64", **FACTS),
    "base64url of sha512": PresetTemplate(
        header="X-Signature", algorithm="sha512", encoding="base64url", **FACTS
    ),
}
OTHERS = {
    "a list": PresetTemplate(header="X-Signature", separator=","),
    "pairs": PresetTemplate(header="X-Signature", pair="v1"),
    "a timestamp": PresetTemplate(header="X-Signature", timestamp="header:x-time", signed="{ts}.{body}"),
    "a timestamp that is not signed": PresetTemplate(header="X-Signature", timestamp="header:x-time"),
    "the URL": PresetTemplate(header="X-Signature", signed="{url}{body}"),
    "a hash": PresetTemplate(header="X-Signature", method="hash"),
    "a public key": PresetTemplate(header="X-Signature", method="ed25519"),
    "a version": PresetTemplate(header="X-Signature", when=("x-version", "1")),
    "a second header": PresetTemplate(header="X-Signature", second_header="x-signature-new"),
}

bodies = st.one_of(st.binary(max_size=40), st.just(b'{"kind":"told"}'))


class Body:
    """A body in memory."""

    def __init__(self, content: bytes) -> None:
        self._content = content
        self.size = len(content)

    def whole(self) -> bytes:
        """Return it."""
        return self._content


def signature(template: PresetTemplate, body: bytes) -> bytes:
    """Return the right value of the signature header."""
    digest = hmac.new(SECRET, body, template.algorithm).digest()
    return template.prefix.encode() + template.encode(digest)


@st.composite
def requests(draw: st.DrawFn) -> tuple[PresetTemplate, list[tuple[bytes, bytes]], list[bytes]]:
    """Return a template, headers that are right or nearly so, and the pieces of a body."""
    template = draw(st.sampled_from(list(TEMPLATES.values())))
    pieces = draw(st.lists(bodies, max_size=3))
    right = signature(template, b"".join(pieces))
    at = draw(st.integers(0, len(right) - 1))
    value = st.sampled_from(
        [
            right,
            right,
            right + b"=",
            right.upper(),
            b" " + right,
            right[:at],
            right[:at] + b"!" + right[at + 1 :],
            right[:at] + b"a" + right[at + 1 :],
            b"",
            bytes([255]) * len(right),
            signature(template, b"another"),
        ]
    )
    signatures = draw(st.lists(value, min_size=0, max_size=2))
    others = draw(
        st.lists(
            st.sampled_from([(b"x-delivery", b"d1"), (b"x-event", b"push"), (b"host", b"x")]), max_size=4
        )
    )
    return template, draw(st.permutations([(b"x-signature", one) for one in signatures] + others)), pieces


def judged(verifier: Verifier, headers: list[tuple[bytes, bytes]], pieces: list[bytes]) -> Judgement:
    """Return what a verifier makes of a request."""
    check = verifier.begin(SignedHead("POST", "/in/x", headers, 0))
    for piece in pieces:
        check.update(piece)
    return check.finish(Body(b"".join(pieces)))


def both(template: PresetTemplate) -> tuple[SchemeVerifier, LoneVerifier]:
    """Return the long way and the short way of a template."""
    key = make_key(template, SecretBytes(SECRET))
    assert isinstance(key, MacKey)
    general = SchemeVerifier("x", method_of([template], [[key]]), [template])
    return general, LoneVerifier("x", template, key, lambda: general, always_reject=False)


@given(requests())
def test_the_short_way_judges_as_the_long_way(
    request_: tuple[PresetTemplate, list[tuple[bytes, bytes]], list[bytes]],
) -> None:
    template, headers, pieces = request_
    general, lone = both(template)
    assert judged(lone, headers, pieces) == judged(general, headers, pieces)


@pytest.mark.parametrize("name", TEMPLATES)
def test_a_right_signature_is_verified_on_the_short_way(name: str) -> None:
    template = TEMPLATES[name]
    _, lone = both(template)
    headers = [(b"x-signature", signature(template, b'{"kind":"told"}')), (b"x-delivery", b"d1")]
    assert judged(lone, headers, [b'{"kind":', b'"told"}']) == Judgement(True, None, "told", "d1")


def test_what_is_well_formed_needs_no_long_way_and_what_is_not_makes_it_once() -> None:
    template, made = TEMPLATES["hex"], list[Verifier]()
    key = make_key(template, SecretBytes(SECRET))
    assert isinstance(key, MacKey)

    def long_way() -> Verifier:
        made.append(both(template)[0])
        return made[-1]

    lone = LoneVerifier("x", template, key, long_way, always_reject=True)
    assert (lone.name, lone.always_reject) == ("x", True)
    for value in (signature(template, b"a"), signature(template, b"another")):
        lone.begin(SignedHead("POST", "/in/x", [(b"x-signature", value)], 0))
    assert made == []
    for _ in range(2):
        lone.begin(SignedHead("POST", "/in/x", [], 0))
    assert len(made) == 1


@pytest.mark.parametrize("name", TEMPLATES)
def test_a_template_of_the_body_alone_takes_the_short_way(name: str) -> None:
    assert is_lone([TEMPLATES[name]])


@pytest.mark.parametrize("name", OTHERS)
def test_a_template_with_more_than_the_body_and_one_signature_takes_the_long_way(name: str) -> None:
    assert not is_lone([OTHERS[name]])


def test_several_templates_take_the_long_way() -> None:
    assert not is_lone(list(TEMPLATES.values()))


@pytest.mark.parametrize("algorithm", ["sha1", "sha256", "sha512"])
@pytest.mark.parametrize("key_bytes", [1, 20, 63, 64, 65, 127, 128, 129, 300])
def test_two_halves_are_the_library_s_hmac_for_keys_of_every_length(algorithm: str, key_bytes: int) -> None:
    key = bytes(n % 251 for n in range(key_bytes))
    inner, outer = halves(algorithm, key)
    inner.update(b"a text")
    outer.update(inner.digest())
    assert outer.digest() == hmac.new(key, b"a text", algorithm).digest()
    assert hashlib.new(algorithm).block_size == inner.block_size
