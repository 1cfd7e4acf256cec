"""What readers and agents ask, complete on the wire: the bytes of a request."""

from collections.abc import Mapping, Sequence
from urllib.parse import urlencode

import msgspec

Query = Mapping[str, str | int | Sequence[str]]


class Reader(msgspec.Struct, frozen=True):
    """Who reads where: an inbox of a server, with a token that may."""

    port: int
    slug: str
    token: str

    def page(self, **query: str | int | Sequence[str]) -> bytes:
        """Return a request for one page of messages."""
        return self._get("messages", query)

    def wait(self, **query: str | int | Sequence[str]) -> bytes:
        """Return a request that waits for messages."""
        return self._get("wait", query)

    def stream(self, **query: str | int | Sequence[str]) -> bytes:
        """Return a request for a stream of messages."""
        return self._get("stream", query)

    def stream_among(self, **query: str | int | Sequence[str]) -> bytes:
        """Return a request for a stream of several inboxes, of which this is the only one."""
        target = "/v1/stream?" + urlencode({"inboxes": self.slug, **query}, doseq=True)
        return get(self.port, target, f"Authorization: Bearer {self.token}")

    def _get(self, what: str, query: Query) -> bytes:
        target = f"/v1/inboxes/{self.slug}/{what}"
        if query:
            target += "?" + urlencode(query, doseq=True)
        return get(self.port, target, f"Authorization: Bearer {self.token}")


def get(port: int, target: str, *headers: str) -> bytes:
    """Return a GET request."""
    return "\r\n".join((f"GET {target} HTTP/1.1", f"Host: 127.0.0.1:{port}", *headers, "", "")).encode()


def post(port: int, target: str, token: str, body: object) -> bytes:
    """Return a POST request with a JSON body."""
    encoded = msgspec.json.encode(body)
    head = (
        f"POST {target} HTTP/1.1",
        f"Host: 127.0.0.1:{port}",
        f"Authorization: Bearer {token}",
        "Content-Type: application/json",
        f"Content-Length: {len(encoded)}",
    )
    return "\r\n".join((*head, "", "")).encode() + encoded
