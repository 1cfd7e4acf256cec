"""Agents as processes that share a machine's token, a server, and somebody who kills all of them.

`Crew` starts the processes of `mesh_agent.py`, follows what they say, kills one of them or the server in the very step
in which it hears of the moment that was drawn, or a little later, and starts again what was killed. What is told of is
checked against what is known: an answer is never taken back. It ends when everybody has handled all that it was sent.
"""

import os
import random
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

import msgspec
import trio

from tests.live.harness import Server
from tests.live.mesh_agent import (
    Acking,
    Answered,
    AnyDeed,
    Declined,
    Deed,
    Ended,
    Job,
    Paged,
    Sent,
    Trying,
    Wish,
    Word,
)

MOMENTS: tuple[type[Deed], ...] = (Trying, Sent, Paged, Acking, Answered)
"""A kill comes with one of these: before a message or an acknowledgement, after its answer, or when mail was served."""

LATER_SECONDS = 0.04
"""A kill that does not come at once comes within this."""

AGAIN = 0.2
"""How often the next start is killed too, while agents come back and the router does what the last one has left."""

_deed = msgspec.json.Decoder(AnyDeed)

Pair = tuple[str, str]
"""A message's id and an agent."""


@dataclass(frozen=True)
class Kill:
    """A kill of the server, or of an agent: `seconds` after the next moment of a kind, once there is this progress."""

    of_server: bool
    progress: int
    moment: type[Deed]
    seconds: float


def draw(rng: random.Random, server_kills: int, agent_kills: int, progress: int) -> list[Kill]:
    """Draw so many kills, spread over so much progress: messages answered and acknowledgements answered, in all."""
    whom = [True] * server_kills + [False] * agent_kills
    return [
        Kill(
            of_server,
            rng.randrange(progress),
            rng.choice(MOMENTS),
            rng.choice((0.0, rng.uniform(0, LATER_SECONDS))),
        )
        for of_server in whom
    ]


@dataclass
class Ledger:
    """What the agents have said, all together.

    `wishes`: what was tried, by key; `sent`: the id of what was stored, and whom it is for; `keys`: the key of what was
    served, by id. `due`: what must be handled, and by whom; `served`: by a read that marks; `acked`: acknowledged, and
    answered as the first time; `known`: answered as that, or as a later time.
    """

    wishes: dict[str, Wish] = field(default_factory=dict)
    sent: dict[str, tuple[str, frozenset[str]]] = field(default_factory=dict)
    declined: set[str] = field(default_factory=set)
    keys: dict[str, str] = field(default_factory=dict)
    due: set[Pair] = field(default_factory=set)
    handled: set[Pair] = field(default_factory=set)
    served: set[Pair] = field(default_factory=set)
    acked: set[Pair] = field(default_factory=set)
    known: set[Pair] = field(default_factory=set)
    figures: Counter[str] = field(default_factory=Counter)

    def take(self, name: str, deed: AnyDeed, strange: Sequence[str]) -> None:
        """Take over what an agent says. `strange`: what it acknowledges at the moment and is not its own."""
        match deed:
            case Trying(wish):
                self.figures["messages asked again"] += wish.key in self.wishes
                assert self.wishes.setdefault(wish.key, wish) == wish
            case Sent(key, id, to):
                told = (id, frozenset(to))
                assert self.sent.setdefault(key, told) == told, f"{key} has become another message"
                wish = self.wishes[key]
                assert name not in to if wish.to is None else to == [wish.to]
                self.due |= {(id, one) for one in to}
            case Declined(key):
                assert key not in self.sent, f"{key} was stored, and has no recipient"
                self.declined.add(key)
            case Paged(peek, letters):
                for id, key in letters:
                    self._serve(name, peek, id, key)
            case Answered(acked, already, unknown):
                assert sorted(unknown) == sorted(strange), "an id of its own is unknown, or another's is not"
                for id in acked:
                    assert (id, name) not in self.acked, f"{id} was acknowledged twice by {name}"
                    self.acked.add((id, name))
                self.known |= {(id, name) for id in (*acked, *already)}
                self.figures["acknowledged again"] += len(already)
            case _:
                pass

    def _serve(self, name: str, peek: bool, id: str, key: str) -> None:
        assert self.keys.setdefault(id, key) == key
        assert (id, name) not in self.known, f"{key} is acknowledged, and was served to {name} again"
        if not peek:
            assert (id, name) not in self.served, f"{key} was served to {name} twice"
            self.served.add((id, name))
        self.figures["served again" if (id, name) in self.handled else "served"] += 1
        self.handled.add((id, name))

    def to_do(self, name: str) -> tuple[list[Wish], int]:
        """Return what an agent has tried to send without an answer, and the number of the last key that it has used."""
        own = [wish for wish in self.wishes.values() if wish.sender == name]
        unanswered = [wish for wish in own if wish.key not in self.sent and wish.key not in self.declined]
        return unanswered, max((wish.number for wish in own), default=0)

    def sent_by(self, name: str) -> int:
        """Return how many messages of an agent are stored."""
        return sum(self.wishes[key].sender == name for key in self.sent)


