"""A result carries its data twice and is measured so: the size that is reckoned is the size that is sent."""

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from web.mcp.jsonrpc import encode
from web.mcp.result import failed, measure, structured

TEXTS = st.text(st.characters(codec="utf-8"), max_size=20)
VALUES = st.recursive(
    st.one_of(st.none(), st.integers(), TEXTS),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(TEXTS, inner, max_size=4)),
    max_leaves=10,
)
FRAGMENTS = st.builds(
    lambda value, ascii_only, indent: json.dumps(value, ensure_ascii=ascii_only, indent=indent).encode(),
    VALUES,
    st.booleans(),
    st.sampled_from([None, 1, "\t"]),
)


@given(parts=st.lists(FRAGMENTS, max_size=5))
def test_what_a_fragment_costs_is_additive_and_exact(parts: list[bytes]) -> None:
    whole = b"".join(parts)
    assert sum(map(measure, parts)) == measure(whole) == len(whole) + len(encode(whole.decode())) - 2


@given(value=st.dictionaries(TEXTS, VALUES, max_size=4), indent=st.sampled_from([None, 2]))
def test_the_text_is_the_structured_content_byte_for_byte(value: dict[str, Any], indent: int | None) -> None:
    sent = json.dumps(value, ensure_ascii=False, indent=indent).encode()
    members = b"{%b}" % b"".join(structured(sent).members)
    assert sent in members
    result = json.loads(members)
    assert result["content"] == [{"type": "text", "text": sent.decode()}]
    assert result["structuredContent"] == value
    assert result["isError"] is False


@given(text=TEXTS)
def test_a_failure_is_text_only(text: str) -> None:
    assert json.loads(b"{%b}" % b"".join(failed(text).members)) == {
        "content": [{"type": "text", "text": text}],
        "isError": True,
    }
