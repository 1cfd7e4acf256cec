"""What agents on machines do, as operations: what REST and MCP both answer with (surface, section 8).

Whoever calls has authenticated and decoded the parameters. For whom a call is made stands in it, and is checked against
the token first (`web/mesh_access.py`). Such a call of a machine's token is a sign of life of that agent, unless it says
that a program makes it in the background; an agent's own token was heard before (`web/activity.py`), and an admin's
never is, who is somebody else.
"""

from collections.abc import Callable

import msgspec

from actors.fanout import Ticket
from actors.mesh import CheckIn as Introduction
from actors.mesh import Letter, MailCall, WakeWish
from actors.service import Service
from storage.clock import wall_clock_us
from storage.mail_records import AgentRecord
from storage.records import BodyKind
from storage.secret import SecretBytes
from web.auth import Principal
from web.claims import body_kind
from web.errors import ApiError, invalid
from web.grammar import format_time, parse_ulid, ulid_text
from web.mesh_access import Member, acting_for, member_of
from web.mesh_messages import mesh_said
from web.mesh_params import (
    MAX_PAYLOAD_BYTES,
    AckMail,
    CheckIn,
    CheckOut,
    ListRoster,
    ListSent,
    ReadMail,
    SendMail,
    Wake,
)
from web.mesh_views import MailView, roster_line, sent_line
from web.options import WebOptions
from web.places import Places
from web.published import published_facts
from web.publishing import Answered
from web.render import PLAIN, Cost
from web.waking.message import check_secret

_encode = msgspec.json.Encoder().encode


