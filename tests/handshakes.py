"""Handshakes as their providers write them, and as nobody should: one table for every test of them.

The requests are those of the providers' documentation. What Zoom and X expect was computed with OpenSSL's command line;
for Discord and Xero, whatever a test makes up is signed with the keys given here.
"""

import base64
import hashlib
import hmac
import json
from collections.abc import Iterator
from typing import NamedTuple

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

Headers = list[tuple[bytes, bytes]]

JSON = (b"content-type", b"application/json")
TEXT = (b"content-type", b"text/plain")

DISCORD_KEY = Ed25519PrivateKey.from_private_bytes(
    bytes.fromhex("9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60")
)
"""RFC 8032, section 7.1, test 1."""
DISCORD_SECRET = "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a"
XERO_SECRET = "xero-secret"
HOOK_SECRET = b"b537207f20cbfa02357cf448134da559e8bd39d61597dcd5631b8012eae53e81"

SECRETS: dict[str, list[dict[str, str]]] = {
    "zoom": [{"name": "default", "value": "zoom-secret"}],
    "x": [{"name": "default", "value": "x-secret"}],
    "twitter": [{"name": "default", "value": "x-secret"}],
    "discord": [{"name": "default", "value": DISCORD_SECRET}],
    "xero": [{"name": "default", "value": XERO_SECRET}],
    "meta": [{"name": "verify_token", "value": "meatyhamhock é&"}],
    "whatsapp": [{"name": "verify_token", "value": "meatyhamhock é&"}],
}
"""What an inbox of a preset needs for its handshake; every other has none."""


class Ask(NamedTuple):
    """One request: `suffix` follows the slug in the target; a body of None sends no length."""

    preset: str
    why: str
    method: bytes
    suffix: bytes = b""
    headers: Headers = []  # noqa: RUF012 - never changed
    body: bytes | None = None


class Handshake(NamedTuple):
    """A request with the answer that the provider demands: `headers` besides those of every answer, in order."""

    ask: Ask
    status: int
    headers: Headers
    body: bytes


def signed(preset: str, body: bytes) -> Headers:
    """Return the headers with which a provider that is answered only after a valid signature signs a body."""
    if preset == "discord":
        signature = DISCORD_KEY.sign(b"1700000000" + body).hex().encode()
        return [(b"X-Signature-Timestamp", b"1700000000"), (b"X-Signature-Ed25519", signature)]
    if preset == "xero":
        digest = hmac.new(XERO_SECRET.encode(), body, hashlib.sha256).digest()
        return [(b"x-xero-signature", base64.b64encode(digest))]
    return []


def post(preset: str, why: str, body: bytes, suffix: bytes = b"", headers: Headers | None = None) -> Ask:
    """Return a POST of JSON, signed where nothing is said otherwise."""
    fields = signed(preset, body) if headers is None else headers
    return Ask(preset, why, b"POST", suffix, [(b"Content-Type", b"application/json"), *fields], body)


