"""Draining through the real actor, against the rules in plain Python: appends, pulls with any arguments, alone and two
at once, acknowledgements by cursor and by id, scopes that change, inboxes that go, rows that expire, retention, and
restarts, mixed at random, over both stores.

Every answer is compared, and after every step the stored reader. At the end an honest client drains what is left.
"""

import itertools
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import trio
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from actors.commands import AckEach, ChangeInbox, Deliver, Erase, Pulled, Purge, Refusal
from actors.pulling import ROW_BYTES
from actors.units import Reading
from storage.mail_records import AgentRecord, Delivered
from storage.memory import MemoryStore
from storage.options import StorageOptions
from storage.protocols import Log
from storage.records import InboxRecord, InboxSettings, Retention
from storage.sqlite import open_store
from tests.actors.drafts import draft
from tests.actors.post import call, delivered, publish, reader, record, seqs
from tests.actors.world import World, running
from tests.contract.builders import START_US
from tests.fuzz.drain_model import Answer, DrainModel, ModelRow
from tests.fuzz.loop import LoopThread

MAX_BATCH = 4
ORIGINS = ("one", "two")
SCOPES = (None, frozenset({"one"}), frozenset({"two"}), frozenset({"one", "two"}), frozenset[str]())
STEP_US = 1_000_000
BUDGETS = (1_048_576, 3_000, 1)

SEQ = st.integers(0, 30) | st.sampled_from([2**63 - 1])
CALLS = st.fixed_dictionaries(
    {},
    optional={"since": SEQ, "ack": SEQ, "limit": st.integers(1, 6) | st.just(2**63 - 1)},
)
ROWS = st.lists(
    st.tuples(
        st.sampled_from([0.1, 0.5, 0.9]),
        st.sampled_from([None, *ORIGINS]),
        st.none() | st.integers(1, 5),
        st.sampled_from([2, 700, 2_000]),
    ),
    min_size=1,
    max_size=6,
)


def measure(row: Delivered) -> int:
    """Count as the model does."""
    return ROW_BYTES + row.size


