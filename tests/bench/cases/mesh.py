"""Mesh: what agents on a machine are answered when they write to each other, durably, with a payload of 1 KiB.

*Sends*: messages from one agent to another, among a hundred, at 32 keep-alive connections. Baselines read the same
requests and answer with as many bytes, which they hold ready: a bare Quart-Trio route, and a bare ASGI application, on
the same Hypercorn.

*Broadcast*: a message to all the others against one to a single agent, on one connection and in turn. Neither is sent
before the router has delivered all that was sent so far: what is compared is how long a sender waits. How fast the
router delivers is the case `router`.
"""

import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from tests.bench.calls import Calls, Job
from tests.bench.client import Line
from tests.bench.figures import Figure, compare, quantile
from tests.bench.harness import CLIENT_NEAR_LIMIT, Bench, run_client
from tests.bench.processes import Server, running
from tests.bench.reading import post
from tests.bench.signed import BODY_BYTES
from tests.bench.subject import NotWhatItSays, Subject, postroom

NAME = "mesh"

GOAL_RATE = 0.8
"""Of the bare Quart-Trio route's requests a second."""

GOAL_BROADCAST = 3.0
"""Of a single send's p50."""

CONNECTIONS = 32
RECIPIENTS = 100
"""Of a broadcast; its sender is one agent more."""

MACHINE = "bench"
TTL_SECONDS = 86_400
"""Agents stay alive without a sign of life for as long as they may: a message to one that is stale is refused."""

STRIDE = 37
"""From a sender's number to its recipient's: everybody writes to somebody else, and everybody gets as much."""

SHARE_OF_SENDS = 2
SHARE_OF_BROADCASTS = 40
"""A round has the effort's requests divided by these."""

LOOK_SECONDS = 0.002
"""Between two looks at the router's figures."""

DRAINED_SECONDS = 10.0
"""Far longer than the router takes for one message."""

POSTROOM, ASGI, QUART = "Postroom", "bare ASGI", "bare Quart-Trio"
SINGLE = "a single send, p50"
SEND = "/agent/send"


class Sends(msgspec.Struct, frozen=True):
    """One round of one server. `cpu_us`: the server's processor time for one request, in µs."""

    calls: Calls
    cpu_us: float


class Latencies(msgspec.Struct, frozen=True):
    """One round of answers, p50 in ms: to a broadcast, and to a message for one agent."""

    broadcast: float
    single: float


def measure(bench: Bench) -> list[Figure]:
    """Measure the case."""
    with ExitStack() as stack:
        made = tempfile.TemporaryDirectory(prefix="postroom-bench-", dir=bench.directory)
        directory = Path(stack.enter_context(made))
        subject = stack.enter_context(postroom(directory))
        machine = _Machine(subject)
        page = directory / "page.json"
        page.write_bytes(machine.try_out())
        bare = {
            QUART: stack.enter_context(_bare("bare_quart_page", page)),
            ASGI: stack.enter_context(_bare("bare_asgi_page", page)),
        }
        count = bench.effort.requests // SHARE_OF_SENDS

        def sends(server: Server, number: int) -> Sends:
            before = server.cpu_seconds()
            job = Job(server.port, machine.requests, count, CONNECTIONS)
            calls = run_client("tests.bench.calls", job, Calls)
            return Sends(calls, (server.cpu_seconds() - before) / calls.answers * 1e6)

        def own_sends(number: int) -> Sends:
            measured = sends(subject.server, number)
            machine.count(measured.calls.answers)
            return measured

        contenders: dict[str, Callable[[int], Sends]] = {
            **{name: partial(sends, server) for name, server in bare.items()},
            POSTROOM: own_sends,
        }
        measured = bench.rounds(f"{NAME}: sends", contenders)
        turns = bench.effort.requests // SHARE_OF_BROADCASTS
        latencies = bench.rounds(f"{NAME}: broadcasts", {POSTROOM: lambda _: machine.take_turns(turns)})[
            POSTROOM
        ]
        machine.check()
    bench.note(
        f"{NAME}: {machine.messages:,} messages were answered, and {machine.entries:,} deliveries are there."
    )
    _note_medians(bench, measured)
    return _figures(measured, latencies)


def _bare(module: str, page: Path) -> Any:
    return running(module.replace("_", "-"), ("-m", f"tests.bench.servers.{module}", str(page)), page.parent)


