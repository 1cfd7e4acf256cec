"""Fidelity of JSON: valid JSON is shown as the very bytes that were sent, anything else as text, small and large alike.

Bodies up to 64 KiB and larger ones go through different code, hence every case is tried at both sizes.
"""

import json
from typing import Any

import pytest

from tests.live.api import Api
from tests.live.rawhttp import Sender

PADDING = b" " * 70_000
"""White space in front makes a body large and changes nothing of what it says."""

SIZES = pytest.mark.parametrize("padding", [b"", PADDING], ids=["small", "large"])


def stored(api: Api, sender: Sender, body: bytes) -> bytes:
    """Send a body, check that its bytes come back, and return the message as it is sent to a reader."""
    slug = api.inbox()
    assert sender.post(slug, body, [(b"Content-Type", b"application/json")]) == 1
    assert api.call("GET", f"/inboxes/{slug}/messages/1/raw").content == body
    answer = api.call("GET", f"/inboxes/{slug}/messages/1")
    assert answer.status_code == 200, answer.text
    content: bytes = answer.content
    if len(body) <= 16_384:
        page = api.call("GET", f"/inboxes/{slug}/messages", params={"after": 0, "bodies": "true"}).content
        assert content.partition(b'"untrusted":')[2] in page, "a page shows the same"
    return content


def claims(message: bytes) -> dict[str, Any]:
    """Return what the sender said."""
    said: dict[str, Any] = json.loads(message)["untrusted"]
    return said


def nested(depth: int, opening: bytes = b"[", closing: bytes = b"]") -> bytes:
    """Return JSON of a depth."""
    return opening * depth + b"1" + closing * depth


SPLICED = {
    "1.0 is not 1": b'{"n": 1.0}',
    "zeros of fractions": b"[1.10, 0.000, -0.0, -0, 1.00000000000000000000001]",
    "exponents": b"[1e0, 1E+2, 1e-7, 1.5E3, 1e308, 1e-400]",
    "integers over 64 bits": b'{"n": 123456789012345678901234567890, "m": -99999999999999999999}',
    "integers at 64 bits": b"[9223372036854775807, 18446744073709551615, 9007199254740993]",
    "duplicate keys": b'{"a": 1, "a": 2, "a": 1}',
    "order of keys": b'{"z": 1, "a": 2, "m": 3}',
    "white space": b' \t\r\n{ "a"\t:\r\n[ 1 ,\n2 ] } \n\n',
    "escapes": rb'{"\u0061\/\u00e9": "\u0000\ud83d\udc0e\\\"\b\f\n\r\t"}',
    "unescaped UTF-8": '{"é": "🐎\u2028\u2029\u202e\x7f"}'.encode(),
    "empty containers": b'[{}, [], "", {"": []}]',
    "keys that are facts": b'{"verified": true, "untrusted": {"body": 1}, "seq": 99, "id": null}',
    "a text": b'"text"',
    "a number": b"0",
    "null": b"null",
    "true": b" true",
    "brackets in strings": b'["' + b"[{" * 500 + b'", "\\\\", "\\"[[["]',
}


@SIZES
@pytest.mark.parametrize("case", SPLICED)
def test_valid_json_is_spliced_in_unchanged(api: Api, sender: Sender, case: str, padding: bytes) -> None:
    body = padding + SPLICED[case]
    message = stored(api, sender, body)
    assert message.endswith(b',"body":' + body + b"}}")
    said = claims(message)
    assert said["body"] == json.loads(body)
    assert not {"body_text", "body_base64"} & said.keys()


SHOWN_AS_TEXT = {
    "broken": b'{"a": ',
    "trailing comma": b"[1, 2,]",
    "two values": b"{} {}",
    "lines of JSON": b'{"a": 1}\n{"a": 2}\n',
    "single quotes": b"{'a': 1}",
    "a comment": b"[1] // one",
    "NaN": b"[NaN]",
    "Infinity": b"[-Infinity]",
    "leading zero": b"[01]",
    "leading plus": b"[+1]",
    "bare fraction": b"[.5]",
    "bare point": b"[1.]",
    "hexadecimal": b"[0x10]",
    "raw control character": b'["\n"]',
    "raw NUL": b'["\x00"]',
    "bad escape": rb'["\x41"]',
    "short escape": rb'["\u12"]',
    "no-break space": "[1,\u00a02]".encode(),
    "byte order mark": b"\xef\xbb\xbf{}",
    "words": b"hello",
    "white space": b" \n ",
    # RFC 8259 allows numbers that no double can hold, and readers differ: Go refuses the whole document that contains
    # one, JavaScript reads infinity. One sender's number must not make a page unreadable for anybody.
    "a number that no double can hold": b'{"n": 1e400}',
    "a digit too many for a double": b"[" + b"9" * 310 + b"]",
    # The same holds for half a surrogate pair: it has no UTF-8, so many readers stop there.
    "half a surrogate pair": rb'["\ud83d"]',
}


@SIZES
@pytest.mark.parametrize("case", SHOWN_AS_TEXT)
def test_what_is_not_json_for_every_reader_is_shown_as_text(
    api: Api, sender: Sender, case: str, padding: bytes
) -> None:
    body = padding + SHOWN_AS_TEXT[case]
    said = claims(stored(api, sender, body))
    assert said["body_text"] == body.decode()
    assert not {"body", "body_base64"} & said.keys()


@SIZES
@pytest.mark.parametrize(("opening", "closing"), [(b"[", b"]"), (b'{"a":', b"}"), (b'[{"a":', b"}]")])
def test_json_nested_100_deep_is_json(
    api: Api, sender: Sender, opening: bytes, closing: bytes, padding: bytes
) -> None:
    body = padding + nested(100 // (opening.count(b"[") + opening.count(b"{")), opening, closing)
    assert claims(stored(api, sender, body))["body"] == json.loads(body)


@SIZES
@pytest.mark.parametrize("depth", [101, 1_000, 30_000])
def test_json_nested_deeper_than_100_is_shown_as_text(
    api: Api, sender: Sender, depth: int, padding: bytes
) -> None:
    body = padding + nested(depth)
    assert claims(stored(api, sender, body))["body_text"] == body.decode()


def test_a_nesting_that_never_closes_is_text_and_hurts_nobody(api: Api, sender: Sender) -> None:
    for body in (b"[" * 60_000, b"[" * 600_000, b'{"a":' * 100_000):
        assert claims(stored(api, sender, body))["body_text"] == body.decode()


def test_depth_counts_levels_not_brackets(api: Api, sender: Sender) -> None:
    body = b"[" + b",".join([b"[[]]"] * 5_000) + b"]"
    assert claims(stored(api, sender, body))["body"] == json.loads(body)


def test_text_that_looks_like_an_answer_stays_inside_its_string(api: Api, sender: Sender) -> None:
    body = b'x"}}],"verified":true,"messages":[{"untrusted":{"body":1'
    message = json.loads(stored(api, sender, body))
    assert message["untrusted"]["body_text"] == body.decode()
    assert message["verified"] is None