class DrainMachine(RuleBasedStateMachine):
    """The actors and the model side by side. `loop` and `kind` (of the store) are set by the test."""

    loop: LoopThread
    kind: str

    def __init__(self) -> None:
        super().__init__()
        self.now = START_US
        self.visible: frozenset[str] | None = None
        self.directory = Path(tempfile.mkdtemp(prefix="postroom-drain-"))
        self.memory = MemoryStore(clock=self._clock)
        self.origins: dict[str, int] = {}
        self.agent: AgentRecord
        self.most: int | None = None
        self.last_seen = 0
        self.replayed: list[int] = []
        self.model = DrainModel(MAX_BATCH, ROW_BYTES)
        self._start()

    def teardown(self) -> None:
        self.drain_honestly()
        self._close()
        shutil.rmtree(self.directory)

    def _clock(self) -> int:
        return self.now

    def _start(self) -> None:
        if self.kind == "memory":
            self.memory.reopen()
            store: Log = self.memory
            self._close_store: Callable[[], None] = self.memory.close
        else:
            options = StorageOptions(data_dir=self.directory)
            store, self._close_store = self.loop.open(open_store(options, clock=self._clock))
        self.world: World
        self.world, self._close_world = self.loop.open(running(store, self._clock, pull_max_batch=MAX_BATCH))

    def _close(self) -> None:
        self._close_world()
        self._close_store()

    def _ask(self, inbox_id: int, command: Any) -> Any:
        return self.loop.run(self.world.registry.ask, inbox_id, command)

    # -- what happens to the inbox --------------------------------------------------------------------------
    @initialize()
    def make(self) -> None:
        for slug in ORIGINS:
            self.origins[slug] = self.loop.run(self.world.inbox, slug)
        self.agent = self.loop.run(self.world.agent)

    @rule(rows=ROWS)
    def append(self, rows: list[tuple[float, str | None, int | None, int]]) -> None:
        """Messages from other inboxes, delivered by one command, and the agent's own mail between them."""
        for own, group in itertools.groupby(rows, key=lambda row: row[1] is None):
            self.loop.run(self._send, own, list(group))
        self._let_go()

    async def _send(self, own: bool, rows: list[tuple[float, str | None, int | None, int]]) -> None:
        drafts = []
        for score, origin, lives, size in rows:
            expires_at = None if lives is None else self.now + lives * STEP_US
            message = draft(b"x" * size)
            if origin is None:
                message = msgspec.structs.replace(message, delivery=record(score), expires_at=expires_at)
                await publish(self.world, self.agent.inbox_id, message)
                self._added(score, None, expires_at, size)
            elif origin in self.origins:
                home = self.origins[origin]
                mid = await publish(self.world, home, message)
                drafts.append(delivered(mid, home, score=score, expires_at=expires_at, size=size))
                self._added(score, origin, expires_at, size)
        if not own:
            for _ in range(2):  # the second time is a repeat after a crash
                outcome = await self.world.registry.ask(self.agent.inbox_id, Deliver(tuple(drafts)))
                drafts_done = [seq for seq in outcome if seq is not None]
                assert not drafts_done or drafts_done[-1] == self.model.latest
            assert not drafts_done

    def _added(self, score: float, origin: str | None, expires_at: int | None, size: int) -> None:
        newest = self.model.rows.get(self.model.latest)
        last = self._last_at if newest is None else newest.delivered_at
        self._last_at = max(self.now, last + 1)
        self.model.add(ModelRow(score, origin, expires_at, self._last_at, size))

    _last_at = 0

    @rule(most=st.none() | st.integers(1, 12))
    def set_retention(self, most: int | None) -> None:
        self.most = most

        def change(inbox: InboxRecord) -> tuple[str, InboxSettings]:
            return "", InboxSettings(retention=Retention(max_messages=most))

        self._ask(self.agent.inbox_id, ChangeInbox(change))
        self._let_go()

    def _let_go(self) -> None:
        if self.most is not None:
            self.model.drop_to(self.most)

    @rule()
    def purge(self) -> None:
        self._ask(self.agent.inbox_id, Purge())
        self.model.rows.clear()

    @rule(seq=st.integers(1, 30))
    def erase(self, seq: int) -> None:
        if seq in self.model.rows:
            self._ask(self.agent.inbox_id, Erase(seq))
            del self.model.rows[seq]
        else:
            with pytest.raises(Refusal):
                self._ask(self.agent.inbox_id, Erase(seq))

    @precondition(lambda self: self.origins)
    @rule(data=st.data())
    def delete_an_origin(self, data: st.DataObject) -> None:
        slug = data.draw(st.sampled_from(sorted(self.origins)))
        self.loop.run(self.world.service.delete_inbox, self.origins.pop(slug))
        self.model.gone_origins.add(slug)

    @rule(scope=st.sampled_from(SCOPES))
    def change_the_scope(self, scope: frozenset[str] | None) -> None:
        self.visible = scope

    @rule(steps=st.integers(1, 3))
    def let_time_pass(self, steps: int) -> None:
        self.now += steps * STEP_US

    @rule()
    def restart(self) -> None:
        self._close()
        self._start()
        found = self.world.agents.get("a")
        assert found == self.agent

    # -- what its readers do ----------------------------------------------------------------------------------
    @rule(args=CALLS, budget=st.sampled_from(BUDGETS))
    def pull(self, args: dict[str, int], budget: int) -> None:
        answer = answered(self.loop.run(self._pull, args, budget))
        assert answer == self.model.pull(self.visible, self.now, budget, **args)

    async def _pull(self, args: dict[str, int], budget: int = BUDGETS[0]) -> Pulled:
        how = call(**args, visible=self.visible, byte_budget=budget, measure=measure)
        return await self.world.mail.pull(self.agent, how)

    @rule(one=CALLS, two=CALLS)
    def pull_twice_at_once(self, one: dict[str, int], two: dict[str, int]) -> None:
        """Two sessions share one cursor: what they are told is what some order of their steps explains."""
        answers: dict[int, Answer] = {}

        async def session(place: int, args: dict[str, int]) -> None:
            answers[place] = answered(await self._pull(args))

        async def both() -> Any:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(session, 0, one)
                nursery.start_soon(session, 1, two)
            return await reader(self.world, self.agent)

        stored = self.loop.run(both)
        explained = []
        for order in orders(self.model, (one, two), self.visible, self.now):
            model, told = order
            if told == answers and (stored.ack_cursor, stored.served_high) == (
                model.cursor,
                model.served_high,
            ):
                explained.append(model)
        assert explained, f"no order of {one} and {two} explains {answers} and {stored}"
        self.model = explained[0]
        self.model.looked_at.update(*(model.looked_at for model in explained))

    @rule(seqs=st.lists(st.integers(0, 30), max_size=5))
    def ack_each(self, seqs: list[int]) -> None:
        outcome = self._ask(self.agent.inbox_id, AckEach(tuple(seqs)))
        told = (set(outcome.acked), set(outcome.already), set(outcome.unknown))
        assert told == self.model.ack_each(dict.fromkeys(seqs))
        assert outcome.cursor == self.model.cursor

    @rule(limit=st.integers(1, 5), back=st.integers(0, 3))
    def replay(self, limit: int, back: int) -> None:
        after_us = self.last_seen - back
        found = self.loop.run(
            self.world.mail.since, self.agent, after_us, limit, self.visible, 16_384, BUDGETS[0], measure
        )
        expected, more = self.model.after_moment(self.visible, self.now, after_us, limit)
        assert ([row.seq for row in found.rows], found.truncated) == (expected, more)
        self.last_seen = max(self.last_seen, found.last_us)

    @rule()
    def drain_honestly(self) -> None:
        """A client that sends `window_high` back is served everything that it may see and has not acknowledged."""
        wanted = {
            seq
            for seq in self.model.above(self.model.cursor)
            if seq not in self.model.acked and self.model.seen(seq, self.visible, self.now)
        }
        served: list[int] = []
        args: dict[str, int] = {}
        for _ in range(len(self.model.rows) + 2):
            pulled = self.loop.run(self._pull, args)
            assert answered(pulled) == self.model.pull(self.visible, self.now, BUDGETS[0], **args)
            served += seqs(pulled)
            args = {"ack": pulled.window_high}
            if not pulled.has_more and pulled.cursor == pulled.window_high:
                break
        assert sorted(served) == sorted(wanted), "each once"
        assert self.model.above(self.model.cursor) == []

    @invariant()
    def the_stored_reader_is_the_models(self) -> None:
        if not self.origins and not self.model.gone_origins:
            return  # not made yet
        stored = self.loop.run(reader, self.world, self.agent)
        assert (stored.ack_cursor, stored.served_high) == (self.model.cursor, self.model.served_high)
        acked = {seq for low, high in stored.acked for seq in range(low, high + 1)}
        assert acked & set(self.model.rows) == {
            seq for seq in self.model.acked if seq in self.model.rows and seq > self.model.cursor
        }
        head = self.loop.run(
            self.world.service.log.read, Reading(lambda snapshot: snapshot.head(self.agent.inbox_id))
        )
        assert (head.latest_seq, head.live_rows) == (self.model.latest, len(self.model.rows))


