"""The real actors over a real store, as the web layer uses them, for a machine that is not asynchronous: what it asks
is plain values, and so is what it gets.
"""

import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import trio

from actors.commands import AckedIds, ChangeInbox, Pulled
from actors.mail import PullCall
from actors.mesh import CheckedIn, CheckIn, Letter, MailCall, MailRead, SentLine, SentTo
from actors.options import ActorOptions
from actors.publishing import Publication
from actors.pulling import ROW_BYTES, Replay
from actors.router import Router
from actors.rules.matching.beacons import Spec
from actors.units import Reading, SweepSlice
from actors.watchers import Watcher
from storage.lock import DATABASE_NAME
from storage.mail_records import SELF, AgentRecord, Delivered
from storage.memory import MemoryStore
from storage.options import StorageOptions
from storage.protocols import Log, Snapshot
from storage.records import BodyKind, InboxKind, InboxRecord, InboxSettings, NewInbox, PageQuery, Retention
from storage.sqlite import open_store
from storage.verify import verify_file
from tests.actors.drafts import draft
from tests.actors.post import settled
from tests.actors.routing import until
from tests.actors.world import World, running
from tests.fuzz.loop import LoopThread
from tests.fuzz.mortal import Mortal
from web.auth import Principal
from web.grammar import parse_ulid
from web.http import stays
from web.mesh_messages import mesh_said
from web.options import WebOptions
from web.params import QueryMessages, WaitForMessages
from web.published import published_facts, published_said
from web.reading import Reading as Reads
from web.reading import readable
from web.slots import Slots
from web.waiting import Waiting

MAX_BATCH = 4
BODY_LIMIT = 16_384
ALL_ROWS = 1_000_000
TABLES = (
    "SELECT * FROM message",
    "SELECT * FROM entry",
    "SELECT * FROM reader",
    "SELECT * FROM receipt",
    "SELECT * FROM sent_log",
    "SELECT * FROM inbox_head",
)


def measure(row: Delivered) -> int:
    """Count as the model does."""
    return ROW_BYTES + row.size


@dataclass(frozen=True)
class Told:
    """What a page of messages says."""

    ids: list[bytes]
    seqs: list[int]
    latest: int
    gap: bool
    next_after: int
    epoch: str