SLACK = (
    b'{"token": "Jhj5dZrVaK7ZwHHjRyZWjbDl", "type": "url_verification",'
    b' "challenge": "3eZbrw1aBm2rZgRNFdxV2595E9CY3gmdALWMmHkvFXO7tYXAYM8P"}'
)
ZOOM = (
    b'{"payload":{"plainToken":"qgg8vlvZRS6UYooatFL8Aw"},"event_ts":1654503849680,'
    b'"event":"endpoint.url_validation"}'
)
GRID = (
    b'[{"id":"2d1781af-3a4c-4d7c-bd0c-e34b19da4e66","topic":"/subscriptions/x","subject":"",'
    b'"data":{"validationCode":"512d38b6-c7b8-40c8-89fe-f46f9e9622b6","validationUrl":"http://127.0.0.1:1/never"},'
    b'"eventType":"Microsoft.EventGrid.SubscriptionValidationEvent","eventTime":"2018-01-25T22:12:19.4556811Z",'
    b'"metadataVersion":"1","dataVersion":"1"}]'
)
XERO = b'{"events":[],"lastEventSequence":0,"firstEventSequence":0,"entropy":"S0m3r4Nd0mt3xt"}'
INTERACTION = b'{"type":1}'
EVENT_PING = b'{"version":1,"application_id":"1234560123453231555","type":0}'
META = b"hub.mode=subscribe&hub.challenge=1158201444&hub.verify_token=meatyhamhock+%C3%A9%26"
WEBSUB = (
    b"hub.mode=subscribe&hub.topic=https%3A%2F%2Fa.example&hub.challenge=d0b1%2F+%3Cb%3E%E2%98%83&hub.lease=9"
)
GRAPH = b"validationToken=Validation%3a+Testing+client+application+reachability+for+Request-Id%3a+%3Ci%3E%26"
GRAPH_TEXT = b"Validation: Testing client application reachability for Request-Id: <i>&"
OKTA = (b"X-Okta-Verification-Challenge", b"Me_rShK8JHsTnbyYrWXCEoMGbM_zsZ6k0hLPZ_Pg")
ORIGIN = (b"WebHook-Request-Origin", b"eventemitter.example.com")
ALLOWED = (b"webhook-allowed-origin", b"eventemitter.example.com")

HANDSHAKES = [
    Handshake(
        post("slack", "url_verification", SLACK),
        200,
        [JSON],
        b'{"challenge":"3eZbrw1aBm2rZgRNFdxV2595E9CY3gmdALWMmHkvFXO7tYXAYM8P"}',
    ),
    Handshake(
        post("zoom", "endpoint.url_validation", ZOOM),
        200,
        [JSON],
        b'{"plainToken":"qgg8vlvZRS6UYooatFL8Aw",'
        b'"encryptedToken":"b17f0320a1322a509340a1a835b3d9edbc491f0b0790ed2d20d0604d39dfe922"}',
    ),
    Handshake(
        post("eventgrid", "validation", GRID, headers=[(b"aeg-event-type", b"SubscriptionValidation")]),
        200,
        [JSON],
        b'{"validationResponse":"512d38b6-c7b8-40c8-89fe-f46f9e9622b6"}',
    ),
    Handshake(post("discord", "interaction", INTERACTION), 200, [JSON], INTERACTION),
    Handshake(post("discord", "event", EVENT_PING), 204, [JSON], b""),
    Handshake(post("xero", "right intent", XERO), 200, [], b""),
    Handshake(
        post("xero", "wrong intent", XERO, headers=signed("xero", b"another")),
        401,
        [(b"www-authenticate", b'Bearer realm="postroom"')],
        b"",
    ),
    Handshake(
        post("asana", "X-Hook-Secret", b"{}", headers=[(b"X-Hook-Secret", HOOK_SECRET)]),
        200,
        [(b"x-hook-secret", HOOK_SECRET)],
        b"",
    ),
    Handshake(
        Ask("msgraph", "validationToken", b"POST", b"?" + GRAPH, [(b"Content-Type", b"text/plain")], b""),
        200,
        [TEXT],
        GRAPH_TEXT,
    ),
    Handshake(Ask("meta", "hub.challenge", b"GET", b"?" + META), 200, [TEXT], b"1158201444"),
    Handshake(Ask("whatsapp", "hub.challenge", b"GET", b"?" + META), 200, [TEXT], b"1158201444"),
    Handshake(
        Ask("websub", "hub.challenge", b"GET", b"/secret?" + WEBSUB), 200, [TEXT], "d0b1/ <b>☃".encode()
    ),
    Handshake(
        Ask("x", "crc_token", b"GET", b"?nonce=1&crc_token=MDk4ZjZi-Y2Q_0NjIx%3D"),
        200,
        [JSON],
        b'{"response_token":"sha256=g3VmsHhATDaSJZtdWsuLHHv+rn04Y6CJp7tBM4UodT4="}',
    ),
    Handshake(
        Ask("twitter", "crc_token", b"GET", b"?crc_token=MDk4ZjZi-Y2Q_0NjIx="),
        200,
        [JSON],
        b'{"response_token":"sha256=g3VmsHhATDaSJZtdWsuLHHv+rn04Y6CJp7tBM4UodT4="}',
    ),
    Handshake(
        Ask("okta", "challenge", b"GET", b"/secret", [OKTA]),
        200,
        [JSON],
        b'{"verification":"Me_rShK8JHsTnbyYrWXCEoMGbM_zsZ6k0hLPZ_Pg"}',
    ),
    Handshake(
        Ask("dropbox", "challenge", b"GET", b"?challenge=abc%3Cscript%3E"), 200, [TEXT], b"abc<script>"
    ),
    Handshake(
        Ask("cloudevents", "options", b"OPTIONS", b"/secret", [ORIGIN]),
        200,
        [ALLOWED, (b"webhook-allowed-rate", b"*"), (b"allow", b"POST")],
        b"",
    ),
    Handshake(
        Ask("cloudevents", "rate", b"OPTIONS", b"", [ORIGIN, (b"WebHook-Request-Rate", b"120")]),
        200,
        [ALLOWED, (b"webhook-allowed-rate", b"120"), (b"allow", b"POST")],
        b"",
    ),
    Handshake(Ask("trello", "alive", b"HEAD"), 200, [], b""),
    Handshake(Ask("mandrill", "alive", b"HEAD"), 200, [], b""),
    Handshake(Ask("mailchimp", "alive", b"GET", b"/secret"), 200, [], b""),
]

