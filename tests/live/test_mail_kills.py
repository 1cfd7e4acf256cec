"""Mail through `kill -9`: nothing that was sent to an agent is lost, nothing comes twice, no cursor moves back.

Each round sends webhooks and published messages from several connections at once, while agents drain their inboxes,
and kills the process with SIGKILL at a random moment of the traffic: when a sender was answered, a request was
complete, a page was served, an acknowledgement was sent or was answered, at once or up to 40 ms later. What is there
then is read from a copy: every answered message, each delivery at most once, under the number that it always had, and
no cursor beyond what its agent has handled. The next start goes on with the same directory: what was under way is
routed, senders ask again what was not answered, agents go on with what they remember or with nothing. In the end each
agent has exactly what its beacons and its senders meant for it, once, and has been served all of it.

`--kill-rounds N` plays N rounds. A failing run prints its seed.
"""

import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import msgspec
import trio

from tests.live.api import Api
from tests.live.autopsy import Found, autopsy
from tests.live.drains import LAST_SECONDS, WAIT_SECONDS, Draining, Session, drained_by_the_library
from tests.live.harness import Server, connect
from tests.live.mailroom import AGENTS, EAST, STEADY, Ledger, Sent, answered_id, furnish
from tests.wire.client import Client, head

SENDERS = 6
"""Connections that send at once."""

MAX_BATCH = 40
LIMITS = (3, 15, None)
"""Of the pages that agents ask for: a window of a few rows, of some, and the server's cap."""

MOMENTS = ("answer", "request", "page", "ack", "acked")
MOST = {"answer": 300, "request": 300, "page": 200, "ack": 200, "acked": 200}
"""A kill comes after at most so many moments of its kind: about a second of traffic."""

LATER_SECONDS = 0.04
"""A kill that does not come at once comes within this: the router takes a message up 10 ms after its commit."""

MOST_STEPS = 20
"""Steps of the scheduler that an agent takes to handle a page."""

AGAIN = 0.2
"""How often the next start is killed too, while it routes what the last one has left."""

RETRIED_ANYWAY = 3
"""Answered messages that are sent again in each round, as by a sender that lost the answer."""

ALL_SURE = 10
"""From so many rounds on, kills must have come at every stage that this test is about."""

FORGETS = 0.5
"""How often an agent comes back after a kill without its memory, and asks for a page as if for the first time."""

ROUND_SECONDS = 60.0

UNROUTED = "kills between commit and routing"
UNACKED = "kills between pull and ack"


def test_what_was_sent_to_an_agent_survives_kill_minus_nine(tmp_path: Path, kill_rounds: int) -> None:
    seed = random.SystemRandom().getrandbits(32)
    print(f"seed {seed}")
    ledger = Ledger(random.Random(seed))
    drains = {agent.name: Draining(agent) for agent in AGENTS}
    sessions = [Session(drains[agent.name]) for agent in (*AGENTS, EAST) if agent is not STEADY]
    data = tmp_path / "data"
    with Server(data, pull_max_batch=MAX_BATCH, beacon_deliveries_per_day=1_000_000) as server:
        with Api(server.url, server.token) as admin:
            furnish(admin, ledger)
        with drained_by_the_library(server, ledger, drains[STEADY.name]):
            for plan in plans(ledger.rng, kill_rounds):
                trio.run(play, Round(server, ledger, plan, sessions))
                examine(autopsy(data, tmp_path / "copy"), ledger, drains, sessions)
                server.start()
                if ledger.rng.random() < AGAIN:
                    trio.run(kill_soon, server, ledger)
                    examine(autopsy(data, tmp_path / "copy"), ledger, drains)
                    server.start()
                trio.run(ask_again, server, ledger)
            trio.run(finish, server, ledger, sessions)
        assert server.stop() == 0
        found = autopsy(data, tmp_path / "copy")
    examine(found, ledger, drains)
    for agent in AGENTS:
        due = ledger.due(agent)
        assert {key for key, name in found.deliveries if name == agent.name} == due
        assert drains[agent.name].handled == due
        assert found.cursors[agent.name] == len(due)
    assert found.routed == max(found.numbers.values())
    ledger.add("messages stored", len(found.messages))
    ledger.add("deliveries", len(found.deliveries))
    for name, n in sorted(ledger.figures.items()):
        print(f"{name}: {n}")
    if kill_rounds >= ALL_SURE:
        assert min(ledger.figures[UNROUTED], ledger.figures[UNACKED]) > 0


# -- the kill -----------------------------------------------------------------------------------------------------


@dataclass
class Kill:
    """The moment of a round: `seconds` after `countdown` moments of a kind."""

    moment: str
    countdown: int
    seconds: float