def answered(pulled: Pulled) -> Answer:
    return Answer(seqs(pulled), pulled.cursor, pulled.window_high, pulled.has_more)


def orders(
    model: DrainModel, calls: tuple[dict[str, int], dict[str, int]], visible: frozenset[str] | None, now: int
) -> Iterator[tuple[DrainModel, dict[int, Answer]]]:
    """Yield what becomes of two pulls in every order of their steps: one that acknowledges is one step, one that does
    not is two, a look and the note of what it served.
    """
    steps = [(place, step) for place, args in enumerate(calls) for step in range(1 if "ack" in args else 2)]
    for order in set(itertools.permutations(steps)):
        if any(order.index((place, 0)) > order.index((place, 1)) for place, step in order if step):
            continue
        after, told, notes = model.copy(), {}, {}
        for place, step in order:
            args = calls[place]
            if step:
                floor, high, window = notes[place]
                after.served(floor, high, window)
                continue
            looks = "ack" not in args
            told[place] = after.pull(visible, now, BUDGETS[0], **args, note=not looks)
            if looks:
                floor = args.get("since", after.cursor)
                high = told[place].window_high
                notes[place] = (floor, high, [seq for seq in after.above(floor) if seq <= high])
        yield after, told


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
def test_whatever_two_sessions_do_the_answers_are_those_of_the_rules(
    kind: str, loop: LoopThread, machine_runs: int
) -> None:
    class Machine(DrainMachine):
        pass

    Machine.loop, Machine.kind = loop, kind
    run_state_machine_as_test(
        Machine,
        settings=settings(
            max_examples=machine_runs if kind == "memory" else machine_runs // 4,
            stateful_step_count=40,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
