"""One run: a seed's world from its beginning to its end, and what was found in it."""

import math
import tempfile
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from functools import partial
from pathlib import Path
from time import process_time
from typing import Any

import msgspec
import structlog
import trio
import trio.testing

from tests.simulation import fates
from tests.simulation.agents import ADA, BOB, CYD, Agent, Drainer, Mailer, Writer
from tests.simulation.door import Door, Doorkeeper, VisitingStreamer, Visitor, WaitingVisitor
from tests.simulation.fates import MADE, Admin
from tests.simulation.people import Person
from tests.simulation.ports import no_sockets
from tests.simulation.promises import LOOK_SECONDS
from tests.simulation.readers import Pager, Streamer, Waiter
from tests.simulation.schedule import BEGIN_SECONDS, Shape, TimeOfDay, seeded, shape_of
from tests.simulation.senders import HOOKS, PLAIN, Nuisance, Sender
from tests.simulation.world import ADMIN_TOKEN, Machine, told
from tests.virtual import pass_time

BOX = "box"

WHOLE_SECONDS = 600.0
"""No run takes longer, on the virtual clock: something would be hanging that nobody looks at."""

LOUD = ("error", "critical", "exception")
"""What the server logs so, is a defect: nothing in these worlds is one of the operator's troubles of that kind."""


class Played(msgspec.Struct, frozen=True):
    """A run that has come to its end. `lines`: its log; `seconds`: of processor time."""

    seed: int
    findings: Sequence[str]
    lines: Sequence[str]
    seconds: float
    commits: int
    lives: int


def play(seed: int, *, broken: Callable[[], AbstractContextManager[Any]] = nullcontext) -> Played:
    """Play one seed. `broken` is entered around it, by tests that break the server on purpose."""
    began = process_time()
    shape = shape_of(seed)
    kept: list[Machine] = []
    with (
        ExitStack() as stack,
        tempfile.TemporaryDirectory(prefix="postroom-simulation-") as directory,
        structlog.testing.capture_logs() as logged,
    ):
        day = stack.enter_context(seeded(seed))
        stack.enter_context(no_sockets())
        stack.enter_context(broken())
        clock = trio.testing.MockClock(autojump_threshold=0)
        clock.jump(BEGIN_SECONDS)
        trio.run(partial(_world, seed, shape, day, Path(directory), kept), clock=clock)
    machine = kept[0]
    findings = list(machine.ledger.findings)
    loud = [line for line in logged if line["log_level"] in LOUD]
    findings += [f"the server logs: {line['event']} {line.get('error', '')}" for line in loud]
    return Played(
        seed,
        findings,
        machine.ledger.lines,
        process_time() - began,
        machine.disk.commits,
        machine.lives,
    )


async def _world(seed: int, shape: Shape, day: TimeOfDay, directory: Path, kept: list[Machine]) -> None:
    async with trio.open_nursery() as nursery:
        machine = Machine(seed, shape, day, directory, nursery)
        kept.append(machine)
        nursery.start_soon(_end_when_found, machine, nursery.cancel_scope)
        with machine.watched():
            try:
                await machine.start()
                await _live(machine, await _settle(machine))
                await machine.stop()
            except Exception as error:
                machine.ledger.find(f"the simulation itself failed: {told(error)}")
            finally:
                _end(machine, nursery.cancel_scope)


async def _end_when_found(machine: Machine, scope: trio.CancelScope) -> None:
    with trio.move_on_after(WHOLE_SECONDS) as whole:
        await machine.ledger.found.wait()
    if whole.cancelled_caught:
        machine.ledger.find("the world does not come to its end")
    _end(machine, scope)


def _end(machine: Machine, scope: trio.CancelScope) -> None:
    machine.disk.crash()
    machine.network.sever()
    scope.cancel()


