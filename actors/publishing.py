"""Publishing: where an agent's message is at home, and who is still to get it.

A message to agents is at home in the first one's private inbox, and has a receipt for each of the others, by which the
router delivers it to them; it is matched against nobody's beacons. Any other is at home in a topic inbox, for whoever
reads that, and for those whose beacons match. Sending is one append: nobody waits for the router.
"""

import difflib
import os
import time
from collections.abc import Sequence
from hashlib import blake2b

import msgspec

from actors.agents import AgentBook, private_slug
from actors.commands import Append, Appended, Draft, Once, Refusal
from actors.directory import Directory
from actors.fanout import Ticket
from actors.options import ActorOptions
from actors.registry import Registry
from actors.rules.delivery import direct
from actors.rules.matching.scoring import WEBHOOK_SALIENCE
from actors.rules.scope import COMMONS
from storage.errors import InboxGone
from storage.mail_records import AgentRecord
from storage.records import INLINE_BODY_BYTES, BodyKind, Verdict

NEAR_NAMES = 3
"""Agents that are named to somebody who has misspelt one."""

REQUEST_BYTES = 16
"""Of a hash that tells one request from another of the same sender with the same key."""

COMPARED_NAMES = 1_000
"""Names that a wrong one is compared with at most: about 20 ms."""


class Publication(msgspec.Struct, frozen=True, kw_only=True):
    """What an agent publishes, as it is stored: `facts` and `said` are JSON objects, `body` is its text.

    At most one of `to_agents` and `to_inbox` is given; without them it goes to `commons`. `expires_at` in µs since the
    epoch. `key` is the sender's own name for this request, `request` a hash of all that it asks for: the same two again
    publish nothing. `ticket`: as in `actors.commands.Append`. `machines`: beside its sender's own one, those whose
    agents it may be sent to by name; an agent that is on none can be written to by all.
    """

    facts: bytes
    said: bytes
    body: bytes
    kind: str
    salience: float = WEBHOOK_SALIENCE
    to_agents: tuple[str, ...] = ()
    to_inbox: str | None = None
    expires_at: int | None = None
    key: bytes | None = None
    request: bytes = b""
    ticket: Ticket | None = None
    machines: frozenset[str] = frozenset()


class Published(msgspec.Struct, frozen=True):
    """Where a message is at home, and the named agents who get it (None: it went to a topic inbox).

    `slug` and `seq` of a message to agents are those of the first one's private inbox, which are not for its sender:
    they tell how much mail that agent gets.
    """

    id: bytes
    slug: str
    seq: int
    recipients: tuple[str, ...] | None
    duplicate: bool


class _Home(msgspec.Struct, frozen=True):
    """Where a message goes. `others`: inboxes that it is to be delivered to beside it."""

    inbox_id: int
    slug: str
    recipients: tuple[str, ...] | None = None
    others: tuple[int, ...] = ()


class Publishing:
    """Publishes for agents."""

    def __init__(
        self, registry: Registry, directory: Directory, agents: AgentBook, options: ActorOptions
    ) -> None:
        self._registry = registry
        self._directory = directory
        self._agents = agents
        self._options = options

    async def publish(self, sender: AgentRecord, publication: Publication) -> Published:
        """Publish a message of `sender`, who may write to `to_inbox`: the caller has seen to that.

        Raises `Refusal`: `not_found` for an agent or a topic inbox that is not there, `invalid_argument` for an inbox
        that is no topic or too many agents, `conflict` when the key was used for another request,
        `payload_too_large`, `insufficient_storage`. Raises as `Registry.ask`.
        """
        if len(publication.body) > INLINE_BODY_BYTES:
            raise Refusal("payload_too_large", f"A text has at most {INLINE_BODY_BYTES:,} bytes.", "text")
        if publication.to_agents:
            home = self._to_agents(sender, publication.to_agents, publication.machines)
        else:
            home = await self._to_topic(publication.to_inbox)
        try:
            appended: Appended = await self._registry.ask(home.inbox_id, _append(sender, publication, home))
        except InboxGone:
            raise Refusal("not_found", "Whom or what this was sent to was deleted.", "to") from None
        return Published(appended.id, home.slug, appended.seq, home.recipients, appended.duplicate)

    def _to_agents(self, sender: AgentRecord, names: Sequence[str], machines: frozenset[str]) -> _Home:
        """Find the agents named, each once. Raises `Refusal` for the first that is not there."""
        wanted = tuple(dict.fromkeys(names))
        if len(wanted) > self._options.route_recipients:
            most = self._options.route_recipients
            raise Refusal("invalid_argument", f"At most {most:,} agents.", "to")
        found = []
        for name in wanted:
            agent = self._agents.get(name)
            if agent is None or not (agent.machine in (None, sender.machine) or agent.machine in machines):
                raise Refusal("not_found", self._unknown(sender, name), "to")
            found.append(agent)
        first, *others = found
        slug = private_slug(first.agent_id)
        return _Home(first.inbox_id, slug, wanted, tuple(agent.inbox_id for agent in others))

    async def _to_topic(self, slug: str | None) -> _Home:
        named = COMMONS if slug is None else slug
        inbox = await self._directory.find(named)
        if inbox is None or inbox.kind in ("agent", "machine"):
            raise Refusal("not_found", f'There is no topic inbox "{named}".', "to")
        if inbox.kind != "topic":
            raise Refusal(
                "invalid_argument", f'"{named}" is no topic inbox: only webhooks write to it.', "to"
            )
        return _Home(inbox.inbox_id, inbox.slug)

    def _unknown(self, sender: AgentRecord, name: str) -> str:
        """Say that there is no such agent, and which there are of a like name on the sender's own machine: whoever is
        told of more can learn everybody's name by guessing.
        """
        known = [] if sender.machine is None else [one.agent_id for one in self._agents.on(sender.machine)]
        if len(known) > COMPARED_NAMES:
            known = [other for other in known if other[0] == name[0]][:COMPARED_NAMES]
        near = difflib.get_close_matches(name, known, n=NEAR_NAMES)
        meant = f" Did you mean {' or '.join(near)}?" if near else ""
        return f'There is no agent "{name}".{meant}'


def _append(sender: AgentRecord, publication: Publication, home: _Home) -> Append:
    body = publication.body
    draft = Draft(
        id=new_id(),
        size=len(body),
        facts=publication.facts,
        said=publication.said,
        body_kind=BodyKind.TEXT if body else BodyKind.EMPTY,
        body=body or None,
        body_id=None,
        event_type=publication.kind,
        verified=Verdict.NONE,
        delivery=None if home.recipients is None else direct(publication.salience),
        expires_at=publication.expires_at,
        recipients=home.others,
    )
    key = publication.key
    once = None if key is None else Once(sender.inbox_id, key, _request(publication, home))
    return Append(draft, ticket=publication.ticket, once=once)


def _request(publication: Publication, home: _Home) -> bytes:
    """Return a hash of all that is asked for: names mean those who bear them now, not a later life of theirs."""
    to = ",".join(map(str, (home.inbox_id, *home.others)))
    return blake2b(publication.request + to.encode(), digest_size=REQUEST_BYTES).digest()


def new_id() -> bytes:
    """Return a ULID: 48 bits of milliseconds, 80 random bits."""
    return (time.time_ns() // 1_000_000).to_bytes(6, "big") + os.urandom(10)
