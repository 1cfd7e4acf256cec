"""The first inputs of the parsers' targets, written into `corpus/`: `python -m tests.hostile.seeds`.

They are made, not found: genuine requests of every provider, and one of each form that a parser knows. What a run has
found is added to the same directories by hand, under a name that says what it is.
"""

from storage.lifefile import Life, Place
from storage.lifefile import _slot as life_slot
from tests.hostile.targets import CORPUS
from tests.web.verify.genuine import VERIFYING, genuine
from web import sse

OTHERS: dict[str, tuple[bytes, ...]] = {
    "handshakes": (
        b"target: hub.mode=subscribe&hub.challenge=1158201444&hub.verify_token=meatyhamhock\n\n",
        b'x: 1\n\n{"type":"url_verification","challenge":"abc","token":"t"}',
        b'aeg-event-type: SubscriptionValidation\n\n[{"eventType":"Microsoft.EventGrid.SubscriptionValidationEvent",'
        b'"data":{"validationCode":"512d38b6"}}]',
    ),
    "templates": (
        b'{"header":"X-Signature"}',
        b'{"header":"X-Sig","signed":"{timestamp}.{body}","timestamp":"pair:t","pair":"v1","tolerance_seconds":300}',
        b'{"header":"X-Sig","encoding":"base64","algorithm":"sha512","delivery_id":"body:a.b[0].id","signed":"{url}{body}"}',
    ),
    "cursors": (
        sse.single_id("0123456789abcdef", 42).encode(),
        sse.vector_id({"demo": ("0123456789abcdef", 42), "other": ("fedcba9876543210", 0)}).encode(),
    ),
    "grammar": (b"01ARZ3NDEKTSV4RRFFQ69G5FAV", b"2026-02-28T23:59:59.123456Z", b"2024-02-29T00:00:00+01:30"),
    "queries": (
        b"after=5&limit=20&bodies=true&types=push&types=ping&epoch=0123456789abcdef",
        b"before=9&since=2026-01-01T00:00:00Z&until=2026-01-02T00:00:00Z&verified=false",
        b"inboxes=demo&inboxes=other&after=0&timeout_seconds=25",
        b"after=%35&limit=+1",
    ),
    "objects": (
        b'{"slug":"demo","retention":{"max_messages":10}}',
        b"a=1&b=%C3%BC&a=2",
        b' {"a": [1, 2.5e3, "\\u00fc"]} ',
    ),
    "rpc": (
        b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"query_messages","arguments":{"inbox":"demo"}}}',
        b'{"jsonrpc":"2.0","id":"a","method":"tools/call","params":'
        b'{"name":"agent_send","arguments":{"payload":{"n": 1.0}}}}',
        b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}',
    ),
    "ranges": (b"\x00\x01\x00bytes=0-9", b"\x00\x01\x00bytes=-5", b"\x00\x01\x00bytes=5-"),
    "proxies": (
        b'forwarded: for=192.0.2.60;proto=http;by=203.0.113.43, for="[2001:db8::1]:4711"\n\n',
        b"x-forwarded-for: 192.0.2.1, 10.0.0.1\nx-real-ip: 192.0.2.3\n\n",
    ),
    "hosts": (
        b"localhost:8025",
        b"[::1]:8025",
        b"https://app.example.com:443",
        b"text/event-stream;q=0.5, */*;q=0",
    ),
    "wakes": (
        b"http://10.0.0.7:9000/wake?x=1",
        b"https://agent.example.com/",
        b"::ffff:192.0.2.1",
        b"10.0.0.0/8",
    ),
    "bodies": (
        b'event.type\n{"event":{"type":"x","n":1},"type":"y"}',
        b'[0].id\n[{"id":"a"}]',
        b"a\npayload=%7B%7D&event=push",
    ),
    "asked": (
        b'\x00{"type":"created","kind":"note","subject":"s","text":"t","to":{"agents":["ada"]},"ttl_seconds":9}',
        b'\x02{"about":"words that matter","types":["push"],"require":["a"],"min_score":0.5,"backfill":3}',
        b'\x06{"agent_id":"ada","caps":["x"],"ttl_seconds":60,"wake":{"url":"http://10.0.0.1/","secret":"s"}}',
        b'\x0e{"kind":"agent","inboxes":["demo"],"expires_at":"2030-01-01T00:00:00Z"}',
        b"\x01q=two+%22a+phrase%22+-without+begin*&limit=5&before=9",
        b"\x0blast_seen=2026-01-01T00:00:00Z&limit=9",
    ),
    "settings": (
        b'\x00{"slug":"box","verifier":"github","secret":"s","retention":{"max_messages":5,"max_bytes":null}}',
        b'\x00{"response":{"status":202,"body":"ok","headers":{"X-A":"b"},"content_type":"text/plain"},"search":true}',
        b'\x00{"signed_url":"https://hooks.example.com/in/demo?a=1","verifier":"twilio"}',
        b'\x00{"inboxes":"all","name":null,"expires_at":"2030-01-01T00:00:00Z"}',
        b'\x03{"name":"second","value":"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"}',
        b"\x05user:password",
    ),
    "claims": (
        b"/hook/x?a=1\ncontent-type: application/json\ncookie: postroom=abc; b=c\n\n"
        b'{"a":[1,2.5e3,"\\u00fc"]}',
        b"http://host/in/demo\ncontent-type: text/html\n\n\xff\x00",
        b'/\n\n[[[[1e300,"[",12345678901234567890]]]]',
    ),
    "mcp": (
        b'{"jsonrpc":"2.0","id":null,"method":"ping"}',
        b'{"jsonrpc":"2.0","id":1.5,"method":"ping","method":"tools/list"}',
        b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"query_messages",'
        b'"arguments":{"inbox":"demo","limit":1e400}}}',
        b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"wait_for_messages",'
        b'"arguments":{"inbox":"demo","after":9007199254740993,"timeout_seconds":0}}}',
        b'{"jsonrpc":"2.0","id":"\\ud800","method":"tools/call","params":{"name":"\\u0000/etc/passwd","arguments":[]}}',
        b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"agent_send","arguments":'
        b'{"to_agent":"ada","msg_type":"note","payload":' + b"[" * 600 + b"]" * 600 + b"}}}",
        b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":[],"capabilities":null}}',
        b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":{"a":1}}}',
        b'[{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","id":1,"result":{}}]',
        b'\xef\xbb\xbf{"jsonrpc":"2.0","id":1,"method":"ping"}',
        b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"query_messages","arguments":'
        b'{"inbox":"demo"},"_meta":{"progressToken":[],"io.modelcontextprotocol/protocolVersion":7}}}',
        b"[" * 4_000,
    ),
    "openapi": (
        b"GET /v1/inboxes/{slug}/messages\n/v1/inboxes/demo/messages?after=-1&limit=%00\n",
        b"GET /v1/inboxes/{slug}/messages\n/v1/inboxes/demo/messages?types=%F0%9F%98&types=\n",
        b"GET /v1/inboxes/{slug}/messages/{seq}\n/v1/inboxes/demo/messages/9223372036854775808\n",
        b"GET /v1/inboxes/{slug}\n/v1/inboxes/..%2F..%2Fetc%2Fpasswd\n",
        b'POST /v1/inboxes\n/v1/inboxes\n{"slug":"a","slug":"b"}',
        b'POST /v1/inboxes\n/v1/inboxes\n{"retention":{"max_messages":1e999}}',
        b'POST /v1/inboxes\n/v1/inboxes\n{"response":{"headers":{"X-A":"a\\r\\nSet-Cookie: b"}}}',
        b'POST /v1/tokens\n/v1/tokens\n{"kind":"agent","inboxes":' + b"[" * 200 + b"]" * 200 + b"}",
        b'PATCH /v1/tokens/{token_id}\n/v1/tokens/%FF\n{"inboxes":null}',
        b"PATCH /v1/inboxes/{slug}\n/v1/inboxes/demo\n\xff\xfe{\x00}\x00",
    ),
    "lives": (life_slot(Life("0123456789abcdef" * 2, 7, Place(1, 2, 3))),),
}


def main() -> None:
    """Write them."""
    inputs = dict(OTHERS)
    inputs["signatures"] = tuple(map(_signed, range(len(VERIFYING))))
    for name, pieces in inputs.items():
        (CORPUS / name).mkdir(parents=True, exist_ok=True)
        for n, piece in enumerate(pieces):
            (CORPUS / name / f"seed-{n:02d}").write_bytes(piece)


def _signed(at: int) -> bytes:
    request = genuine(VERIFYING[at])
    target = request.path + (b"?" + request.query if request.query else b"")
    headers = ((b"target", target), *request.headers)
    return bytes((at,)) + b"\n".join(b"%b: %b" % header for header in headers) + b"\n\n" + request.body


if __name__ == "__main__":
    main()
