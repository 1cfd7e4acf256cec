"""The server as a whole: who is waiting right now, how the store is, what the disk holds. For administrators."""

from pathlib import Path
from typing import Any

import msgspec
import trio

from storage.space import free_bytes
from web.http import Answer
from web.options import WebOptions
from web.pages.screens import Screens
from web.pages.visit import Visit
from web.slots import Holder, Slots

LARGEST = 20
"""Inboxes that are listed by what they keep; of the first `LOOKED_AT` by their slugs."""
LOOKED_AT = 1_000

HELD = {"wait": "waits", "pull": "waits for its mail", "stream": "streams"}


class Open(msgspec.Struct, frozen=True):
    """One wait or stream. `who`: whose token it is. `here`: whether it is one of this page's own."""

    who: str
    does: str
    slugs: tuple[str, ...]
    seconds: float


class ServerScreens:
    """The screens of the server."""

    def __init__(self, options: WebOptions, slots: Slots, data_dir: Path) -> None:
        self._options = options
        self._slots = slots
        self._data_dir = data_dir

    def screens(self) -> Screens:
        """Return their routes."""
        return Screens(pages=(("GET", "/waiting", self.waiting), ("GET", "/server", self.server)))

    async def waiting(self, visit: Visit) -> Answer:
        """`GET /ui/waiting`: open waits and streams, the longest one first."""
        visit.admins_only()
        now = trio.current_time()
        holders = list(self._slots.holders)
        return visit.page(
            "waiting.html",
            waiting=[_open(visit, one, now) for one in holders[:MAX_SHOWN]],
            more=max(0, len(holders) - MAX_SHOWN),
            taken=self._slots.taken,
            refused=self._slots.refused,
        )

    async def server(self, visit: Visit) -> Answer:
        """`GET /ui/server`: the figures of REST, and what the inboxes keep."""
        visit.admins_only()
        stats = await visit.get("/v1/stats")
        found = await visit.service.list_inboxes(None, "", LOOKED_AT)
        found.sort(key=lambda listing: listing.head.live_bytes, reverse=True)
        inboxes = [
            {
                "slug": listing.record.slug,
                "messages": listing.head.live_rows,
                "bytes": listing.head.live_bytes,
                "limit": listing.record.settings.retention.max_bytes,
                "age": listing.record.settings.retention.max_age_seconds,
            }
            for listing in found[:LARGEST]
        ]
        return visit.page(
            "server.html",
            stats=stats,
            free=_free(self._data_dir),
            inboxes=inboxes,
        )


MAX_SHOWN = 500
"""Waits on one page."""


def _open(visit: Visit, holder: Holder, now: float) -> Open:
    return Open(_who(visit, holder.token_id), HELD[holder.what], holder.slugs, max(0.0, now - holder.since))


def _who(visit: Visit, token_id: str) -> str:
    token: Any = visit.service.tokens.get(token_id)
    if token is None:
        return "a token that is revoked"
    if token.agent is not None:
        return f"agent {token.agent}"
    if token.machine is not None:
        return f"machine {token.machine}"
    return f"{token.kind} token {token.name or token.token_id[-6:]}"


def _free(directory: Path) -> int | None:
    """Return the bytes that are free on the disk of the data, None when it does not say."""
    try:
        return free_bytes(directory)
    except OSError:
        return None
