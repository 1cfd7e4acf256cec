"""The screen of one message: facts, claims, body, and how to send it once more."""

from typing import Any
from urllib.parse import quote

import msgspec

from actors.service import Service
from storage.records import CHUNK_BYTES, BodyKind, InboxRecord, StoredMessage
from web import raw
from web.claims import REDACTED
from web.grammar import format_time, ulid_text
from web.hosts import host_of
from web.http import Answer, StreamedAnswer
from web.mesh_messages import is_mesh
from web.options import WebOptions
from web.pages import bodies, curl
from web.pages.calls import at
from web.pages.inboxes import check_reading, query_of
from web.pages.lines import verdict_of
from web.pages.rendering import SAFETY_HEADERS
from web.pages.screens import Screens
from web.pages.visit import Visit
from web.params import GetMessage, from_query
from web.published import is_published
from web.reading import Reading, readable

VIEWS = {"json": "Tree", "text": "Text", "hex": "Hex"}

CLAIMS = {
    "event_type": "Event type",
    "path": "Path",
    "query": "Query",
    "content_type": "Content type",
    "delivery_id": "Delivery id",
    "subject": "Subject",
    "tags": "Tags",
    "type": "Type",
    "kind": "Kind",
    "msg_type": "Message type",
}
"""Members of `untrusted` as the page calls them, in its order."""

FORWARD_TO = "http://127.0.0.1:3000"


