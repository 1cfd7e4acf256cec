"""The tools of agents: their inbox, publishing, beacons. Only tokens that are bound to an agent see them.

They are the operations of REST, with the result sent twice as large. What `pull_inbox` promises, and that its hints
differ from those of `inbox`, is its contract's: a call with `ack` moves a cursor (not read-only), nothing is lost by it
(not destructive), and how far the same call may move it depends on where it is (not idempotent).
"""

from collections.abc import Sequence

from actors.service import Service
from web.auth import Principal
from web.interests import Interests
from web.mail_params import PullInbox, ReadInbox
from web.mcp.jsonrpc import encode
from web.mcp.mailbox import UNTRUSTED, NoArguments
from web.mcp.result import DOUBLED, Outcome, structured
from web.mcp.schemas import bare, input_schema, output_schema
from web.mcp.shapes import (
    BeaconMatches,
    BeaconPlaced,
    BeaconRemoved,
    Beacons,
    Published,
    PullPage,
    ReplayPage,
)
from web.mcp.tools import Call, Hints, Tool, taking
from web.options import WebOptions
from web.publish_params import BeaconNamed, PlaceBeacon, Publish, TestBeacon
from web.publishing import Publications
from web.pulling import Pulling, render_pull
from web.slots import Slots

_PULLS = Hints(read_only_hint=False, destructive_hint=False, idempotent_hint=False, open_world_hint=False)
_READS = Hints(read_only_hint=True, destructive_hint=False, idempotent_hint=True, open_world_hint=False)
_PUBLISHES = Hints(read_only_hint=False, destructive_hint=False, idempotent_hint=False, open_world_hint=True)
_PLACES = Hints(read_only_hint=False, destructive_hint=False, idempotent_hint=True, open_world_hint=False)
_REMOVES = Hints(read_only_hint=False, destructive_hint=True, idempotent_hint=True, open_world_hint=False)


def bound(caller: Principal) -> bool:
    """Let tokens see a tool that are bound to an agent."""
    return caller.agent is not None


class AgentTools:
    """The tools over one service."""

    def __init__(self, service: Service, options: WebOptions, slots: Slots) -> None:
        self._pulling = Pulling(service, options, slots)
        self._publications = Publications(service)
        self._interests = Interests(service)

    def tools(self) -> Sequence[Tool]:
        """Return them in the order in which they are listed."""
        return (
            Tool(
                name="pull_inbox",
                title="Pull inbox",
                description=(
                    "Drain your own inbox page by page, best first; the server keeps your place. Once you have handled "
                    "a page, pass its window_high as ack with the next call: that, and no seq of an item. While "
                    "has_more is true there is more, also when items is empty. For what you acknowledged before, "
                    f"inbox. {UNTRUSTED}"
                ),
                hints=_PULLS,
                input_schema=input_schema(PullInbox),
                output_schema=output_schema(PullPage),
                run=taking(PullInbox, self._pull_inbox),
                seen_by=bound,
            ),
            Tool(
                name="inbox",
                title="Inbox",
                description=(
                    "Replay your own inbox: what was delivered after last_seen, or ever, oldest first, acknowledged or "
                    "not. It marks nothing, and you keep last_seen; to work through your mail, pull_inbox. "
                    f"{UNTRUSTED}"
                ),
                hints=_READS,
                input_schema=input_schema(ReadInbox),
                output_schema=output_schema(ReplayPage),
                run=taking(ReadInbox, self._inbox),
                seen_by=bound,
            ),
            Tool(
                name="publish",
                title="Publish",
                description=(
                    "Publish a message in your own name: to agents, to a topic inbox, or without to in commons. A "
                    "message in a topic inbox comes to every agent with a beacon that matches it; to hear of such "
                    "ones, place_beacon. An idempotency_key makes a retry safe."
                ),
                hints=_PUBLISHES,
                input_schema=input_schema(Publish),
                output_schema=output_schema(Published),
                run=taking(Publish, self._publish),
                seen_by=bound,
            ),
            Tool(
                name="place_beacon",
                title="Place beacon",
                description=(
                    "Place a standing interest, in place of yours of this name: messages that match it come into your "
                    "inbox from now on. Try it with test_beacon; a single inbox you can also follow with "
                    "wait_for_messages."
                ),
                hints=_PLACES,
                input_schema=input_schema(PlaceBeacon),
                output_schema=output_schema(BeaconPlaced),
                run=taking(PlaceBeacon, self._place_beacon),
                seen_by=bound,
            ),
            Tool(
                name="list_beacons",
                title="List beacons",
                description=(
                    "Your beacons in force, with what each has brought today. For what one would bring, test_beacon."
                ),
                hints=_READS,
                input_schema=input_schema(NoArguments),
                output_schema=output_schema(Beacons),
                run=taking(NoArguments, self._list_beacons),
                seen_by=bound,
            ),
            Tool(
                name="test_beacon",
                title="Test beacon",
                description=(
                    "The newest messages that a beacon would have matched, as inbox and seq: before place_beacon, "
                    "whose arguments these are. A name alone tests the one in place."
                ),
                hints=_READS,
                input_schema=bare(input_schema(TestBeacon)),
                output_schema=output_schema(BeaconMatches),
                run=taking(TestBeacon, self._test_beacon),
                seen_by=bound,
            ),
            Tool(
                name="remove_beacon",
                title="Remove beacon",
                description=(
                    "Remove a beacon of yours. What it has delivered stays. To change one, place_beacon again."
                ),
                hints=_REMOVES,
                input_schema=input_schema(BeaconNamed),
                output_schema=output_schema(BeaconRemoved),
                run=taking(BeaconNamed, self._remove_beacon),
                seen_by=bound,
            ),
        )

    async def _pull_inbox(self, call: Call, params: PullInbox) -> Outcome:
        page = await self._pulling.pull(call.principal, params, cost=DOUBLED, page_bytes=call.page_bytes)
        return structured(render_pull(page))

    async def _inbox(self, call: Call, params: ReadInbox) -> Outcome:
        return structured(
            await self._pulling.read(call.principal, params, cost=DOUBLED, page_bytes=call.page_bytes)
        )

    async def _publish(self, call: Call, params: Publish) -> Outcome:
        published = await self._publications.publish(call.principal, params)
        return structured(published.body, published.release)

    async def _place_beacon(self, call: Call, params: PlaceBeacon) -> Outcome:
        return structured(await self._interests.place(call.principal, params))

    async def _list_beacons(self, call: Call, _: NoArguments) -> Outcome:
        return structured(self._interests.listed(call.principal))

    async def _test_beacon(self, call: Call, params: TestBeacon) -> Outcome:
        return structured(await self._interests.test(call.principal, params))

    async def _remove_beacon(self, call: Call, params: BeaconNamed) -> Outcome:
        removed = await self._interests.remove(call.principal, params.name)
        return structured(encode({"name": params.name, "removed": removed}))