class _Machine:
    """A machine of a hundred agents and one. `messages` were sent; all of its inboxes must have `entries` together."""

    def __init__(self, subject: Subject) -> None:
        self._subject = subject
        self._agents = [f"agent-{number:03}" for number in range(RECIPIENTS + 1)]
        self.messages = self.entries = 0
        subject.call("POST", "/v1/machines", {"name": MACHINE})
        for agent in self._agents:
            subject.call("POST", "/v1/agents", {"agent_id": agent, "machine": MACHINE})
            subject.call("POST", "/agent/checkin", {"agent_id": agent, "ttl_seconds": TTL_SECONDS})
        form = {"kind": "machine", "machine": MACHINE, "inboxes": []}
        token = subject.call("POST", "/v1/tokens", form)["token"]
        port = subject.server.port
        number = len(self._agents)
        self._said = [
            {
                "to_agent": self._agents[(sender + STRIDE) % number],
                "from_agent": self._agents[sender],
                "msg_type": "note",
                "payload": _payload(sender),
            }
            for sender in range(number)
        ]
        self.requests = [post(port, SEND, token, said) for said in self._said]
        to_all = {name: value for name, value in self._said[0].items() if name != "to_agent"}
        self._to_all = post(port, SEND, token, to_all)

    def count(self, messages: int, recipients: int = 1) -> None:
        """Note that so many messages were answered, for so many agents each."""
        self.messages += messages
        self.entries += messages * recipients

    def try_out(self) -> bytes:
        """Send one message to one agent and one to all; return the first one's answer. Raises `NotWhatItSays`."""
        line = Line(self._subject.server.port)
        answers = []
        for request, recipients in (
            (self.requests[0], [self._said[0]["to_agent"]]),
            (self._to_all, self._agents[1:]),
        ):
            answer = _ask(line, request)
            if msgspec.json.decode(answer)["delivered_to"] != recipients:
                raise NotWhatItSays(f"{answer[:500]!r}, and not for {recipients}")
            self.count(1, len(recipients))
            answers.append(answer)
        line.socket.close()
        self.check()
        return answers[0]

    def take_turns(self, turns: int) -> Latencies:
        """Send so many messages to all, and as many to one agent. Raises `NotWhatItSays`."""
        line = Line(self._subject.server.port)
        times: tuple[list[float], list[float]] = ([], [])
        for _ in range(turns):
            for request, recipients, into in (
                (self._to_all, RECIPIENTS, times[0]),
                (self.requests[0], 1, times[1]),
            ):
                self._drained()
                _ask(line, request)
                into.append((time.perf_counter_ns() - line.began) / 1e6)
                self.count(1, recipients)
        line.socket.close()
        return Latencies(quantile(times[0], 0.5), quantile(times[1], 0.5))

    def _drained(self) -> None:
        """Return when the router has done everything. Raises `NotWhatItSays`."""
        until = time.perf_counter() + DRAINED_SECONDS
        while (figures := self._subject.call("GET", "/v1/stats")["routing"])["routed"] < self.messages:
            if time.perf_counter() > until:
                raise NotWhatItSays(f"not routed in {DRAINED_SECONDS:g} s: {figures}")
            time.sleep(LOOK_SECONDS)

    def check(self) -> None:
        """Raise `NotWhatItSays` unless everybody together has exactly what was answered."""
        self._drained()
        shown = [self._subject.call("GET", f"/v1/inboxes/agent.{agent}") for agent in self._agents]
        held = sum(one["latest_seq"] for one in shown)
        if held != self.entries:
            raise NotWhatItSays(
                f"{held:,} entries in the agents' inboxes, and {self.entries:,} were answered"
            )


def _payload(number: int) -> dict[str, Any]:
    """Return a payload of `BODY_BYTES` as JSON."""
    said = {"number": number, "subject": "The build of billing is ready", "text": ""}
    return {**said, "text": "x" * (BODY_BYTES - len(msgspec.json.encode(said)))}


def _ask(line: Line, request: bytes) -> bytes:
    line.send(request)
    while (answer := line.receive()) is None:
        pass
    return answer


def _note_medians(bench: Bench, measured: dict[str, list[Sends]]) -> None:
    """Say what the servers and the client did, in absolute terms."""
    for name, of in measured.items():
        calls = [one.calls for one in of]
        client = quantile([one.cpu_seconds / one.seconds for one in calls], 0.5)
        warning = " – too busy, the figures are the client's" if client > CLIENT_NEAR_LIMIT else ""
        bench.note(
            f"  {name}: {quantile([one.per_second for one in calls], 0.5):,.0f} requests/s, "
            f"p50 {quantile([one.p50_ms for one in calls], 0.5):.1f} ms, "
            f"p99 {quantile([one.p99_ms for one in calls], 0.5):.1f} ms, answers of {calls[0].lengths} bytes; "
            f"the client used {client:.0%} of a core{warning}"
        )


def _figures(measured: dict[str, list[Sends]], latencies: list[Latencies]) -> list[Figure]:
    rates = {name: [one.calls.per_second for one in of] for name, of in measured.items()}
    p99 = {name: [one.calls.p99_ms for one in of] for name, of in measured.items()}
    cpu = {name: [one.cpu_us for one in of] for name, of in measured.items()}
    own, single = [one.broadcast for one in latencies], [one.single for one in latencies]

    def compared(
        name: str, of: dict[str, list[float]], unit: str, baseline: str, goal: float | None
    ) -> Figure:
        better = "higher" if unit == "/s" else "lower"
        return compare(
            f"{NAME}.{name}", of[POSTROOM], baseline, of[baseline], unit=unit, better=better, goal=goal
        )

    return [
        compared("sends", rates, "/s", QUART, GOAL_RATE),
        compared("sends", rates, "/s", ASGI, None),
        compared("sends_p99", p99, "ms", QUART, None),
        compared("sends_cpu", cpu, "µs", QUART, None),
        compare(f"{NAME}.broadcast", own, SINGLE, single, unit="ms", better="lower", goal=GOAL_BROADCAST),
    ]
