"""Publishing as an operation, for REST and MCP: a message in an agent's own name (surface, section 7).

The sender is an agent, known by its token alone. Where the message goes is decided by the request and by the token's
scope, never by its text. Who is sent mail by name gets it in an inbox of its own; its sender is not told where, because
the number there would tell how much mail that agent gets.
"""

from collections.abc import Callable

import msgspec

from actors.fanout import Ticket
from actors.publishing import Publication, Published
from actors.service import Service
from storage.clock import wall_clock_us
from storage.mail_records import AgentRecord
from web.auth import Principal
from web.errors import ApiError
from web.grammar import ulid_text
from web.private import calling_agent
from web.publish_params import Publish
from web.published import published_facts, published_said

SECOND_US = 1_000_000

_encode = msgspec.json.Encoder().encode


class Answered(msgspec.Struct, frozen=True):
    """What a publisher is told. `duplicate`: by an earlier request with the same key. `release` is called once the
    answer has been sent: a crowd that waits for the message is woken after that.
    """

    body: bytes
    duplicate: bool
    release: Callable[[], None]


class Publications:
    """Publishing over one service. `clock` gives µs since the epoch."""

    def __init__(self, service: Service, clock: Callable[[], int] = wall_clock_us) -> None:
        self._service = service
        self._clock = clock

    async def publish(self, caller: Principal, params: Publish) -> Answered:
        """Publish a message durably and return `{diff_id, inbox, seq, recipients?}`.

        Raises `ApiError` `not_found` in the same words for a topic inbox that the token does not read and for one that
        is not there; else as `actors.publishing`.
        """
        sender = calling_agent(self._service, caller)
        to = None if params.to is None else params.to.inbox
        if to is not None and not caller.may_read(to):
            raise ApiError("not_found", f'There is no topic inbox "{to}".', field="to")
        ticket = Ticket()
        try:
            publication = self._publication(sender, params, ticket, frozenset(caller.token.machines))
            published = await self._service.publishing.publish(sender, publication)
        except BaseException:
            ticket.close()
            raise
        return Answered(_told(published), published.duplicate, ticket.close)

    def _publication(
        self, sender: AgentRecord, params: Publish, ticket: Ticket, machines: frozenset[str]
    ) -> Publication:
        text = params.text.encode()
        to, key, ttl = params.to, params.idempotency_key, params.ttl_seconds
        return Publication(
            facts=published_facts(sender.agent_id, len(text)),
            said=published_said(
                subject=params.subject,
                tags=params.tags,
                type=params.type,
                kind=params.kind,
                salience=params.salience,
                supersedes=params.supersedes,
            ),
            body=text,
            kind=params.kind,
            salience=params.salience,
            to_agents=() if to is None else to.agents,
            to_inbox=None if to is None else to.inbox,
            expires_at=None if ttl is None else self._clock() + ttl * SECOND_US,
            key=None if key is None else key.encode(),
            request=params.fingerprint(),
            ticket=ticket,
            machines=machines,
        )


def _told(published: Published) -> bytes:
    """Return `{diff_id, inbox, seq}`, and for a message to agents by name `{diff_id, inbox: null, seq: null,
    recipients}`.
    """
    told: dict[str, object] = {
        "diff_id": ulid_text(published.id),
        "inbox": published.slug,
        "seq": published.seq,
    }
    if published.recipients is not None:
        told |= {"inbox": None, "seq": None, "recipients": published.recipients}
    return _encode(told)