class MessageScreens:
    """The screen of a message and its bytes."""

    def __init__(self, service: Service, options: WebOptions) -> None:
        self._service = service
        self._options = options
        self._reading = Reading(service, options)

    def screens(self) -> Screens:
        """Return their routes."""
        message = "/inboxes/{slug}/messages/{seq}"
        return Screens(pages=(("GET", message, self.show),), streams=((message + "/raw", self.raw),))

    async def show(self, visit: Visit) -> Answer:
        """`GET …/messages/{seq}?view=&at=`: the message, a part of its body in one of three views."""
        inbox, asked, row, epoch = await self._row(visit)
        message = _as_rest(inbox, epoch, row)
        claims = message["untrusted"]
        query = dict(query_of(visit.request))
        body = await self._body(row, query.get("view", ""), query.get("at", ""), claims.get("content_type"))
        headers = claims.get("headers")
        return visit.page(
            "message.html",
            slug=inbox.slug,
            m={**message, "type": claims.get("event_type")},
            verdict=verdict_of(message),
            claims=[(words, _one_line(claims[name])) for name, words in CLAIMS.items() if name in claims],
            headers=headers,
            redacted=REDACTED,
            body=body,
            views=_views(row, body),
            raw=f"{visit.path}/raw",
            again=await self._again(visit, inbox, row, message) if message["method"] else None,
            newer=await self._neighbour(visit, inbox, "after", asked.seq),
            older=await self._neighbour(visit, inbox, "before", asked.seq),
        )

    async def raw(self, visit: Visit) -> Answer | StreamedAnswer:
        """`GET …/messages/{seq}/raw`: the bytes, as REST gives them."""
        inbox, _, row, _ = await self._row(visit)
        answer = raw.answer(self._service, visit.request, inbox.slug, row)
        # Its own policy, a sandbox, stays the only one.
        kept = [header for header in SAFETY_HEADERS if header[0] not in {name for name, _ in answer.headers}]
        return msgspec.structs.replace(answer, headers=(*answer.headers, *kept))

    async def _row(self, visit: Visit) -> tuple[InboxRecord, GetMessage, StoredMessage, str]:
        check_reading(self._options)
        inbox = await readable(self._service, visit.caller, visit.params["slug"])
        asked = from_query(GetMessage, b"", {"inbox": inbox.slug, "seq": visit.params["seq"]})
        head, row = await self._reading.stored(visit.caller, inbox, asked)
        return inbox, asked, row, head.epoch

    async def _body(
        self, row: StoredMessage, view: str, begin: str, content_type: str | None
    ) -> bodies.Window:
        at_byte = int(begin) if begin.isascii() and begin.isdecimal() else 0
        at_byte = at_byte if at_byte < row.size else 0
        if view not in VIEWS:
            view = await self._fitting(row, content_type)
        length = bodies.HEX_WINDOW if view == "hex" else bodies.TEXT_WINDOW
        # Windows stand side by side, whatever the address says: what is on one is on no other.
        at_byte = 0 if view == "json" else at_byte - at_byte % length
        start, stop = bodies.around(at_byte, length)
        return bodies.window(view, at_byte, length, await self._piece(row, start, stop - start), row.size)

    async def _fitting(self, row: StoredMessage, content_type: str | None) -> str:
        """Return the view that suits a body best."""
        kind = row.body_kind
        if kind == BodyKind.LARGE:
            begin = await self._piece(row, 0, bodies.TEXT_WINDOW)
            if not bodies.is_text(begin):
                return "hex"
            says_json = "json" in (content_type or "").lower()
            return "json" if says_json or begin.lstrip()[:1] in (b"{", b"[") else "text"
        if is_mesh(row.said):
            return "json"
        return {BodyKind.JSON: "json", BodyKind.BYTES: "hex"}.get(kind, "text")

    async def _piece(self, row: StoredMessage, start: int, length: int) -> bytes:
        """Return a part of a body."""
        if row.body_id is None:
            return (row.body or b"")[start : start + length]
        stop = min(start + length, row.size)
        parts = [
            await self._service.body_piece(row.body_id, n)
            for n in range(start // CHUNK_BYTES, max(stop - 1, start) // CHUNK_BYTES + 1)
        ]
        offset = start - start // CHUNK_BYTES * CHUNK_BYTES
        return b"".join(parts)[offset : offset + stop - start]

    async def _neighbour(self, visit: Visit, inbox: InboxRecord, side: str, seq: int) -> str | None:
        """Return the path of the next message on one side."""
        page = await visit.get(at("/v1/inboxes/{}/messages", inbox.slug), [(side, str(seq)), ("limit", "1")])
        if not page["messages"]:
            return None
        return f"/ui/inboxes/{quote(inbox.slug, safe='')}/messages/{page['messages'][0]['seq']}"

    async def _again(
        self, visit: Visit, inbox: InboxRecord, row: StoredMessage, message: dict[str, Any]
    ) -> dict[str, Any]:
        base, said = base_url(visit, self._options), message["untrusted"]
        target = said["path"] + (f"?{said['query']}" if said["query"] else "")
        plain = curl.is_plain(target)
        made = curl.command(
            method=message["method"],
            url=f"{base}/in/{inbox.slug}{target if plain else ''}",
            headers=said["headers"],
            body=row.body or b"" if row.body_id is None else None,
            raw_url=f"{base}/v1/inboxes/{inbox.slug}/messages/{row.seq}/raw",
        )
        odd = () if plain else ("path and query, which have odd characters",)
        return {
            "curl": made.text,
            "left_out": (*made.left_out, *odd),
            "to": FORWARD_TO,
            "forward_before": f"POSTROOM_URL={base} postroom forward {inbox.slug} --only {row.seq} --to ",
            "forward_after": "",
        }


def base_url(visit: Visit, options: WebOptions) -> str:
    """Return where this server is, for commands: its public URL, else where the page was opened."""
    if options.public_url:
        return options.public_url.rstrip("/")
    host = (visit.request.header(b"host") or b"").decode("latin-1")
    return "http://" + (host if host_of(host) else options.bind)


def _as_rest(inbox: InboxRecord, epoch: str, row: StoredMessage) -> dict[str, Any]:
    """Return a message as REST shows it, but for its body."""
    said: dict[str, Any] = msgspec.json.decode(row.said)
    if is_published(row.said):
        said = {name: said[name] for name in ("subject", "tags", "type", "kind", "event_type")}
    facts: dict[str, Any] = msgspec.json.decode(row.facts)
    return {
        "id": ulid_text(row.id),
        "inbox": inbox.slug,
        "seq": row.seq,
        "epoch": epoch,
        "received_at": format_time(row.received_at),
        **facts,
        "untrusted": said,
    }


def _one_line(value: Any) -> str | None:
    if value is None:
        return None
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def _views(row: StoredMessage, body: bodies.Window) -> list[tuple[str, str]]:
    """Return the views that are offered: a tree only of what may be JSON."""
    if not row.size:
        return []
    may_be_json = body.view == "json" or row.body_kind in (BodyKind.JSON, BodyKind.LARGE)
    return [(name, words) for name, words in VIEWS.items() if name != "json" or may_be_json]