class Meeting:
    """The mesh over one service. `clock` gives µs since the epoch."""

    def __init__(
        self, service: Service, options: WebOptions, clock: Callable[[], int] = wall_clock_us
    ) -> None:
        self._service = service
        self._options = options
        self._clock = clock
        self._places = Places(service)

    # -- being there ---------------------------------------------------------------------------------------
    async def check_in(self, caller: Principal, params: CheckIn, session: str) -> bytes:
        """Introduce an agent, in place of what it said before: `{agent_id, machine, expires_at, unread,
        shared_reader}`. Raises `ApiError`, and as `Mesh.check_in`.
        """
        _, agent = self._named(caller, params.agent_id)
        wake = params.wake
        done = await self._service.mesh.check_in(
            agent,
            Introduction(
                role=params.role,
                repo=params.repo,
                caps=params.caps,
                status=params.status,
                ttl_seconds=params.ttl_seconds,
                wake=None if wake is None else _wish(wake),
                session=session,
                visible=caller.visible,
            ),
        )
        return _encode(
            {
                "agent_id": agent.agent_id,
                "machine": agent.machine,
                "expires_at": format_time(done.expires_at),
                "unread": done.unread,
                "shared_reader": done.shared_reader,
            }
        )

    async def check_out(self, caller: Principal, params: CheckOut) -> bytes:
        """Say farewell for an agent: `{agent_id, state}`; only a check-in brings it back."""
        _, agent = self._named(caller, params.agent_id)
        await self._service.mesh.check_out(agent)
        return _encode({"agent_id": agent.agent_id, "state": "gone"})

    async def roster(self, caller: Principal, params: ListRoster, session: str) -> bytes:
        """Return `{agents}`: who is on the machines that the caller reaches."""
        member = member_of(self._service, caller)
        if params.agent_id is not None:
            self._hear(member, acting_for(self._service, member, params.agent_id), session)
        lines = await self._service.mesh.roster(member.reachable, include_stale=params.include_stale)
        now = self._clock()
        return _encode({"agents": [roster_line(line, now) for line in lines]})

    # -- sending -------------------------------------------------------------------------------------------
    async def send(self, caller: Principal, params: SendMail, session: str) -> Answered:
        """Send a message durably: `{id, delivered_to, skipped}`. Raises `ApiError`, and as `Mesh.send`."""
        member = member_of(self._service, caller)
        sender = self._sender(member, params.from_agent)
        if sender is not None:
            self._hear(member, sender, session)
        payload = params.payload_json()
        if len(payload) > MAX_PAYLOAD_BYTES:
            raise ApiError(
                "payload_too_large", f"A payload has at most {MAX_PAYLOAD_BYTES:,} bytes.", field="payload"
            )
        if payload and body_kind(payload) != BodyKind.JSON:
            raise invalid("payload", "Expected JSON that every reader can read, not too deeply nested.")
        key, ticket = params.idempotency_key, Ticket()
        letter = Letter(
            facts=published_facts(None if sender is None else sender.agent_id, len(payload)),
            said=mesh_said(params.msg_type),
            body=payload,
            msg_type=params.msg_type,
            machine=params.to,
            to_agent=params.to_agent,
            reachable=member.reachable,
            require_alive=params.require_alive,
            key=None if key is None else key.encode(),
            request=b"" if key is None else params.fingerprint(),
            ticket=ticket,
        )
        try:
            sent = await self._service.mesh.send(sender, letter)
        except BaseException:
            ticket.close()
            raise
        told = {"id": ulid_text(sent.id), "delivered_to": sent.delivered_to, "skipped": sent.skipped}
        return Answered(_encode(told), sent.duplicate, ticket.close)

    def _sender(self, member: Member, from_agent: str | None) -> AgentRecord | None:
        """Return the agent that sends, None for the system, in whose name an administrator speaks."""
        if from_agent is not None:
            return acting_for(self._service, member, from_agent, "from_agent")
        if member.agent is None and member.machine is not None:
            raise invalid("from_agent", "A machine's token must say which of its agents this is from.")
        return member.agent

    async def sent(self, caller: Principal, params: ListSent, session: str) -> bytes:
        """Return `{messages}`: what an agent has sent, the newest first, and what became of it."""
        member = member_of(self._service, caller)
        if params.agent_id is not None:
            agent = acting_for(self._service, member, params.agent_id)
        elif member.agent is not None:
            agent = member.agent
        else:
            raise invalid("agent_id", "Whose? This token is not that of one agent.")
        self._hear(member, agent, session)
        before = None if params.before is None else parse_ulid(params.before)
        found = await self._service.mesh.sent(agent, before, params.limit)
        return _encode({"messages": [sent_line(line) for line in found]})

    # -- reading -------------------------------------------------------------------------------------------
    async def read(
        self,
        caller: Principal,
        params: ReadMail,
        session: str,
        *,
        cost: Cost = PLAIN,
        page_bytes: int | None = None,
    ) -> bytes:
        """Return `{messages, unread}`, oldest first, of at most `page_bytes` as sent (None: the server's limit), but of
        at least one message if there is one.
        """
        member, agent = self._named(caller, params.agent_id)
        if not params.background:
            self._hear(member, agent, session)
        if params.wake_token:
            self._service.mesh.spend(agent, params.wake_token)
        limit = self._options.page_bytes if page_bytes is None else page_bytes
        inline_limit = self._options.inline_body_bytes
        mail = MailView(await self._places.of(agent), inline_limit, cost)
        found = await self._service.mesh.read(
            agent,
            MailCall(
                peek=params.peek,
                limit=params.limit,
                visible=caller.visible,
                body_limit=max(inline_limit, MAX_PAYLOAD_BYTES),
                byte_budget=limit - mail.frame_bytes,
                measure=mail.measure,
            ),
        )
        return mail.page(found.rows, found.unread)

    async def ack(self, caller: Principal, params: AckMail, session: str) -> bytes:
        """Acknowledge messages by their ids: `{acked, already_acked, unknown}`, each as it was written."""
        member, agent = self._named(caller, params.agent_id)
        self._hear(member, agent, session)
        texts: dict[bytes, str] = {}
        strange: dict[str, None] = {}
        for text in params.message_ids:
            message_id = parse_ulid(text)
            if message_id is None:
                strange[text] = None
            else:
                texts.setdefault(message_id, text)
        done = await self._service.mesh.ack(agent, tuple(texts), caller.visible)
        return _encode(
            {
                "acked": [texts[message_id] for message_id in done.acked],
                "already_acked": [texts[message_id] for message_id in done.already],
                "unknown": [*(texts[message_id] for message_id in done.unknown), *strange],
            }
        )

    # -- helpers -------------------------------------------------------------------------------------------
    def _named(self, caller: Principal, agent_id: str) -> tuple[Member, AgentRecord]:
        member = member_of(self._service, caller)
        return member, acting_for(self._service, member, agent_id)

    def _hear(self, member: Member, agent: AgentRecord, session: str) -> None:
        if member.agent is None and member.machine is not None:
            self._service.mesh.touch(agent, session)


def _wish(wake: Wake) -> WakeWish:
    """Return where an agent wants to be woken; the URL is looked at by whoever calls it. Raises `Refusal`."""
    if wake.secret is None:
        return WakeWish(wake.url)
    check_secret(wake.secret)
    return WakeWish(wake.url, SecretBytes(wake.secret.encode()))
