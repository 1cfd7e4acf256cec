"""All three contracts on one inbox at once: agents on machines are sent mail by each other, by webhooks and by beacons,
and several readers of each page through it, pull it, read it plainly, peek and acknowledge, at random, while
administrators erase, scopes change, mail expires and is let go of, and the server restarts, over both stores.

Every answer and, after every step, all that is stored is that of the rules in plain Python; what readers were told is
held against the promises of each contract.
"""

from functools import partial
from typing import Any

import msgspec
import pytest
import trio
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    invariant,
    rule,
    run_state_machine_as_test,
)

from tests.fuzz.contracts_model import Box
from tests.fuzz.contracts_pagers import Pagers, limits, pullers
from tests.fuzz.contracts_scene import MAX_BATCH
from tests.fuzz.contracts_writers import AGENTS, INBOXES, MACHINES, READERS, agents, places
from tests.fuzz.loop import LoopThread

WAIT_SECONDS = 10
BUDGETS = (1_048_576, 3_000, 1)
STRANGE = b"\0" * 16

readers, budgets = st.sampled_from(READERS), st.sampled_from(BUDGETS)
seqs = places | st.sampled_from([2**63 - 1])
calls = st.fixed_dictionaries({}, optional={"since": seqs, "ack": seqs, "limit": limits})


