"""The lists: all inboxes that the token reads, and the messages of one, which goes on by itself."""

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import parse_qsl, quote, urlencode

import msgspec

from storage.records import InboxRecord
from web.decoding import time_argument
from web.errors import ApiError
from web.grammar import format_time
from web.http import Answer, Request, StreamedAnswer
from web.options import WebOptions
from web.pages.calls import at
from web.pages.lines import line_of
from web.pages.live import PageStreams
from web.pages.screens import Screens
from web.pages.visit import Visit, told
from web.reading import readable

READ_API_OFF = "Reading is switched off on this server (READ_API_ENABLED)."

PAGE_MESSAGES = 50
MAX_QUERY_FIELDS = 60


class Filters(msgspec.Struct, frozen=True):
    """What a list is narrowed to, as it was filled in: parameters of REST. With `q` it is searched by words alone."""

    q: str = ""
    types: tuple[str, ...] = ()
    verified: str = ""
    since: str = ""
    until: str = ""

    def query(self) -> list[tuple[str, str]]:
        """Return the filters as parameters of REST, without those that are empty."""
        if self.q:
            return [("q", self.q)]
        named = [(name, getattr(self, name)) for name in ("verified", "since", "until")]
        return [*(("types", one) for one in self.types), *(pair for pair in named if pair[1])]


class InboxScreens:
    """The screens of lists."""

    def __init__(self, options: WebOptions, streams: PageStreams) -> None:
        self._options = options
        self._streams = streams

    def screens(self) -> Screens:
        """Return their routes."""
        return Screens(
            pages=(("GET", "/inboxes", self.list_inboxes), ("GET", "/inboxes/{slug}", self.show)),
            streams=(("/inboxes/{slug}/stream", self.stream),),
        )

    async def list_inboxes(self, visit: Visit) -> Answer:
        """`GET /ui/inboxes`: what the token reads, with the numbers of this moment."""
        after = dict(query_of(visit.request)).get("after", "")
        found = await visit.get("/v1/inboxes", [("after_slug", after)] if after else [])
        return visit.page(
            "inboxes.html", inboxes=found["inboxes"], next=found.get("next_after_slug"), after=after
        )

    async def show(self, visit: Visit) -> Answer:
        """`GET /ui/inboxes/{slug}`: messages, the newest first. Without a place to begin from, the list is live."""
        record = await readable(visit.service, visit.caller, visit.params["slug"])
        asked = query_of(visit.request)
        filters, before = _filters(asked), dict(asked).get("before", "")
        query = [*filters.query(), ("limit", str(PAGE_MESSAGES)), *([("before", before)] if before else [])]
        page, error = None, None
        way = "/v1/inboxes/{}/search" if filters.q else "/v1/inboxes/{}/messages"
        try:
            page = await visit.get(at(way, record.slug), query)
        except Exception as raised:
            error = told(raised)
        live = page is not None and not (before or filters.until or filters.q)
        return visit.page(
            "inbox.html",
            status=200 if error is None else error.status,
            inbox=_inbox(record),
            ingest_url=await self._ingest_url(visit, record),
            filters=filters,
            filtered=bool(filters.query()),
            before=before,
            error=error,
            page=page,
            messages=[] if page is None else [line_of(message) for message in page["messages"]],
            since=format_time(time_argument("since", filters.since)) if live and filters.since else "",
            stream=_stream_path(record, filters, page) if page is not None and live else None,
            older=_list_path(record, filters, None if page is None else page["next_before"]),
            newest=_list_path(record, filters, None),
        )

    async def stream(self, visit: Visit) -> Answer | StreamedAnswer:
        """`GET /ui/inboxes/{slug}/stream`: the event stream of REST, which ends with the session."""
        check_reading(self._options)
        return await self._streams.of(visit)

    async def _ingest_url(self, visit: Visit, record: InboxRecord) -> str | None:
        if record.kind != "webhook" or not visit.caller.is_admin:
            return None
        url: str = (await visit.get(at("/v1/inboxes/{}", record.slug)))["ingest_url"]
        return url


def check_reading(options: WebOptions) -> None:
    """Refuse to show messages where reading is switched off. Raises `ApiError`."""
    if not options.read_api_enabled:
        raise ApiError("not_found", READ_API_OFF)


def query_of(request: Request) -> Sequence[tuple[str, str]]:
    """Return the parameters of a page's address, decoded. Raises `ApiError` for too many."""
    try:
        return parse_qsl(request.raw_query.decode("latin-1"), max_num_fields=MAX_QUERY_FIELDS)
    except ValueError:
        raise ApiError("invalid_argument", "This address has too many parameters.") from None


def _filters(asked: Sequence[tuple[str, str]]) -> Filters:
    last = dict(asked)
    types = [one.strip() for name, value in asked if name == "types" for one in value.split(",")]
    return Filters(
        q=last.get("q", "").strip(),
        types=tuple(dict.fromkeys(one for one in types if one)),
        verified=last.get("verified", ""),
        since=last.get("since", "").strip(),
        until=last.get("until", "").strip(),
    )


def _inbox(record: InboxRecord) -> Mapping[str, Any]:
    verifier = record.settings.verifier
    return {
        "slug": record.slug,
        "name": record.name,
        "kind": record.kind,
        "verifier": None if verifier == "none" else verifier,
        "search": record.settings.search,
    }


def _list_path(record: InboxRecord, filters: Filters, before: int | None) -> str:
    pairs = [*filters.query(), *([] if before is None else [("before", str(before))])]
    return f"/ui/inboxes/{quote(record.slug, safe='')}" + (f"?{urlencode(pairs)}" if pairs else "")


def _stream_path(record: InboxRecord, filters: Filters, page: Mapping[str, Any]) -> str:
    """Return where the list goes on: right after the newest message that the page knew of. It is narrowed by types
    here, and by verdict and time by its script: the streams of REST know of no more.
    """
    pairs = [("after", str(page["latest_seq"])), ("epoch", page["epoch"])]
    pairs += [("types", one) for one in filters.types]
    return f"/ui/inboxes/{quote(record.slug, safe='')}/stream?{urlencode(pairs)}"
