"""An agent's inbox for tests of its clients: the server's own rules of draining, behind HTTP without a socket.

Breaks can be planned: before a call is answered, or after it has taken effect and its answer is lost.
"""

import copy
import json
from typing import Any, Literal

import httpx
import msgspec

from actors.rules.draining import Reader, Row, acknowledge, floor, look

Break = Literal["before", "after"]


class Letter(msgspec.Struct, frozen=True):
    """A row of the inbox. `shown`: whether the token may see it."""

    seq: int
    diff_id: str
    score: float
    shown: bool = True
    text: str = "…"


def item(letter: Letter, **diff: Any) -> dict[str, Any]:
    """Return a row as the server sends it (surface, section 3)."""
    origin = {
        "inbox": "commons",
        "seq": letter.seq,
        "epoch": "e",
        "sender": "planner",
        "verified": None,
        "received_at": "2026-11-30T20:00:00.000001Z",
    }
    return {
        "delivery_seq": letter.seq,
        "diff": {
            "diff_id": letter.diff_id,
            "type": "created",
            "kind": "note",
            "origin": origin,
            "salience": 0.5,
            "supersedes": None,
            "expires_at": None,
            "untrusted": {
                "subject": f"subject {letter.seq}",
                "text": letter.text,
                "tags": [],
                "event_type": "note",
            },
        }
        | diff,
        "delivery": {
            "delivery_seq": letter.seq,
            "score": letter.score,
            "via": "direct",
            "also_via": [],
            "matched_terms": [],
            "delivered_at": "2026-11-30T20:00:00.000002Z",
        },
    }


def page(items: list[dict[str, Any]], cursor: int, window_high: int, *, has_more: bool = False) -> bytes:
    """Return a page as the server sends it."""
    document = {"items": items, "cursor": cursor, "window_high": window_high, "has_more": has_more}
    return json.dumps(document).encode()


class Inbox:
    """An inbox with rows, its reader's state, and what it was asked: `calls` holds path and body of each."""

    def __init__(self, max_batch: int = 4) -> None:
        self.letters: list[Letter] = []
        self.reader = Reader()
        self.calls: list[tuple[str, dict[str, int]]] = []
        self.breaks: list[Break | None] = []
        self._max_batch = max_batch
        self._made = 0

    def deliver(self, score: float = 0.5, *, shown: bool = True, text: str = "…") -> Letter:
        """Deliver one more message."""
        self._made += 1
        letter = Letter(len(self.letters) + 1, f"id-{self._made}", score, shown, text)
        self.letters.append(letter)
        return letter

    def backup(self) -> tuple[list[Letter], Reader]:
        """Return a copy of everything, for `restore`."""
        return copy.copy(self.letters), self.reader

    def restore(self, backup: tuple[list[Letter], Reader]) -> None:
        """Become what it was; what is delivered from now on has seqs that were there before."""
        letters, self.reader = backup
        self.letters = copy.copy(letters)

    @property
    def acks(self) -> list[int | None]:
        """The acknowledgement of every call."""
        return [body.get("ack") for _, body in self.calls]

    def transport(self) -> httpx.MockTransport:
        """Return a transport for `Client`."""
        return httpx.MockTransport(self._answer)

    def _answer(self, request: httpx.Request) -> httpx.Response:
        body = json.loads(request.content)
        self.calls.append((request.url.path, body))
        planned = self.breaks.pop(0) if self.breaks else None
        if planned == "before":
            raise httpx.ConnectError("nobody there")
        answer = self._pull(body)
        if planned == "after":
            raise httpx.ReadError("broken off")
        return httpx.Response(200, content=answer, headers={"Content-Type": "application/json"})

    def _pull(self, body: dict[str, int]) -> bytes:
        if "ack" in body:
            ahead = [one.seq for one in self.letters if one.seq > self.reader.ack_cursor][: self._max_batch]
            self.reader = acknowledge(self.reader, body["ack"], ahead, lambda seq: seq + 1)
        since = body.get("since")
        above = [one for one in self.letters if one.seq > floor(self.reader, since)]
        window = above[: min(body.get("limit", self._max_batch), self._max_batch)]
        rows = [Row(one.seq, one.score, one.shown) for one in window]
        seen = look(self.reader, since, rows, has_more=len(above) > len(window))
        self.reader = seen.reader
        items = [item(self.letters[seq - 1]) for seq in seen.items]
        return page(items, self.reader.ack_cursor, seen.window_high, has_more=seen.has_more)
