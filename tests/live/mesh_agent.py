"""An agent as a process of its own, for tests that kill it: it reads, handles and acknowledges its mail, and writes.

As a program it takes a `Job` as a line of JSON on stdin, and then a `Word` whenever its server is at another address or
the test comes to its end. On stdout it says what it does, an event of `Deed` on each line, before it asks and when it
was answered. So whoever reads along knows how far it was when it was killed, and tells the next process that speaks for
the same agent what is still to be sent. What it has read is forgotten: the server has to know that.
"""

import os
import random
import select
import sys
from collections.abc import Callable
from typing import TypeVar

import httpx
import msgspec

from postroom.client import Client, Refused, Unreachable
from postroom.mesh import Acked, Letter, Mesh

ANSWER_SECONDS = 20.0
"""For an answer: a server that is killed ends the connection at once, so a silence is a fault."""

IDLE_SECONDS = 0.05
"""Between two looks at an empty inbox."""

SENDS = 0.4
"""How often an agent writes, as long as it has something to write, instead of reading or acknowledging."""

BROADCASTS = 0.3
REACHES_THE_GONE = 0.7
"""How often a message to one agent is for it even when it is gone; the others are refused then."""

PEEKS = 0.4
"""How often a read marks nothing. What a killed process was served is seen by such a read alone."""

ACKS_AGAIN = 0.2
"""How often an acknowledgement names a message once more, or one of somebody else."""

LEAVES = 0.03
"""How often an agent says farewell, for a few steps: broadcasts go past it meanwhile."""

LIMITS = (3, 20, 100)
"""Of the reads: a few messages, some, and as many as an acknowledgement may name."""

DECLINED = ("not_found", "no_recipient")
"""How a message is refused whose recipients are gone."""

RECEIVED_BYTES = 65_536

T = TypeVar("T")


class Wish(msgspec.Struct, frozen=True):
    """A message to be sent: to one agent, or (None) to all."""

    key: str
    to: str | None
    require_alive: bool

    @property
    def sender(self) -> str:
        """Whose it is."""
        return self.key.rpartition(".")[0]

    @property
    def number(self) -> int:
        """Which of them."""
        return int(self.key.rpartition(".")[2])

    @property
    def payload(self) -> bytes:
        """What is said in it."""
        return msgspec.json.encode({"key": self.key, "to": self.to})


class Job(msgspec.Struct, frozen=True):
    """Who this is, and what it has to do. `url` is empty while the server is away. `others`: whom it may write to.

    `unanswered`: what was sent without an answer, and is to be sent again. `quota`: how many must still be sent, these
    among them; the keys of new ones count from `number`.
    """

    name: str
    token: str
    seed: int
    url: str
    finish: bool
    others: list[str]
    unanswered: list[Wish]
    number: int
    quota: int


class Word(msgspec.Struct, frozen=True):
    """What an agent is told: where its server is, and whether it should end when nothing is left to read."""

    url: str
    finish: bool


class Deed(msgspec.Struct, frozen=True, tag=True):
    """What an agent does."""


class Arrived(Deed, frozen=True):
    """It has checked in."""


class Leaving(Deed, frozen=True):
    """It says farewell."""


class Trying(Deed, frozen=True):
    """It is about to send a message."""

    wish: Wish


class Sent(Deed, frozen=True):
    """It was told that a message is stored, and for whom."""

    key: str
    id: str
    to: list[str]


class Declined(Deed, frozen=True):
    """It was told that a message has no recipient, so that nothing is stored."""

    key: str


class Paged(Deed, frozen=True):
    """It was served messages, as pairs of id and key."""

    peek: bool
    letters: list[tuple[str, str]]


class Acking(Deed, frozen=True):
    """It has handled these messages and is about to acknowledge them; `strange` are none of its own."""

    ids: list[str]
    strange: list[str]


class Answered(Deed, frozen=True):
    """What it was told of them."""

    acked: tuple[str, ...]
    already: tuple[str, ...]
    unknown: tuple[str, ...]


class Ended(Deed, frozen=True):
    """Nothing is left to read."""


AnyDeed = Arrived | Leaving | Trying | Sent | Declined | Paged | Acking | Answered | Ended


class Ears:
    """What comes on stdin, line by line."""

    def __init__(self) -> None:
        self._received = b""

    def line(self, seconds: float | None) -> bytes | None:
        """Return the next line; None when there is none within so many seconds (None: wait for it)."""
        while b"\n" not in self._received:
            if not select.select([0], (), (), seconds)[0]:
                return None
            received = os.read(0, RECEIVED_BYTES)
            if not received:
                raise SystemExit("stdin has ended")
            self._received += received
        line, _, self._received = self._received.partition(b"\n")
        return line