def plans(rng: random.Random, rounds: int) -> Iterator[Kill]:
    """Choose the moments of so many rounds: all kinds, each at once and later, in an order that is drawn."""
    while True:
        kinds = list(product(MOMENTS, (True, False)))
        rng.shuffle(kinds)
        for moment, at_once in kinds:
            if not rounds:
                return
            rounds -= 1
            yield Kill(
                moment, rng.randint(0, MOST[moment]), 0.0 if at_once else rng.uniform(0, LATER_SECONDS)
            )


class Round:
    """The traffic of one round. `killed` is true from the very step in which the process got its signal."""

    def __init__(self, server: Server, ledger: Ledger, plan: Kill, sessions: list[Session]) -> None:
        self.server = server
        self.ledger = ledger
        self.plan = plan
        self.sessions = sessions
        self.killed = False
        self._due = trio.Event()

    def passes(self, moment: str) -> None:
        """Say that a moment has come; when it is the one, the server is killed, now or a little later."""
        if moment == self.plan.moment and not self._due.is_set():
            self.plan.countdown -= 1
            if self.plan.countdown < 0:
                self._due.set()
                if not self.plan.seconds:
                    self._kill()

    async def kill_later(self) -> None:
        """Kill the server when it is time."""
        await self._due.wait()
        if not self.killed:
            with trio.move_on_after(self.plan.seconds):
                await trio.sleep_forever()
            self._kill()

    def _kill(self) -> None:
        self.killed = True
        self.server.kill()
        self.ledger.add(f"kills at: {self.plan.moment}{', later' if self.plan.seconds else ''}")
        holding = sum(session.stage == "handling" for session in self.sessions)
        self.ledger.add(UNACKED, holding > 0)
        self.ledger.add(f"{UNACKED}: pages", holding)


async def kill_soon(server: Server, ledger: Ledger) -> None:
    """Kill a server that has just started."""
    with trio.move_on_after(ledger.rng.uniform(0, LATER_SECONDS)):
        await trio.sleep_forever()
    server.kill()
    ledger.add("kills soon after a start")


async def play(this: Round) -> None:
    """Send and drain on all connections until the server is killed and everybody has noticed."""
    port = this.server.port
    with trio.fail_after(ROUND_SECONDS):
        writers = [await connect(port) for _ in range(SENDERS)]
        readers = [await connect(port) for _ in this.sessions]
        async with trio.open_nursery() as nursery:
            nursery.start_soon(this.kill_later)
            for client in writers:
                nursery.start_soon(send, this, client)
            for client, session in zip(readers, this.sessions, strict=True):
                nursery.start_soon(drain, this, client, session)


async def send(this: Round, client: Client) -> None:
    """Send one message after another on one connection, and note every answer."""
    async with client:
        while True:
            sent = this.ledger.next()
            answer = await ask(this, client, sent)
            if answer is None:
                break
            sent.id = answered_id(answer)
            this.ledger.stored.add(sent.key)
            this.ledger.add("messages answered")
            this.passes("answer")
    assert this.killed, "the server ended a connection without being killed"


async def ask(this: Round, client: Client, sent: Sent) -> Any:
    """Send a message; return the answer, None when there is none any more."""
    return await exchange(
        client, sent.path, sent.headers(this.ledger.tokens), sent.body(), lambda: this.passes("request")
    )


async def exchange(
    client: Client, path: str, headers: dict[str, str], body: bytes, sent: Callable[[], object]
) -> Any:
    """Send a request and call `sent`; return the decoded answer, None when the connection has ended before it."""
    fields = [*headers.items(), ("Content-Length", str(len(body)))]
    try:
        await client.send(head("POST", path, fields) + body)
        sent()
        reply = await client.reply()
    except trio.BrokenResourceError:
        return None
    if not reply.complete:
        return None
    assert reply.status == 200, reply
    return reply.json


# -- draining -----------------------------------------------------------------------------------------------------
async def drain(this: Round, client: Client, session: Session, due: set[str] | None = None) -> None:
    """Drain an inbox by the client rule until the connection ends, or until all that is `due` was handled and
    acknowledged and nothing is left.
    """
    draining, rng = session.draining, this.ledger.rng
    headers = {"Authorization": f"Bearer {this.ledger.tokens[draining.agent.name]}"}
    if session.stage != "away" and rng.random() < FORGETS:
        session.ack = None
    idle = False
    async with client:
        while due is None or not (idle and draining.handled >= due and draining.cursor >= len(due)):
            asked = {
                "limit": rng.choice(LIMITS),
                "ack": session.ack,
                "timeout_seconds": WAIT_SECONDS if idle else None,
            }
            body = {name: value for name, value in asked.items() if value is not None}
            ack, known = session.ack, draining.cursor
            draining.sent = max(draining.sent, ack or 0)
            session.stage = "asking"
            sent = partial(this.passes, "ack") if ack else nothing
            page = await exchange(
                client,
                "/v1/inbox:wait" if idle else "/v1/inbox:pull",
                headers,
                msgspec.json.encode(body),
                sent,
            )
            if page is None:
                break
            draining.take(page, known, ack, this.ledger)
            idle = not page["items"]
            session.stage = "idle" if idle else "handling"
            if ack:
                this.passes("acked")
            if not idle:
                this.passes("page")
            for _ in range(rng.randint(0, MOST_STEPS)):
                await trio.lowlevel.checkpoint()
            session.handle(page, rng)
    assert this.killed or due is not None, "the server ended a connection without being killed"