EVERYWHERE = {"trello", "mandrill", "mailchimp"}
"""Their question is answered on every inbox."""


def _bad_json(preset: str, good: bytes, member: bytes, twice: bytes, wrong: list[bytes]) -> Iterator[Ask]:
    """Give what is wrong with a JSON handshake; `member` is one of its texts, `twice` a member to repeat."""
    text = json.dumps(member.decode()).encode()
    yield post(preset, "a member twice", good.replace(twice, twice + b"," + twice, 1))
    yield post(preset, "not UTF-8", good.replace(b"{", b'{"pad":"\xff",', 1))
    yield post(preset, "UTF-16", good.decode().encode("utf-16"))
    yield post(preset, "a byte order mark", b"\xef\xbb\xbf" + good)
    yield post(preset, "a NUL behind it", good + b"\x00")
    yield post(preset, "deep", good.replace(b"{", b'{"pad":' + b"[" * 101 + b"]" * 101 + b",", 1))
    yield post(preset, "very deep", good.replace(b"{", b'{"pad":' + b"[" * 20_000 + b"]" * 20_000 + b",", 1))
    yield post(preset, "1 MiB", good + b" " * (1 << 20))
    yield post(preset, "cut", good[:-1])
    yield post(preset, "NaN", good.replace(b"{", b'{"pad":NaN,', 1))
    yield post(preset, "a huge number", good.replace(b"{", b'{"pad":' + b"9" * 5_000 + b",", 1))
    yield Ask(preset, "PUT", b"PUT", b"", signed(preset, good), good)
    if member:
        for bad in (
            b'""',
            b'"a\\u0000b"',
            b'"a\\r\\nSet-Cookie: a=b"',
            b'"\\ud800"',
            b"7",
            b"null",
            b'["a"]',
        ):
            yield post(preset, f"{bad.decode()} as text", good.replace(text, bad))
        yield post(preset, "a long text", good.replace(text, b'"' + b"a" * 4_097 + b'"'))
    for n, body in enumerate(wrong):
        yield post(preset, f"another shape {n}", body)