class Agent:
    """The agent at work. `owed`: what it has read and not acknowledged, by id."""

    def __init__(self, job: Job, ears: Ears, api: Client) -> None:
        self.job = job
        self.finish = job.finish
        self._ears = ears
        self._api = api
        self._mesh = Mesh(api, job.name)
        self._rng = random.Random(job.seed)
        self._number = job.number
        self._quota = job.quota
        self._owed: dict[str, None] = {}
        self._handled: list[str] = []
        self._foreign: list[str] = []

    def work(self) -> None:
        """Do what is to be done until the end was announced, and then read what is left."""
        if not self.job.url:
            self._hear(None)
        self._arrive()
        for wish in self.job.unanswered:
            self._send(wish)
        rng = self._rng
        while not self.finish:
            if rng.random() < LEAVES:
                self._leave()
            if self._quota > 0 and rng.random() < SENDS:
                self._send(self._next())
            elif self._owed and rng.random() < 0.5:
                self._ack(rng.sample(list(self._owed), rng.randint(1, len(self._owed))))
            elif not self._read(rng.random() < PEEKS, rng.choice(LIMITS)):
                self._hear(0 if self._quota > 0 or self._owed else IDLE_SECONDS)
        while self._read(True, max(LIMITS)):
            self._ack(list(self._owed))
        say(Ended())

    # -- presence ----------------------------------------------------------------------------------------
    def _arrive(self) -> None:
        there = self._ask(lambda: self._mesh.check_in(ttl_seconds=3600))
        assert there["shared_reader"] is False, "all processes of an agent are one session"
        say(Arrived())

    def _leave(self) -> None:
        say(Leaving())
        self._ask(self._mesh.check_out)
        for _ in range(self._rng.randint(0, 5)):
            self._read(self._rng.random() < PEEKS, self._rng.choice(LIMITS))
        self._arrive()

    # -- writing -----------------------------------------------------------------------------------------
    def _next(self) -> Wish:
        rng = self._rng
        to = None if rng.random() < BROADCASTS else rng.choice(self.job.others)
        self._number += 1
        return Wish(f"{self.job.name}.{self._number}", to, rng.random() >= REACHES_THE_GONE)

    def _send(self, wish: Wish) -> None:
        say(Trying(wish))
        how = {"idempotency_key": wish.key}
        try:
            if wish.to is None:
                answer = self._ask(lambda: self._mesh.broadcast(payload=wish.payload, **how))
            else:
                one, alive = wish.to, wish.require_alive
                answer = self._ask(
                    lambda: self._mesh.tell(one, payload=wish.payload, require_alive=alive, **how)
                )
        except Refused as refused:
            if refused.code not in DECLINED:
                raise
            say(Declined(wish.key))
            return
        self._quota -= 1
        self._foreign.append(answer["id"])
        say(Sent(wish.key, answer["id"], answer["delivered_to"]))

    # -- reading -----------------------------------------------------------------------------------------
    def _read(self, peek: bool, limit: int) -> bool:
        """Read a page and handle it; return whether anything is not acknowledged."""
        mail = self._ask(lambda: self._mesh.mail(peek=peek, limit=limit))
        assert mail.unread >= len(mail.messages), "a page of more than there is"
        say(Paged(peek, [(letter.id, self._key(letter)) for letter in mail.messages]))
        self._owed |= dict.fromkeys(letter.id for letter in mail.messages)
        return mail.unread > 0

    def _key(self, letter: Letter) -> str:
        """Handle a message: return its key, when it is one for this agent."""
        key, to = letter.said["payload"]["key"], letter.said["payload"]["to"]
        assert to in (None, self.job.name), f"{key} is for {to}"
        assert letter.sender == key.rpartition(".")[0] != self.job.name, f"{key} is from {letter.sender}"
        return str(key)

    def _ack(self, ids: list[str]) -> None:
        rng, strange = self._rng, []
        if self._handled and rng.random() < ACKS_AGAIN:
            ids = [*ids[1:], rng.choice(self._handled)]
        if self._foreign and rng.random() < ACKS_AGAIN:
            strange = [rng.choice(self._foreign)]
        ids = list(dict.fromkeys(ids))[: max(LIMITS) - len(strange)]
        say(Acking(ids, strange))
        answer: Acked = self._ask(lambda: self._mesh.ack([*ids, *strange]))
        say(Answered(answer.acked, answer.already_acked, answer.unknown))
        self._handled += ids
        for one in ids:
            self._owed.pop(one, None)

    # -- asking ------------------------------------------------------------------------------------------
    def _ask(self, call: Callable[[], T]) -> T:
        """Return the answer to a call, asked again on the next server whenever one goes away."""
        while True:
            try:
                return call()
            except Unreachable as error:
                if isinstance(error.__cause__, httpx.TimeoutException):
                    raise
                self._hear(None)

    def _hear(self, seconds: float | None) -> None:
        """Take over what the test says within so many seconds (None: however long that takes)."""
        line = self._ears.line(seconds)
        if line is not None:
            word = msgspec.json.decode(line, type=Word)
            self._api.url, self.finish = word.url or self._api.url, word.finish


def say(deed: Deed) -> None:
    """Say what is done. It is out when this returns, whatever becomes of the process."""
    sys.stdout.buffer.write(msgspec.json.encode(deed) + b"\n")
    sys.stdout.buffer.flush()


def main() -> None:
    """Do the job on stdin."""
    ears = Ears()
    job = msgspec.json.decode(ears.line(None) or b"", type=Job)
    with Client(job.url, job.token, read_seconds=ANSWER_SECONDS, session=job.name) as api:
        Agent(job, ears, api).work()


if __name__ == "__main__":
    main()