class Scene:
    """One server, started and stopped. Tokens, inboxes and agents go by their names."""

    def __init__(self, loop: LoopThread, kind: str, clock: Callable[[], int]) -> None:
        self._loop = loop
        self._kind = kind
        self._clock = clock
        self._directory = Path(tempfile.mkdtemp(prefix="postroom-contracts-"))
        self._memory = MemoryStore(clock=clock)
        self._tokens: dict[str, str] = {}
        self.world: World

    # -- its life -----------------------------------------------------------------------------------------
    def start(self, *, drowsy: bool = False) -> None:
        """`drowsy`: actors end whenever there is nothing to do."""
        if self._kind == "memory":
            self._memory.reopen()
            store: Log = self._memory
            self._close_store: Callable[[], None] = self._memory.close
        else:
            options = StorageOptions(data_dir=self._directory, reserve_bytes=0)
            store, self._close_store = self._loop.open(open_store(options, clock=self._clock))
        self._mortal = Mortal(store)
        idle = {"idle_seconds": 0.0} if drowsy else {}
        opened = running(self._mortal, self._clock, pull_max_batch=MAX_BATCH, **idle)
        self.world, self._close_world = self._loop.open(opened)

    def stop(self) -> None:
        self._close_world()
        self._close_store()

    def crash(self) -> None:
        """Drop all that is not stored."""
        self._mortal.dead = True
        self.stop()

    def findings(self) -> tuple[str, ...]:
        """Return what is wrong with the stopped store by itself."""
        if self._kind == "memory":
            return ()
        return verify_file(self._directory / DATABASE_NAME, lambda step: None).findings

    def remove(self) -> None:
        shutil.rmtree(self._directory)

    def do(self, of: Callable[..., Any], *args: Any, **fields: Any) -> Any:
        """Run one of the methods below."""
        return self._loop.run(partial(of, *args, **fields))

    # -- who and what there is ----------------------------------------------------------------------------
    async def make_inbox(self, slug: str, kind: InboxKind) -> None:
        found = await self.world.service.find(slug)
        if found is not None:
            await self.world.service.delete_inbox(found.inbox_id)
        await self.world.service.create_inbox(NewInbox(slug, kind, "", InboxSettings()))

    async def make_agent(self, name: str, machine: str, tokens: Mapping[str, tuple[str, ...] | None]) -> None:
        """Make an agent, with tokens for these inboxes; one of this name is deleted."""
        if self.world.agents.get(name) is not None:
            await self.world.mail.delete_agent(name)
        await self.world.mail.create_agent(name, InboxSettings(), machine=machine)
        for token, inboxes in tokens.items():
            await self.make_token(token, "agent", agent=name, inboxes=inboxes)

    async def make_token(self, name: str, kind: Any, **fields: Any) -> None:
        token, _ = self.world.tokens.draft(kind, **fields)
        await self.world.tokens.create(token)
        self._tokens[name] = token.token_id

    async def rescope(self, name: str, inboxes: tuple[str, ...] | None) -> None:
        await self.world.tokens.change(
            self._tokens[name], lambda token: msgspec.structs.replace(token, inboxes=inboxes)
        )

    def principal(self, name: str) -> Principal:
        token = self.world.tokens.get(self._tokens[name])
        assert token is not None
        return Principal(token)

    def agent(self, name: str) -> AgentRecord:
        found = self.world.agents.get(name)
        assert found is not None
        return found

    async def _inbox(self, slug: str) -> InboxRecord:
        found = await self.world.service.find(slug)
        assert found is not None
        return found

    # -- what is written ----------------------------------------------------------------------------------
    async def hook(self, slug: str, kind: str, size: int) -> bytes:
        """Have a webhook come; return its id."""
        one = draft(b"x" * size, event_type=kind)
        one = msgspec.structs.replace(one, body_kind=BodyKind.TEXT)
        await self.world.service.append(await self._inbox(slug), one)
        return one.id

    async def publish(self, sender: str, kind: str, size: int, salience: float, **fields: Any) -> bytes:
        publication = Publication(
            facts=published_facts(sender, size),
            said=published_said(subject="", tags=(), type="created", kind=kind, salience=salience),
            body=b"x" * size,
            kind=kind,
            salience=salience,
            **fields,
        )
        return (await self.world.publishing.publish(self.agent(sender), publication)).id

    async def send(self, sender: str | None, size: int, **fields: Any) -> SentTo:
        body = b'"%b"' % (b"x" * (size - 2))
        letter = Letter(
            facts=published_facts(sender, size),
            said=mesh_said("note"),
            body=body,
            msg_type="note",
            require_alive=False,
            request=repr(fields).encode(),
            **{"reachable": None, **fields},
        )
        return await self.world.mesh.send(None if sender is None else self.agent(sender), letter)

    async def place(self, agent: str, name: str, visible: frozenset[str] | None, **wishes: Any) -> None:
        await self.world.beacons.place(self.agent(agent), Spec(name, None, **wishes), visible=visible)

    async def remove_beacon(self, agent: str, name: str) -> bool:
        return await self.world.beacons.remove(self.agent(agent), name)

    async def route(self, *, crash: bool) -> None:
        """Let the router go through all that there is, and stop it."""
        world = self.world
        last = await world.store.read(Reading(lambda snapshot: snapshot.last_mid()))
        router = Router(
            self._mortal, world.registry, world.agents, world.tokens, world.beacons.in_force, ActorOptions()
        )
        async with trio.open_nursery() as nursery:
            await nursery.start(router.run)
            await until(lambda: router.routed_mid >= last)
            self._mortal.dead = crash
            nursery.cancel_scope.cancel()

    async def newest(self, slug: str) -> list[bytes]:
        """Return the id of the newest message of an inbox."""
        query = PageQuery((await self._inbox(slug)).inbox_id, 1)
        return [row.id for row in (await self.world.service.page(query))[0].rows]

    async def routed(self) -> int:
        """Return how far the log is routed, as stored."""
        return await self.world.store.read(Reading(lambda snapshot: snapshot.routed_mid()))

    async def arrive(self, agent: str, visible: frozenset[str] | None) -> CheckedIn:
        return await self.world.mesh.check_in(self.agent(agent), CheckIn(visible=visible))

    async def leave(self, agent: str) -> None:
        await self.world.mesh.check_out(self.agent(agent))

    # -- what is tidied up --------------------------------------------------------------------------------
    async def retain(self, slug: str, most: int | None) -> None:
        settings = InboxSettings(retention=Retention(max_messages=most))
        change = ChangeInbox(lambda inbox: ("", settings))
        await self.world.service.change_inbox((await self._inbox(slug)).inbox_id, change)

    async def purge(self, slug: str) -> None:
        await self.world.service.purge((await self._inbox(slug)).inbox_id)

    async def erase(self, slug: str, seq: int) -> None:
        await self.world.service.erase((await self._inbox(slug)).inbox_id, seq)

    async def sweep(self) -> None:
        while (await self.world.store.commit(SweepSlice(500, 1 << 20, routed_only=True))).more:
            pass

    # -- the three contracts ------------------------------------------------------------------------------
    async def query(
        self,
        token: str,
        slug: str,
        after: int,
        limit: int,
        kinds: Sequence[str],
        epoch: str | None,
        *,
        wait: int | None,
        page_bytes: int | None = None,
    ) -> Told:
        """Read forward, by `query_messages`, or `wait_for_messages` for so many seconds. Raises `ApiError`."""
        service, options = self.world.service, WebOptions()
        caller = self.principal(token)
        inbox = await readable(service, caller, slug)
        asked = {"inbox": slug, "after": after, "limit": limit, "types": tuple(kinds), "epoch": epoch}
        if wait is None:
            query = QueryMessages(**asked)
            body = await Reads(service, options).query(caller, inbox, query, page_bytes=page_bytes)
        else:
            waiting = Waiting(service, options, Slots(9, 9))
            params = WaitForMessages(timeout_seconds=wait, **asked)
            waited = await waiting.wait(caller, inbox, params, stays, page_bytes=page_bytes)
            waited.release()
            body = waited.body
        page = msgspec.json.decode(body)
        ids = [parse_ulid(one["id"]) or b"" for one in page["messages"]]
        seqs = [one["seq"] for one in page["messages"]]
        return Told(ids, seqs, page["latest_seq"], page["gap"], page["next_after"], page["epoch"])

    async def query_back(
        self, token: str, slug: str, before: int | None, limit: int, kinds: Sequence[str]
    ) -> tuple[list[int], int | None]:
        """Read backward; return the seqs, and where to go on from."""
        caller = self.principal(token)
        inbox = await readable(self.world.service, caller, slug)
        query = QueryMessages(inbox=slug, before=before, limit=limit, types=tuple(kinds))
        body = await Reads(self.world.service, WebOptions()).query(caller, inbox, query)
        page = msgspec.json.decode(body)
        return [one["seq"] for one in page["messages"]], page["next_before"]

    async def pull(
        self,
        agent: str,
        visible: frozenset[str] | None,
        budget: int,
        seconds: float | None = None,
        **args: int,
    ) -> Pulled:
        """Pull, or with `seconds` wait for something to pull; what it served is noted when this returns."""
        values: dict[str, Any] = {"since": None, "ack": None, "limit": None, **args}
        call = PullCall(visible=visible, body_limit=BODY_LIMIT, byte_budget=budget, measure=measure, **values)
        mail, who = self.world.service.mail, self.agent(agent)
        if seconds is None:
            pulled = await mail.pull(who, call)
        else:
            watcher = Watcher()
            pulled = await mail.wait(who, call, watcher, seconds)
            watcher.close()
        await settled(self.world, who)
        return pulled

    async def since(self, agent: str, visible: frozenset[str] | None, after_us: int, limit: int) -> Replay:
        return await self.world.service.mail.since(
            self.agent(agent), after_us, limit, visible, BODY_LIMIT, 1 << 20, measure
        )

    async def read(
        self, agent: str, visible: frozenset[str] | None, limit: int, budget: int, *, peek: bool
    ) -> MailRead:
        call = MailCall(peek, limit, visible, BODY_LIMIT, budget, measure)
        return await self.world.mesh.read(self.agent(agent), call)

    async def ack(self, agent: str, ids: Sequence[bytes], visible: frozenset[str] | None) -> AckedIds:
        return await self.world.mesh.ack(self.agent(agent), ids, visible)

    async def sent(self, agent: str, before: bytes | None, limit: int) -> list[SentLine]:
        return await self.world.mesh.sent(self.agent(agent), before, limit)

    async def unread(self, machines: Sequence[str]) -> dict[str, int]:
        lines = await self.world.mesh.roster(machines, include_stale=True)
        return {line.agent.agent_id: line.unread for line in lines}

    # -- what is stored -----------------------------------------------------------------------------------
    async def tables(self) -> Any:
        """Return every row that a read could mark."""
        if self._kind == "memory":
            state = self._memory._state
            inboxes = [(inbox.rows, inbox.readers, inbox.head) for inbox in state.inboxes.values()]
            return repr([state.messages, state.receipts, state.sent_log, inboxes])
        return await self.world.store.read(Reading(_tables))

    async def stored(self, slugs: Sequence[str], agents: Sequence[str], log: Sequence[int]) -> dict[str, Any]:
        """Return heads, rows, readers and receipts, by slug, by agent, and by message."""
        ids = {slug: (await self._inbox(slug)).inbox_id for slug in slugs}
        names = {self.agent(name).inbox_id: name for name in agents}
        return await self.world.store.read(Reading(partial(_stored, ids=ids, agents=names, log=log)))


