"""The beacon book: what agents do with their beacons. They place and remove them, and ask what one would have heard."""

from collections.abc import Callable

import msgspec

from actors.agents import AgentBook
from actors.backfill import Backfill, Past
from actors.beacon_units import BeaconPlaced, PlaceBeacon
from actors.commands import Refusal
from actors.in_force import InForce, spec_of
from actors.lookback import LookBack
from actors.options import ActorOptions
from actors.registry import Registry
from actors.rules.allowance import DAY_US
from actors.rules.letters import Letter, kind_of
from actors.rules.matching.beacons import Beacon, Spec, Unplaceable, beacon_of, objection, words_of
from actors.rules.matching.common import NO_SAMPLE, Sample
from actors.rules.matching.judging import Judge
from actors.rules.matching.weights import shown_weight
from actors.rules.reach import Reach, leaves_out
from actors.rules.scope import Scope, scope_of, seen_by
from actors.tokens import TokenBook
from actors.units import Reading
from storage.errors import InboxGone
from storage.mail_records import AgentRecord, BeaconRecord, Routable
from storage.protocols import Log, Snapshot
from storage.records import InboxListing

SECOND_US = 1_000_000

SAMPLE_MESSAGES = 500
"""Newest messages that a new beacon's words are compared with: enough to see what is in a fifth of them."""

TEST_MATCHES = 100
"""Matches that a test names, the newest."""


class Term(msgspec.Struct, frozen=True):
    """A word of a beacon, and what it is worth beside the others: 1, or less for one that most messages have."""

    term: str
    idf: float


class Placed(msgspec.Struct, frozen=True):
    """What became of placing a beacon. `would_have_matched_7d` counts messages of the last seven days that the caller
    may read, as far as one look back goes (`actors.lookback`); `backfilled` are delivered just now.
    """

    name: str
    terms: tuple[Term, ...]
    would_have_matched_7d: int
    backfilled: int


class Shown(msgspec.Struct, frozen=True):
    """A beacon in force as its agent asked for it, what it has brought today and what its daily limit kept back."""

    spec: Spec
    terms: tuple[Term, ...]
    placed_at: int
    expires_at: int | None
    delivered_today: int
    overflow_today: int


class PastMatch(msgspec.Struct, frozen=True):
    """A message that a beacon would have heard of."""

    inbox: str
    seq: int
    score: float
    matched_terms: tuple[str, ...]


class _Found(msgspec.Struct, frozen=True):
    """What a beacon would have heard, newest first, and the terms of the newest messages that were looked at."""

    matches: list[Past]
    sample: list[frozenset[str]]