class ContractsMachine(Pagers):
    """The server and the model side by side, with readers of all three contracts."""

    def teardown(self) -> None:
        try:
            for name in AGENTS:
                self.read_all_plainly((name, name))
                self.drain_honestly(name)
        finally:
            super().teardown()

    # -- readers with a cursor of the server's ------------------------------------------------------------
    @rule(reader=pullers, args=calls, budget=budgets, wait=st.booleans())
    def pull(self, reader: tuple[str, str], args: dict[str, int], budget: int, wait: bool) -> None:
        token, agent = reader
        visible, box = self.visible(token), self.house.of(agent)
        pulled = self.scene.do(self.scene.pull, agent, visible, budget, 0.0 if wait else None, **args)
        told = box.pull(visible, self.house.now, budget, **args)
        assert [row.seq for row in pulled.rows] == list(told.items)
        assert (pulled.cursor, pulled.window_high, pulled.has_more) == (
            told.cursor,
            told.window_high,
            told.has_more,
        )
        self._same_mail(box, pulled.rows)
        ids = [row.id for row in pulled.rows]
        self.ledgers[agent].pull(ids, pulled.cursor, since="since" in args)

    @rule(agent=agents)
    def drain_honestly(self, agent: str) -> None:
        """A client that sends `window_high` back is served everything that it may see and has not acknowledged."""
        box, visible = self.house.of(agent), self.visible(agent)
        wanted, served, args = box.unacked(visible), [], {}
        for _ in range(len(box.rows) + 2):
            pulled = self.scene.do(self.scene.pull, agent, visible, BUDGETS[0], **args)
            box.pull(visible, self.house.now, BUDGETS[0], **args)
            self.ledgers[agent].pull([row.id for row in pulled.rows], pulled.cursor, since=False)
            served += [row.seq for row in pulled.rows]
            args = {"ack": pulled.window_high}
            if not pulled.has_more and pulled.cursor == pulled.window_high:
                break
        assert sorted(served) == wanted, "each once"
        assert box.above(box.cursor) == []

    @rule(reader=pullers, by=st.sampled_from(["pull", "page"]), limit=limits)
    def wait_for_mail(self, reader: tuple[str, str], by: str, limit: int) -> None:
        """Whoever waits when there is nothing is woken by what comes."""
        token, agent = reader
        box, visible = self.house.of(agent), self.visible(token)
        nothing = box.pull(visible, self.house.now, BUDGETS[0], limit=limit, note=False)
        if nothing.items or nothing.has_more:
            return
        after = box.latest

        async def wait() -> Any:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(partial(self.scene.send, None, 2, machine=AGENTS[agent], to_agent=agent))
                if by == "pull":
                    return await self.scene.pull(agent, visible, BUDGETS[0], WAIT_SECONDS, limit=limit)
                page = partial(self.scene.query, wait=WAIT_SECONDS)
                return await page(token, box.slug, after, limit, (), None)

        told = self.loop.run(wait)
        if by == "pull":
            box.pull(visible, self.house.now, BUDGETS[0], limit=limit)
        (got,) = self.loop.run(self.scene.newest, box.slug)
        self.house.send(self.house.message(got, "note"), [agent])
        if by == "page":
            assert (told.ids, told.seqs, told.next_after) == ([got], [box.latest], box.latest)
            return
        expected = box.pull(visible, self.house.now, BUDGETS[0], limit=limit)
        assert [row.seq for row in told.rows] == list(expected.items)
        self.ledgers[agent].pull([row.id for row in told.rows], told.cursor, since=False)

    # -- readers without one ------------------------------------------------------------------------------
    @rule(reader=readers, limit=limits, budget=budgets)
    def read_plainly(self, reader: tuple[str, str], limit: int, budget: int) -> None:
        self._read_plainly(reader, limit, budget)

    def _read_plainly(self, reader: tuple[str, str], limit: int, budget: int) -> list[int]:
        token, agent = reader
        box, visible = self.house.of(agent), self.visible(token)
        found = self.scene.do(self.scene.read, agent, visible, limit, budget, peek=False)
        seqs = [row.seq for row in found.rows]
        assert seqs == box.read(visible, limit, budget, peek=False)
        assert found.unread == len(box.unacked(visible))
        self._same_mail(box, found.rows)
        box.hand_out(seqs)
        self.ledgers[agent].plain([row.id for row in found.rows])
        return seqs

    @rule(reader=readers)
    def read_all_plainly(self, reader: tuple[str, str]) -> None:
        """Whoever reads until there is nothing has been served everything that no plain read served before."""
        token, agent = reader
        box = self.house.of(agent)
        wanted = [one for one in box.unacked(self.visible(token)) if one not in box.passed_on]
        served: list[int] = []
        while some := self._read_plainly(reader, MAX_BATCH, BUDGETS[0]):
            served += some
        assert served == wanted

    @rule(reader=readers, limit=limits, budget=budgets)
    def peek(self, reader: tuple[str, str], limit: int, budget: int) -> None:
        token, agent = reader
        box, visible = self.house.of(agent), self.visible(token)
        before = self.scene.do(self.scene.tables)
        found = self.scene.do(self.scene.read, agent, visible, limit, budget, peek=True)
        assert self.scene.do(self.scene.tables) == before, "a peek has written something"
        assert [row.seq for row in found.rows] == box.read(visible, limit, budget, peek=True)
        assert found.unread == len(box.unacked(visible))
        self._same_mail(box, found.rows)
        self.ledgers[agent].peek([row.id for row in found.rows])

    @rule(reader=readers, which=st.lists(st.tuples(st.booleans(), places), max_size=5))
    def ack(self, reader: tuple[str, str], which: list[tuple[bool, int]]) -> None:
        """Messages of this inbox, of others, and such as there are none."""
        token, agent = reader
        box, visible = self.house.of(agent), self.visible(token)
        ids = self._ids(box, which)
        outcome = self.scene.do(self.scene.ack, agent, ids, visible)
        told = (list(outcome.acked), list(outcome.already), list(outcome.unknown))
        assert told == box.ack_ids(ids, visible)
        self._acked(agent, outcome)

    def _ids(self, box: Box, which: list[tuple[bool, int]]) -> list[bytes]:
        kept, log = sorted(box.rows), self.house.log
        ids = [
            box.message(kept[n % len(kept)]).id
            if own and kept
            else log[-1 - n].id
            if n < len(log)
            else STRANGE
            for own, n in which
        ]
        return list(dict.fromkeys(ids))

    def _acked(self, agent: str, outcome: Any) -> None:
        assert outcome.cursor == self.house.of(agent).cursor, "acknowledged by id and by cursor is one thing"
        self.ledgers[agent].acked |= {*outcome.acked, *outcome.already}
        self.ledgers[agent].moved(outcome.cursor)

    @rule(
        one=readers, two=readers, limit=limits, which=st.lists(st.tuples(st.booleans(), places), max_size=3)
    )
    def read_and_ack_at_once(
        self, one: tuple[str, str], two: tuple[str, str], limit: int, which: list[tuple[bool, int]]
    ) -> None:
        """Two sessions of one agent read while a third acknowledges."""
        agent = one[1]
        box = self.house.of(agent)
        tokens = (one[0], two[0] if two[1] == agent else one[0])
        sees = [self.visible(token) for token in tokens]
        may = [box.read(visible, len(box.rows), BUDGETS[0], peek=False) for visible in sees]
        ids = self._ids(box, which)
        found: list[list[int]] = [[], []]

        async def read(place: int) -> None:
            rows = (await self.scene.read(agent, sees[place], limit, BUDGETS[0], peek=False)).rows
            found[place] = [row.seq for row in rows]

        async def all_at_once() -> Any:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(read, 0)
                nursery.start_soon(read, 1)
                return await self.scene.ack(agent, ids, sees[0])

        outcome = self.loop.run(all_at_once)
        assert not set(found[0]) & set(found[1]), "two sessions are served the same"
        for place, seqs in enumerate(found):
            assert set(seqs) <= set(may[place])
            assert seqs == sorted(seqs)
            self.ledgers[agent].plain([box.message(seq).id for seq in seqs])
            box.hand_out(seqs)
        told = (list(outcome.acked), list(outcome.already), list(outcome.unknown))
        assert told == box.ack_ids(ids, sees[0])
        self._acked(agent, outcome)

    # -- what senders hear --------------------------------------------------------------------------------
    @rule(agent=agents, limit=limits)
    def look_what_became_of_it(self, agent: str, limit: int) -> None:
        """Page through all that an agent has sent."""
        mine = [one for one in self.house.log if one.listed_by is self.house.of(agent)]
        mine.sort(key=lambda one: one.id, reverse=True)
        lines: list[Any] = []
        before = None
        for _ in range(len(mine) + 1):
            lines += self.scene.do(self.scene.sent, agent, before, limit)
            before = lines[-1].id if lines else None
        assert [(line.id, line.sent_at) for line in lines] == [(one.id, one.sent_at) for one in mine]
        for line, one in zip(lines, mine, strict=True):
            assert [name for name, _ in line.recipients] == sorted(one.receipts)
            for name, got in line.recipients:
                times = (got.stored_at, got.served_at, got.acked_at, got.expired_at)
                assert times == receipt_of(one.receipts[name])
                order = [at for at in times[:3] if at is not None]
                assert order == sorted(order), "stored, served, acknowledged"

    @rule()
    def count_what_is_unread(self) -> None:
        counts = self.scene.do(self.scene.unread, MACHINES)
        assert counts == {
            name: len(self.house.of(name).unacked(self.house.seen_by_all(name))) for name in AGENTS
        }

    # -- what is stored -----------------------------------------------------------------------------------
    def _same_mail(self, box: Box, rows: list[Any]) -> None:
        for row in rows:
            message = box.message(row.seq)
            via = msgspec.json.decode(row.delivery)["via"]
            assert (row.id, row.size, via) == (message.id, message.size, box.via(row.seq))

    @invariant()
    def all_that_is_stored_is_as_the_model_has_it(self) -> None:
        """So nobody else's inbox has changed either."""
        addressed = [one for one in self.house.log if one.had_receipts]
        stored = self.scene.do(self.scene.stored, INBOXES, sorted(AGENTS), [one.n for one in addressed])
        expected: dict[str, Any] = {}
        for slug, box in self.house.boxes.items():
            expected[slug] = (box.latest, box.first, len(box.rows), sorted(box.rows))
        for name in AGENTS:
            box = self.house.of(name)
            above = set(box.above(box.cursor))
            expected[name] = (box.cursor, box.served_high, box.acked & above, box.passed_on & above)
        for one in addressed:
            expected |= {f"{one.n} at {who}": receipt_of(got) for who, got in one.receipts.items()}
        assert stored == expected


def receipt_of(got: Any) -> tuple[int | None, ...]:
    return (got.stored, got.served, got.acked, got.expired)


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
def test_whatever_readers_do_every_contract_keeps_its_promise(
    kind: str, loop: LoopThread, machine_runs: int
) -> None:
    class Machine(ContractsMachine):
        pass

    Machine.loop, Machine.kind = loop, kind
    run_state_machine_as_test(
        Machine,
        settings=settings(
            max_examples=machine_runs if kind == "memory" else machine_runs // 3,
            stateful_step_count=50,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