def _tables(snapshot: Any) -> str:
    return repr([snapshot.sql.rows(table) for table in TABLES])


def _stored(
    snapshot: Snapshot, ids: dict[str, int], agents: dict[int, str], log: Sequence[int]
) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for slug, inbox_id in ids.items():
        head = snapshot.head(inbox_id)
        seqs = snapshot.seqs_after(inbox_id, 0, ALL_ROWS)
        found[slug] = (head.latest_seq, head.first_seq, head.live_rows, seqs)
    for inbox_id, name in agents.items():
        one = snapshot.reader(inbox_id, SELF)
        if one is None:
            found[name] = (0, 0, set(), set())
            continue
        kept = set(snapshot.seqs_after(inbox_id, one.ack_cursor, ALL_ROWS))
        found[name] = (one.ack_cursor, one.served_high, _among(kept, one.acked), _among(kept, one.served))
    for mid in log:
        for one in snapshot.receipts(mid):
            times = (one.stored_at, one.served_at, one.acked_at, one.expired_at)
            if one.inbox_id in agents:  # else it was deleted
                found[f"{mid} at {agents[one.inbox_id]}"] = times
    return found


def _among(seqs: set[int], runs: Sequence[tuple[int, int]]) -> set[int]:
    return {seq for seq in seqs if any(low <= seq <= high for low, high in runs)}