def _bad_query(preset: str, method: bytes, good: bytes, name: bytes) -> Iterator[Ask]:
    """Give what is wrong with a challenge in a query string."""
    body = None if method == b"GET" else b""
    rest = b"&".join(part for part in good.split(b"&") if not part.startswith(name + b"="))
    for value in (b"", b"a%00b", b"a%0d%0aSet-Cookie:%20a=b", b"%ff", b"%1b[2J", b"a" * 4_097, b"%C2%85"):
        query = name + b"=" + value + b"&" + rest
        yield Ask(preset, f"{name.decode()}={value[:12].decode()}", method, b"?" + query, [], body)
    yield Ask(preset, "twice", method, b"?%b&%b=x" % (good, name), [], body)
    yield Ask(preset, "another case", method, b"?" + good.replace(name, name.upper()), [], body)
    yield Ask(preset, "no value", method, b"?" + name, [], body)
    yield Ask(preset, "a long query", method, b"?%b&%b" % (good, b"&" * 20_000), [], body)


def _bad_header(preset: str, method: bytes, name: bytes, good: bytes) -> Iterator[Ask]:
    """Give what is wrong with a challenge in a header."""
    body = b"{}" if method == b"POST" else None
    for value in (b"", b"two words", b"a\tb", b"caf\xe9", b"a" * 4_097):
        yield Ask(preset, f"{value[:12]!r}", method, b"", [(name, value)], body)
    yield Ask(preset, "twice", method, b"", [(name, good), (name, good)], body)


MALFORMED = [
    *_bad_json(
        "slack",
        SLACK,
        b"3eZbrw1aBm2rZgRNFdxV2595E9CY3gmdALWMmHkvFXO7tYXAYM8P",
        b'"type": "url_verification"',
        [
            b'{"type":"url_verification"}',
            b'{"challenge":"x"}',
            b'[{"type":"url_verification","challenge":"x"}]',
            b'{"type":"url_Verification","challenge":"x"}',
            b"",
            b"challenge=x&type=url_verification",
        ],
    ),
    *_bad_json(
        "zoom",
        ZOOM,
        b"qgg8vlvZRS6UYooatFL8Aw",
        b'"event":"endpoint.url_validation"',
        [
            b'{"event":"endpoint.url_validation"}',
            b'{"event":"endpoint.url_validation","payload":"x"}',
            b'{"event":"endpoint.url_validation","payload":{"plainToken":"v0:1700000000:{}"}}',
        ],
    ),
    *_bad_json(
        "eventgrid",
        GRID,
        b"512d38b6-c7b8-40c8-89fe-f46f9e9622b6",
        b'"dataVersion":"1"',
        [b"[]", GRID[1:-1], b"[" + GRID[1:-1] + b"," + GRID[1:-1] + b"]", b"[null]", b'[{"data":{}}]'],
    ),
    *_bad_json(
        "discord",
        EVENT_PING,
        b"",
        b'"type":0',
        [
            b"{}",
            b'{"type":"0"}',
            b'{"type":true}',
            b'{"type":0.0}',
            b'{"type":2}',
            b'{"type":null}',
            b'{"type":1,"event":{"type":"X"}}',
            b'{"type":1,"event":null}',
            b"[0]",
            b"1",
        ],
    ),
    *_bad_json(
        "xero",
        XERO,
        b"",
        b'"events":[]',
        [b"{}", b'{"events":null}', b'{"events":{}}', b'{"events":[{}]}', b"[]", b'{"Events":[]}'],
    ),
    *_bad_query("msgraph", b"POST", GRAPH, b"validationToken"),
    *_bad_query("meta", b"GET", META, b"hub.challenge"),
    *_bad_query("websub", b"GET", WEBSUB, b"hub.challenge"),
    *_bad_query("dropbox", b"GET", b"challenge=x", b"challenge"),
    *_bad_query("x", b"GET", b"crc_token=x", b"crc_token"),
    Ask("x", "a token that is a message", b"GET", b'?crc_token={"for_user_id":"1"}'.replace(b'"', b"%22")),
    Ask("x", "a longer token", b"GET", b"?crc_token=" + b"a" * 257),
    *_bad_header("okta", b"GET", *OKTA),
    *_bad_header("cloudevents", b"OPTIONS", *ORIGIN),
    *_bad_header("asana", b"POST", b"X-Hook-Secret", HOOK_SECRET),
]
