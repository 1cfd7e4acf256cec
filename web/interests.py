"""Beacons as operations, for REST and MCP: an agent's standing interests (surface, section 7).

The caller is an agent, known by its token alone. It sees and changes its own beacons; what they would have matched is
counted among the messages that its token may read, at that moment.
"""

from typing import Any

import msgspec

from actors.beacons import Placed, Shown, Term
from actors.service import Service
from web.auth import Principal
from web.errors import ApiError
from web.grammar import format_time
from web.private import calling_agent
from web.publish_params import PlaceBeacon, TestBeacon

_encode = msgspec.json.Encoder().encode


class BeaconView(msgspec.Struct, frozen=True):
    """A beacon as its agent sees it. Counts are those of the day (UTC); `overflow_today`: what its limit kept back."""

    name: str
    about: str | None
    inboxes: tuple[str, ...]
    types: tuple[str, ...]
    kinds: tuple[str, ...]
    require: tuple[str, ...]
    exclude: tuple[str, ...]
    min_score: float
    weight: float
    terms: tuple[Term, ...]
    placed_at: str
    expires_at: str | None
    delivered_today: int
    overflow_today: int


def beacon_view(shown: Shown) -> BeaconView:
    """Return a beacon as `GET /v1/beacons` shows it."""
    return BeaconView(
        **msgspec.structs.asdict(shown.spec),
        terms=shown.terms,
        placed_at=format_time(shown.placed_at),
        expires_at=None if shown.expires_at is None else format_time(shown.expires_at),
        delivered_today=shown.delivered_today,
        overflow_today=shown.overflow_today,
    )


class Interests:
    """The beacons of agents over one service."""

    def __init__(self, service: Service) -> None:
        self._service = service

    async def place(self, caller: Principal, params: PlaceBeacon) -> bytes:
        """Place a beacon: `{name, terms, would_have_matched_7d, backfilled}`. Raises as `BeaconBook.place`."""
        agent = calling_agent(self._service, caller)
        placed: Placed = await self._service.beacons.place(
            agent,
            params.spec(params.name),
            visible=caller.visible,
            ttl_seconds=params.ttl_seconds,
            backfill=params.backfill,
        )
        return _encode(placed)

    def show(self, caller: Principal, name: str) -> bytes:
        """Return one beacon. Raises `ApiError` `not_found`."""
        shown = self._service.beacons.find(calling_agent(self._service, caller), name)
        if shown is None:
            raise no_such_beacon()
        return _encode(beacon_view(shown))

    def listed(self, caller: Principal) -> bytes:
        """Return `{beacons}`, by name."""
        found = self._service.beacons.list(calling_agent(self._service, caller))
        return _encode({"beacons": [beacon_view(shown) for shown in found]})

    async def remove(self, caller: Principal, name: str) -> bool:
        """Remove a beacon; False when there is none of that name. What it has brought stays."""
        return await self._service.beacons.remove(calling_agent(self._service, caller), name)

    async def test(self, caller: Principal, params: TestBeacon) -> bytes:
        """Return `{matches: [{inbox, seq, score, matched_terms}]}`, newest first; nothing is placed or delivered."""
        agent = calling_agent(self._service, caller)
        spec = params.spec(params.name or "test")
        if params.names_only:
            shown = self._service.beacons.find(agent, spec.name)
            if shown is None:
                raise no_such_beacon()
            spec = shown.spec
        found: Any = await self._service.beacons.test(agent, spec, visible=caller.visible)
        return _encode({"matches": found})


def no_such_beacon() -> ApiError:
    """Return the 404 of a beacon that is not among the caller's own."""
    return ApiError("not_found", "There is no beacon of this name.", field="name")