class BeaconBook:
    """Beacons, for callers that know nothing of actors or storage. `in_force` has them all."""

    def __init__(
        self,
        store: Log,
        registry: Registry,
        agents: AgentBook,
        tokens: TokenBook,
        options: ActorOptions,
        clock: Callable[[], int],
        look_back: LookBack | None = None,
    ) -> None:
        """`clock` gives µs since the epoch."""
        self._store = store
        self._tokens = tokens
        self._options = options
        self._clock = clock
        self._look_back = look_back or LookBack(store, clock)
        self.in_force = InForce(store, agents, options, clock)
        self._backfill = Backfill(registry, self.in_force, clock)

    async def place(
        self,
        agent: AgentRecord,
        spec: Spec,
        *,
        visible: frozenset[str] | None,
        ttl_seconds: int | None = None,
        backfill: int = 0,
    ) -> Placed:
        """Place a beacon, in place of the agent's own one of that name, and deliver the newest `backfill` messages that
        it would have heard.

        `visible`: the slugs that the caller may read, None for every webhook and topic inbox; nothing else is counted.
        Which words are common is said by what the caller may read, too, without what the agent sent itself; and nothing
        that others send keeps an agent from placing a beacon again that is about the same.

        Raises `Refusal`: `invalid_argument` for a beacon without meaning, or one of common words only; `conflict` when
        the agent has as many as it may have; `not_found` when it was deleted meanwhile. Raises as `Log.commit`, and as
        `Registry.ask` for the backfill: the beacon is in force then, and placing it again does the rest.
        """
        beacon = self._understood(agent, spec)
        newest = await self._look_back.newest()
        found = await self._before(beacon, newest, 0, seen_by(visible))
        sample = NO_SAMPLE if self._is_about(agent, spec) else Sample.of(found.sample)
        reason = objection(beacon, sample)
        if reason is not None and not await self._narrows(beacon, self._routable(agent)):
            raise Refusal("invalid_argument", _sentence(reason), "about")
        placed = await self._place(agent, spec, ttl_seconds)
        backfilled = 0
        if backfill:
            routable = self._routable(agent)
            later = await self._before(beacon, placed.last_mid, newest, routable)
            earlier = found
            if seen_by(visible) != routable:
                earlier = await self._before(beacon, newest, 0, routable)
            matches = [*later.matches, *earlier.matches][:backfill]
            backfilled = await self._backfill.bring(agent, spec.name, matches)
        return Placed(spec.name, self._terms(beacon), len(found.matches), backfilled)

    async def remove(self, agent: AgentRecord, name: str) -> bool:
        """Remove a beacon; False when there is none of that name. What it has brought stays. Raises as `Log.commit`."""
        return await self.in_force.remove(agent, name)

    async def test(
        self, agent: AgentRecord, spec: Spec, *, visible: frozenset[str] | None, limit: int = TEST_MATCHES
    ) -> tuple[PastMatch, ...]:
        """Return the newest messages that such a beacon would have heard of, of those that the caller may read.

        Raises `Refusal("invalid_argument")` as `place`, and as `Log.read`.
        """
        beacon = self._understood(agent, spec)
        found = await self._before(beacon, await self._look_back.newest(), 0, seen_by(visible))
        return tuple(
            PastMatch(letter.row.slug, letter.row.seq, match.score, match.matched_terms)
            for letter, match in found.matches[:limit]
        )

    def find(self, agent: AgentRecord, name: str) -> Shown | None:
        """Return one beacon of an agent that is in force; one that this version cannot read is none."""
        record = self.in_force.get((agent.agent_id, name))
        try:
            return None if record is None else self._shown(record)
        except msgspec.DecodeError:
            return None

    def list(self, agent: AgentRecord) -> tuple[Shown, ...]:
        """Return the beacons of an agent that are in force, by name."""
        found = (self.find(agent, name) for name in self.in_force.names(agent.agent_id))
        return tuple(shown for shown in found if shown is not None)

    async def _place(self, agent: AgentRecord, spec: Spec, ttl_seconds: int | None) -> BeaconPlaced:
        most = self._options.beacons_per_agent
        ttl_us = None if ttl_seconds is None else ttl_seconds * SECOND_US
        unit = PlaceBeacon(agent, spec.name, msgspec.json.encode(spec), ttl_us, most)
        try:
            placed = await self.in_force.place(agent, unit)
        except InboxGone:
            raise Refusal("not_found", "There is no such agent.", "agent_id") from None
        if placed is None:
            raise Refusal("conflict", f"An agent may have {most:,} beacons; remove one first.", "name")
        return placed

    # -- looking back ----------------------------------------------------------------------------------------------
    def _understood(self, agent: AgentRecord, spec: Spec) -> Beacon:
        try:
            return beacon_of(agent.agent_id, spec, max_terms=self._options.beacon_terms)
        except Unplaceable as error:
            raise Refusal("invalid_argument", _sentence(error.reason), error.field) from None

    async def _before(self, beacon: Beacon, newest: int, after: int, scope: Scope) -> _Found:
        """Return what a beacon would have heard within a scope, from `newest` down to behind `after`, without what has
        expired and what its agent sent itself.
        """
        judge = Judge(beacon)
        found = _Found([], [])
        now = self._clock()

        def wanted(row: Routable) -> bool:
            expired = row.expires_at is not None and row.expires_at <= now
            return not expired and scope.covers(row.slug, row.kind) and _may_hear(beacon, row)

        def visit(letter: Letter) -> None:
            if letter.sender == beacon.agent_id:
                return
            match = judge.hears(letter.input)
            if match is not None:
                found.matches.append((letter, match))
            if len(found.sample) < SAMPLE_MESSAGES:
                found.sample.append(letter.input.terms)

        await self._look_back.walk(newest, after, wanted, visit)
        return found

    def _is_about(self, agent: AgentRecord, spec: Spec) -> bool:
        """Whether the agent's beacon of that name, as it is in force, is about the same."""
        shown = self.find(agent, spec.name)
        return shown is not None and shown.spec.about == spec.about

    def _routable(self, agent: AgentRecord) -> Scope:
        return scope_of(self._tokens.bound_to(agent.agent_id))

    async def _narrows(self, beacon: Beacon, scope: Scope) -> bool:
        """Whether the filters of a beacon leave something out of a scope."""
        if not beacon.names_something:
            return False

        def look(snapshot: Snapshot) -> list[InboxListing]:
            found = snapshot.inboxes(sorted(scope.slugs), "", len(scope.slugs))
            if scope.everything:
                found += snapshot.inboxes(None, "", len(beacon.inboxes) + 1)
            return found

        records = [listing.record for listing in await self._store.read(Reading(look))]
        inboxes = {record.slug: record.kind for record in records if scope.covers(record.slug, record.kind)}
        return leaves_out(beacon, Reach(inboxes, scope.everything))

    # -- showing -------------------------------------------------------------------------------------------------
    def _terms(self, beacon: Beacon | None) -> tuple[Term, ...]:
        if beacon is None:
            return ()
        return tuple(Term(word.shown, shown_weight(word.term)) for word in words_of(beacon))

    def _shown(self, record: BeaconRecord) -> Shown:
        beacon = self.in_force.index.get((record.agent_id, record.name))
        count = self.in_force.count((record.agent_id, record.name)).on(self._clock() // DAY_US)
        return Shown(
            spec=spec_of(record),
            terms=self._terms(beacon),
            placed_at=record.placed_at,
            expires_at=record.expires_at,
            delivered_today=count.delivered,
            overflow_today=count.overflow,
        )


def _may_hear(beacon: Beacon, row: Routable) -> bool:
    """Whether what a beacon names lets a message pass, as far as its place in the log says."""
    return (
        (not beacon.inboxes or row.slug in beacon.inboxes)
        and (not beacon.types or row.event_type in beacon.types)
        and (not beacon.kinds or kind_of(row) in beacon.kinds)
    )


def _sentence(reason: str) -> str:
    """Return a reason as the wire's messages are written."""
    return f"{reason[:1].upper()}{reason[1:]}."
