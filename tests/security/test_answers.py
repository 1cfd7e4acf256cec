"""What a sender wrote stays in the bodies of answers, where it is data, and never becomes a header or a page."""

import gzip
import re
from itertools import product
from pathlib import Path

import httpx
import pytest

from tests.live.api import SECRET, Api, github_headers
from tests.live.harness import Server
from tests.live.rawhttp import Sender, head

MARK = b"zanzibar"
"""What a sender writes wherever it can, in headers that we answer with as well."""

INJECTED = (
    b"%0d%0aSet-Cookie:%20zanzibar=1",
    b"%0D%0A%0D%0A<script>zanzibar</script>",
    b"%E5%98%8A%E5%98%8Dzanzibar",  # what cutting off bytes makes line breaks of
    b"..%2f..%2fzanzibar",
    b"//zanzibar.example/%2e%2e",
    b"\\zanzibar.example",
    b"zanzibar%00.html",
    b"%22;zanzibar=%22",
)
PLACES = (
    b"/in/demo/%b",
    b"/in/demo?%b",
    b"/in/%b",
    b"/v1/inboxes/%b/messages",
    b"/v1/inboxes/demo/messages/1/raw?%b",
    b"/v1/inboxes/demo/messages/%b/raw",
    b"/ui/%b",
    b"/ui/inboxes/%b",
    b"/ui/sign-in?next=%b",
    b"/ui/static/%b/page.css",
    b"/%b",
)

OURS = {
    "allow",
    "cache-control",
    "connection",
    "content-length",
    "content-security-policy",
    "content-type",
    "cross-origin-opener-policy",
    "cross-origin-resource-policy",
    "date",
    "location",
    "postroom-request-id",
    "referrer-policy",
    "transfer-encoding",
    "www-authenticate",
    "x-content-type-options",
    "x-frame-options",
}

SAID = [
    (b"Postroom-Request-Id", MARK),
    (b"Postroom-Duplicate", MARK),
    (b"X-Request-Id", MARK),
    (b"Host", MARK),
    (b"X-Forwarded-Host", MARK),
    (b"Referer", MARK),
    (b"Sec-Fetch-Mode", b"navigate"),
]


@pytest.mark.parametrize(("place", "text"), list(product(PLACES, INJECTED)), ids=str)
def test_no_address_becomes_a_header(server: Server, sender: Sender, place: bytes, text: bytes) -> None:
    for method, token in ((b"GET", b"no token"), (b"POST", server.token.encode())):
        lines = [*SAID[:3], *SAID[4:], (b"Authorization", b"Bearer " + token), (b"Content-Length", b"0")]
        reply = sender.exchange(head(method, place % text, lines), method=method.decode())
        assert {name.decode() for name, _ in reply.headers} <= OURS
        for name, value in reply.headers:
            if name == b"location":  # of signing in, with the page to go on to as one parameter
                assert re.fullmatch(rb"/ui/[\w./-]*(\?next=[\w./%~-]*)?", value), value
            else:
                assert MARK not in value, (name, value)


def test_a_delivery_becomes_no_header_of_its_answer_nor_of_its_bytes(api: Api) -> None:
    slug = api.github_inbox()
    mark = MARK.decode()
    headers = github_headers(b"{}", f'{mark}"; x', f"{mark}%0d%0aX: y") | {
        "Content-Type": f'text/plain; name="{mark}"; charset=utf-7'
    }
    for _ in range(2):  # the second is a duplicate, which a header of ours says
        answer = api.post(slug, b"{}", path=f'/"; filename={mark}.html', headers=headers)
        assert answer.status_code == 200
        assert mark not in str(answer.headers)
    raw = api.call("GET", f"/inboxes/{slug}/messages/1/raw")
    assert mark not in str(raw.headers)
    assert raw.headers["content-type"] == "application/octet-stream"
    assert raw.headers["content-disposition"] == f'attachment; filename="{slug}-1.bin"'


@pytest.mark.parametrize(
    ("content_type", "is_confined"),
    [
        ("text/plain", False),
        ("text/plain; charset=utf-8", False),
        ("application/json", False),
        ("text/html", True),
        ("image/svg+xml", True),
        ("application/json+xml", True),  # XML to a browser, and XML may have scripts
        ("text/plain+html", True),
        ("application/jsonx", True),
        ("text/xml", True),
    ],
)
def test_an_inbox_s_own_answer_of_a_type_that_might_act_is_confined(
    api: Api, content_type: str, is_confined: bool
) -> None:
    response = {"status": 200, "content_type": content_type, "body": "<x/>", "headers": {}}
    answer = api.post(api.inbox(response=response))
    assert answer.headers["content-type"] == content_type
    policy = answer.headers.get("content-security-policy", "")
    assert policy == ("sandbox; default-src 'none'" if is_confined else "")


def test_nothing_compressed_is_unpacked(server: Server, api: Api) -> None:
    """A bomb stays as small as it came, and what is sent in its place is not understood."""
    bomb = gzip.compress(bytes(100 * 1024 * 1024))
    before = resident_bytes(server.pid)
    for coding in ("gzip", "gzip, gzip", "deflate", "br", "zstd", "identity"):
        headers = {"Content-Encoding": coding, "Content-Type": "application/json"}
        slug = api.inbox(search=True, verifier="github", secret=SECRET)
        signed = github_headers(bomb, "push", coding) | headers
        assert api.post(slug, bomb, headers=signed).json()["seq"] == 1
        (message,) = api.messages(slug, bodies=True)["messages"]
        assert (message["size"], message["verified"]) == (len(bomb), True)
        assert api.call("GET", f"/inboxes/{slug}/messages/1/raw").content == bomb
        assert api.call("POST", "/inboxes", content=gzip.compress(b"{}"), headers=headers).status_code == 400
        call = gzip.compress(b'{"jsonrpc": "2.0", "id": 1, "method": "ping"}')
        with httpx.Client(base_url=server.url, trust_env=False) as client:
            said = client.post(
                "/mcp", content=call, headers=headers | {"Authorization": f"Bearer {api.token}"}
            )
        assert said.status_code == 400
    assert resident_bytes(server.pid) - before < 32 * 1024 * 1024


def resident_bytes(pid: int) -> int:
    """Return the most memory that a process has had."""
    found = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    assert found is not None
    return int(found[1]) * 1024