class Member:
    """An agent and the process that speaks for it. `strange`: as in `Ledger.take`."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.strange: list[str] = []
        self.killed = False
        self.ended = False
        self._process: trio.Process | None = None

    async def live(self, job: Job, hear: Callable[[AnyDeed], None]) -> int:
        """Run one process to its end and return its exit code, after `hear` was called for all that it has said."""
        self.killed = self.ended = False
        self._process = process = await trio.lowlevel.open_process(
            [sys.executable, "-m", "tests.live.mesh_agent"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            async with process.stdin, process.stdout:
                self.tell(job)
                received = b""
                async for some in process.stdout:
                    *lines, received = (received + some).split(b"\n")
                    for line in lines:
                        hear(_deed.decode(line))
                return await process.wait()
        finally:
            with trio.CancelScope(shield=True):
                process.kill()
                await process.wait()

    def tell(self, word: Word | Job) -> None:
        """Say something to the process, if there is one that still hears. The pipe has room for all such words."""
        process = self._process
        if process is not None and process.returncode is None:
            assert isinstance(process.stdin, trio.lowlevel.FdStream)
            with suppress(BrokenPipeError):
                os.write(process.stdin.fileno(), msgspec.json.encode(word) + b"\n")

    def kill(self) -> bool:
        """Kill the process; return whether there was one."""
        process = self._process
        if process is None or process.returncode is not None or self.killed or self.ended:
            return False
        self.killed = True
        process.kill()
        return True


class Crew:
    """The agents, their server, and whoever kills them."""

    def __init__(
        self, server: Server, token: str, names: Sequence[str], quota: int, rng: random.Random
    ) -> None:
        """`quota`: messages that each agent sends."""
        self.ledger = Ledger()
        self.kills: list[Kill] = []
        self._server = server
        self.token = token
        self._members = [Member(name) for name in names]
        self._quota = quota
        self._rng = rng
        self._url = server.url
        self._finish = False
        self._down = trio.Event()

    async def play(self, kills: Sequence[Kill], examine: Callable[[], None]) -> None:
        """Have everything sent, handled and acknowledged, through these kills; the server runs at the end.

        `examine` is called whenever the server was killed. `kills` has then those that did not come to it.
        """
        self.kills = list(kills)
        async with trio.open_nursery() as keeping:
            keeping.start_soon(self._keep_a_server, examine)
            async with trio.open_nursery() as nursery:
                for member in self._members:
                    nursery.start_soon(self._keep, member, keeping)
            keeping.cancel_scope.cancel()
        if not self._url:
            self._server.start()

    # -- agents ------------------------------------------------------------------------------------------
    async def _keep(self, member: Member, keeping: trio.Nursery) -> None:
        """Run processes for an agent until one of them has come to its end."""
        while not member.ended:
            code = await member.live(self._job(member), lambda deed: self._hear(member, deed, keeping))
            assert code == (0 if member.ended and not code else -signal.SIGKILL), f"{member.name}: {code}"
            assert member.ended or member.killed, f"{member.name} was killed, and not by us"

    def _job(self, member: Member) -> Job:
        unanswered, number = self.ledger.to_do(member.name)
        others = [other.name for other in self._members if other is not member]
        quota = self._quota - self.ledger.sent_by(member.name)
        seed = self._rng.getrandbits(32)
        return Job(member.name, self.token, seed, self._url, self._finish, others, unanswered, number, quota)

    def _hear(self, member: Member, deed: AnyDeed, keeping: trio.Nursery) -> None:
        if isinstance(deed, Acking):
            member.strange = deed.strange
        member.ended = isinstance(deed, Ended)
        ledger = self.ledger
        ledger.take(member.name, deed, member.strange)
        if not self._finish and len(ledger.sent) == self._quota * len(self._members):
            self._finish = ledger.due <= ledger.handled
            if self._finish:
                self._tell_all()
        self._kill_now_or_later(member, deed, keeping)

    def _tell_all(self) -> None:
        for member in self._members:
            member.tell(Word(self._url, self._finish))

    # -- kills -------------------------------------------------------------------------------------------
    def _kill_now_or_later(self, member: Member, deed: AnyDeed, keeping: trio.Nursery) -> None:
        progress = len(self.ledger.sent) + len(self.ledger.acked)
        for kill in self.kills:
            if progress >= kill.progress and isinstance(deed, kill.moment):
                self.kills.remove(kill)
                if kill.seconds:
                    keeping.start_soon(self._kill_later, kill, member)
                elif not self._kill(kill, member):
                    self.kills.append(kill)  # it comes when there is somebody to be killed
                return

    async def _kill_later(self, kill: Kill, member: Member) -> None:
        with trio.move_on_after(kill.seconds):
            await trio.sleep_forever()
        if not self._kill(kill, member):
            self.kills.append(kill)

    def _kill(self, kill: Kill, member: Member) -> bool:
        done = self._kill_the_server() if kill.of_server else member.kill()
        if done:
            whom, when = "the server" if kill.of_server else "an agent", kill.moment.__name__.lower()
            self.ledger.figures[f"kills of {whom}"] += 1
            self.ledger.figures[f"kills of {whom}: {when}{', later' if kill.seconds else ''}"] += 1
        return done

    def _kill_the_server(self) -> bool:
        if not self._url:
            return False
        self._url = ""
        self._server.kill()
        self._down.set()
        return True

    async def _keep_a_server(self, examine: Callable[[], None]) -> None:
        """Start the server again whenever it was killed, and say where it is."""
        while True:
            await self._down.wait()
            with trio.CancelScope(shield=True):
                examine()
                await trio.to_thread.run_sync(self._server.start)
                while self._rng.random() < AGAIN:
                    self._url = self._server.url
                    self._tell_all()
                    with trio.move_on_after(self._rng.uniform(0, LATER_SECONDS)):
                        await trio.sleep_forever()
                    self._kill_the_server()
                    self.ledger.figures["kills of the server soon after a start"] += 1
                    examine()
                    await trio.to_thread.run_sync(self._server.start)
                self._down = trio.Event()
                self._url = self._server.url
                self._tell_all()