def nothing() -> None:
    """Do nothing."""


async def finish(server: Server, ledger: Ledger, sessions: list[Session]) -> None:
    """Drain everything that is left."""
    this = Round(server, ledger, Kill("never", 0, 0.0), sessions)
    with trio.move_on_after(LAST_SECONDS) as spent:
        clients = [await connect(server.port) for _ in sessions]
        async with trio.open_nursery() as nursery:
            for client, session in zip(clients, sessions, strict=True):
                nursery.start_soon(drain, this, client, session, ledger.due(session.draining.agent))
    missing = {
        one.draining.agent.name: ledger.due(one.draining.agent) - one.draining.handled for one in sessions
    }
    assert not spent.cancelled_caught, f"never served: {missing}"


# -- after the kill -----------------------------------------------------------------------------------------------


def examine(
    found: Found, ledger: Ledger, drains: dict[str, Draining], sessions: Sequence[Session] = ()
) -> None:
    """Check that the store is what was promised: to senders, and to agents."""
    for sent in ledger.sent.values():
        assert sent.id is None or found.messages.get(sent.key) == sent.id, (
            f"{sent.key} was answered and is gone"
        )
    for pair, seq in ledger.delivered.items():
        assert found.deliveries.get(pair) == seq, f"{pair} was delivered, and is elsewhere or gone"
    for (key, name), seq in found.deliveries.items():
        assert name in ledger.sent[key].recipients, f"{key} is not for {name}"
        assert seq > found.cursors[name] or key in drains[name].handled, (
            f"{key} is acknowledged, and {name} never had it"
        )
    for name, draining in drains.items():
        assert draining.cursor <= found.cursors[name], "an acknowledgement that was answered is gone"
        for key, seq in draining.places.copy().items():
            assert found.deliveries.get((key, name)) == seq, f"{key} was served, and is elsewhere or gone"
    ledger.stored |= found.messages.keys()
    ledger.delivered = found.deliveries
    note_the_stage(found, ledger)
    for session in sessions:
        if session.stage == "asking" and (session.ack or 0) > session.draining.cursor:
            is_stored = found.cursors[session.draining.agent.name] >= (session.ack or 0)
            ledger.add(f"acks under way when killed, {'stored' if is_stored else 'not stored'}")


def note_the_stage(found: Found, ledger: Ledger) -> None:
    """Count what the router had still to do, and what it will look at again."""
    had = Counter(key for key, _ in found.deliveries)
    late = {key: due for key in found.messages if (due := len(ledger.sent[key].recipients) - had[key])}
    # Mail to agents by name is with the first of them from its commit on.
    routed = [key for key in had if ledger.sent[key].inbox is not None]
    ledger.add(UNROUTED, bool(late))
    ledger.add(f"{UNROUTED}: messages", len(late))
    ledger.most(f"{UNROUTED}: messages at most", len(late))
    ledger.add(f"{UNROUTED}: of them answered", sum(ledger.sent[key].id is not None for key in late))
    ledger.add(f"{UNROUTED}: deliveries to come", sum(late.values()))
    ledger.add("kills in the middle of deliveries", any(key in late for key in routed))
    again = sum(found.numbers[key] > found.routed for key in routed)
    ledger.add("kills between delivery and the router's cursor", again > 0)
    ledger.add("messages that were routed again", again)


async def ask_again(server: Server, ledger: Ledger) -> None:
    """Send again what was not answered, as far as its sender may, and some of what was."""
    this = Round(server, ledger, Kill("never", 0, 0.0), [])
    fresh = [sent for sent in ledger.sent.values() if not sent.settled]
    answered = [sent for sent in fresh if sent.once and sent.id is not None]
    again = ledger.rng.sample(answered, min(RETRIED_ANYWAY, len(answered)))
    with trio.fail_after(ROUND_SECONDS):
        async with await connect(server.port) as client:
            for sent in fresh:
                if not sent.once or (sent.id is not None and sent not in again):
                    continue
                answer = await ask(this, client, sent)
                assert sent.id in (None, answered_id(answer)), f"{sent.key} has become another message"
                ledger.add("asked again: " + ("was there" if sent.key in ledger.stored else "stored now"))
                sent.id = answered_id(answer)
                ledger.stored.add(sent.key)
    for sent in fresh:
        sent.settled = True
