"""The tools of agents on machines. Only tokens that are bound to a machine see them, directly or through their agent.

They are the operations of REST, with the result sent twice as large. Reading one's mail marks it and spends a wake, so
it is no read-only tool, and the same call again shows other messages; but nothing is lost by it.
"""

from collections.abc import Callable, Sequence
from functools import partial

from actors.service import Service
from storage.clock import wall_clock_us
from web.errors import invalid
from web.mcp.jsonrpc import kept_payload
from web.mcp.mailbox import UNTRUSTED
from web.mcp.result import DOUBLED, Outcome, structured
from web.mcp.schemas import input_schema, output_schema
from web.mcp.shapes import Acked, CheckedIn, CheckedOut, Mail, Roster, SentMail, SentTo
from web.mcp.tools import Arguments, Call, Hints, Tool, taking
from web.mesh import Meeting
from web.mesh_access import is_member
from web.mesh_params import AckMail, CheckIn, CheckOut, ListRoster, ListSent, ReadMail, SendMail
from web.options import WebOptions

_LOOKS = Hints(read_only_hint=True, destructive_hint=False, idempotent_hint=True, open_world_hint=False)
_TAKES = Hints(read_only_hint=False, destructive_hint=False, idempotent_hint=False, open_world_hint=True)
_MARKS = Hints(read_only_hint=False, destructive_hint=False, idempotent_hint=True, open_world_hint=False)


def _in_background(arguments: Arguments) -> bool:
    return arguments.get("background") is True


def _without_agent(arguments: Arguments) -> bool:
    return arguments.get("agent_id") is None


class MeshTools:
    """The tools over one service."""

    def __init__(
        self, service: Service, options: WebOptions, clock: Callable[[], int] = wall_clock_us
    ) -> None:
        """`clock` gives µs since the epoch."""
        self._meeting = Meeting(service, options, clock)
        self._seen_by = partial(is_member, service)

    def tools(self) -> Sequence[Tool]:
        """Return them in the order in which they are listed."""
        return (
            Tool(
                name="agents_list",
                title="List agents",
                description=(
                    "Who is on your machine, alive, and at what. Ask before agent_send; to say what you are at, "
                    f"agent_checkin. {UNTRUSTED}"
                ),
                hints=_LOOKS,
                input_schema=input_schema(ListRoster),
                output_schema=output_schema(Roster),
                run=taking(ListRoster, self._agents_list),
                seen_by=self._seen_by,
                silent=_without_agent,
            ),
            Tool(
                name="agent_sent",
                title="Sent messages",
                description=(
                    "What you sent, newest first, and when each recipient stored, was served and acknowledged it. Ask "
                    "instead of a second agent_send; answers come in agent_inbox."
                ),
                hints=_LOOKS,
                input_schema=input_schema(ListSent),
                output_schema=output_schema(SentMail),
                run=taking(ListSent, self._agent_sent),
                seen_by=self._seen_by,
            ),
            Tool(
                name="agent_inbox",
                title="Agent inbox",
                description=(
                    "Read your mail, oldest first; each message is served once, unless you peek. Handle it, then "
                    "agent_ack its id. For one you have seen, agent_inbox with peek; to follow another inbox, "
                    f"wait_for_messages. {UNTRUSTED}"
                ),
                hints=_TAKES,
                input_schema=input_schema(ReadMail),
                output_schema=output_schema(Mail),
                run=taking(ReadMail, self._agent_inbox),
                seen_by=self._seen_by,
                silent=_in_background,
            ),
            Tool(
                name="agent_ack",
                title="Acknowledge",
                description=(
                    "Say that messages of agent_inbox are handled: peeking shows them no more, and their senders are "
                    "told so. To answer, agent_send."
                ),
                hints=_MARKS,
                input_schema=input_schema(AckMail),
                output_schema=output_schema(Acked),
                run=taking(AckMail, self._agent_ack),
                seen_by=self._seen_by,
            ),
            Tool(
                name="agent_send",
                title="Send",
                description=(
                    "Send to one agent (to_agent), or to all of a machine, the absent too. Only what they must know or "
                    "do: for your status, agent_checkin."
                ),
                hints=_TAKES,
                input_schema=input_schema(SendMail),
                output_schema=output_schema(SentTo),
                run=self._agent_send,
                seen_by=self._seen_by,
            ),
            Tool(
                name="agent_checkin",
                title="Check in",
                description=(
                    "Introduce yourself when you begin and when your work changes; it replaces what you said before. "
                    "Any call keeps you alive; when you leave, agent_checkout."
                ),
                hints=_MARKS,
                input_schema=input_schema(CheckIn),
                output_schema=output_schema(CheckedIn),
                run=taking(CheckIn, self._agent_checkin),
                seen_by=self._seen_by,
            ),
            Tool(
                name="agent_checkout",
                title="Check out",
                description=(
                    "Say farewell when your work is done: broadcasts pass you over until agent_checkin. For a pause, "
                    "do nothing."
                ),
                hints=_MARKS,
                input_schema=input_schema(CheckOut),
                output_schema=output_schema(CheckedOut),
                run=taking(CheckOut, self._agent_checkout),
                seen_by=self._seen_by,
            ),
        )

    async def _agents_list(self, call: Call, params: ListRoster) -> Outcome:
        return structured(await self._meeting.roster(call.principal, params, call.session))

    async def _agent_sent(self, call: Call, params: ListSent) -> Outcome:
        return structured(await self._meeting.sent(call.principal, params, call.session))

    async def _agent_inbox(self, call: Call, params: ReadMail) -> Outcome:
        mail = await self._meeting.read(
            call.principal, params, call.session, cost=DOUBLED, page_bytes=call.page_bytes
        )
        return structured(mail)

    async def _agent_ack(self, call: Call, params: AckMail) -> Outcome:
        return structured(await self._meeting.ack(call.principal, params, call.session))

    async def _agent_send(self, call: Call, arguments: Arguments) -> Outcome:
        if "payload" in arguments:  # a null that was given is one
            try:
                arguments = {**arguments, "payload": kept_payload(call.body)}
            except RecursionError:
                raise invalid("payload", "This is nested too deeply.") from None
        return await taking(SendMail, self._send)(call, arguments)

    async def _send(self, call: Call, params: SendMail) -> Outcome:
        sent = await self._meeting.send(call.principal, params, call.session)
        return structured(sent.body, sent.release)

    async def _agent_checkin(self, call: Call, params: CheckIn) -> Outcome:
        return structured(await self._meeting.check_in(call.principal, params, call.session))

    async def _agent_checkout(self, call: Call, params: CheckOut) -> Outcome:
        return structured(await self._meeting.check_out(call.principal, params))