async def _settle(machine: Machine) -> list[Person]:
    """Make inboxes, agents and tokens, before any trouble begins; return everybody."""
    admin = Admin(machine, "admin", ADMIN_TOKEN)
    admin.hangs_up = 0.0

    async def make(method: str, target: str, body: Any, by: Person = admin) -> Any:
        reply = await by.ask(method, target, body, patiently=True)
        if reply is None or reply.status not in (200, 201):
            machine.ledger.find(f"{target} could not be made")
            return {}
        return reply.json

    awake, machine.disk.opened.awake = machine.disk.opened.awake, False  # type: ignore[union-attr]  # it is open
    for inbox in MADE.values():
        await make("POST", "/v1/inboxes", inbox)
    await make("POST", "/v1/machines", {"name": BOX})
    tokens = {}
    for agent in (ADA, BOB, CYD):
        await make("POST", "/v1/agents", {"agent_id": agent, "machine": BOX})
        asked = {"kind": "agent", "agent": agent, "inboxes": [HOOKS, PLAIN]}
        tokens[agent] = (await make("POST", "/v1/tokens", asked))["token"]
    ada, bob = Agent(machine, "setup-ada", ADA, tokens[ADA]), Agent(machine, "setup-bob", BOB, tokens[BOB])
    await make("PUT", "/v1/beacons/all", {"inboxes": [PLAIN]}, ada)
    await make("PUT", "/v1/beacons/hooks", {"inboxes": [HOOKS]}, bob)
    visitors = await make("POST", "/v1/tokens", {"kind": "agent", "inboxes": [HOOKS, PLAIN]})
    for one in (admin, ada, bob):
        await one.let_go()
    machine.disk.opened.awake = awake  # type: ignore[union-attr]  # it is open
    admin.hangs_up = machine.shape.hang_up
    people = _people(machine, tokens)
    if machine.shape.visitors and visitors:
        people += _visitors(machine, visitors["token"], Door(visitors["token_id"]))
    return [*people, admin] if machine.shape.admin else people


def _visitors(machine: Machine, token: str, door: Door) -> list[Person]:
    """Return who reads by one token, and behind them who changes it."""
    visiting = (
        Visitor(machine, "visitor", token),
        WaitingVisitor(machine, "waiting-visitor", token),
        VisitingStreamer(machine, "visiting-streamer", token),
    )
    for one in visiting:
        one.door = door
    return [*visiting, Doorkeeper(machine, "doorkeeper", ADMIN_TOKEN, door)]


def _people(machine: Machine, tokens: dict[str, str]) -> list[Person]:
    shape = machine.shape
    reader = tokens[CYD]
    people: list[Person] = [Sender(machine, f"sender{n}") for n in range(shape.senders)]
    people += [Waiter(machine, f"waiter{n}", reader) for n in range(shape.waiters)]
    people += [Streamer(machine, f"streamer{n}", reader) for n in range(shape.streamers)]
    people += [Drainer(machine, f"drainer{n}", ADA, tokens[ADA]) for n in range(shape.drainers)]
    mailers = [Mailer(machine, "mailer0", BOB, tokens[BOB])] if shape.mailers else []
    mailers += [Mailer(machine, f"mailer{n}", BOB, tokens[BOB], mailers[0]) for n in range(1, shape.mailers)]
    people += mailers
    who = (CYD, ADA)
    people += [Writer(machine, f"writer{n}", who[n], tokens[who[n]]) for n in range(shape.writers)]
    people += [Nuisance(machine, f"nuisance{n}") for n in range(shape.nuisances)]
    return people + [Pager(machine, f"pager{n}", reader) for n in range(max(1, shape.pagers))]


async def _live(machine: Machine, people: list[Person]) -> None:
    """Let everybody act, then let it become quiet, and hold what there is against what was promised."""
    async with trio.open_nursery() as nursery:
        for what in (fates.restarts, fates.weather, fates.clock):
            nursery.start_soon(what, machine)
        for person in people:
            nursery.start_soon(person.run)
        await pass_time(machine.shape.seconds)
        machine.over.set()
    if not machine.up.is_set():
        await machine.start()
    machine.disk.troubled_at = -math.inf
    await machine.come_to_rest()
    machine.promises.all_routed(machine.disk.state, {ADA: PLAIN, BOB: HOOKS})
    for person in reversed(people):  # the administrator first, who puts everything in its place
        await person.finish()
        await person.let_go()
    await machine.come_to_rest()
    await machine.compare()
    if machine.shape.ages:
        await pass_time(LOOK_SECONDS)
        machine.promises.nothing_old(machine.disk.state)
