"""What was answered is there, through `kill -9`: exactly once, in its place, byte for byte.

Each round sends from several connections at once and kills the process with SIGKILL at a random moment of the traffic:
at the n-th answer, in the middle of a large upload, or soon after a request is complete. The next start, on the same
data directory, must show every answered message under the seq and id of its answer, with its exact bytes; sequences
without holes; nothing twice; and the same epochs, for a crash is no new life. Then senders retry what was not answered,
as providers do, and no verified delivery may become two.

`--kill-rounds N` plays N rounds. A failing run prints its seed.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import count
from pathlib import Path

import trio

from tests.live.api import SECRET, Api, github_headers
from tests.live.harness import Server, connect
from tests.wire.client import Client, head

KIB = 1024

SIGNED = ("signed-a", "signed-b", "signed-c")
PLAIN = ("plain-a", "plain-b")

SENDERS = 8
"""Connections at once: enough that several messages share a commit."""

MOST_ANSWERS = 200
"""A kill comes after at most so many answers of its round, or requests: about half a second of traffic."""

MOST_UPLOADS = 12
"""The same in large uploads, which are one message in ten."""

MOST_STEPS = 40
"""Steps of the scheduler from a complete request to the kill: enough to fall before, into or after its commit."""

AGAIN = 0.2
"""How often the next start is killed too, as soon as it takes requests."""

RETRIED_ANYWAY = 5
"""Answered deliveries that are sent again in each round, as by a sender that lost the answer."""

ROUND_SECONDS = 60.0


@dataclass(eq=False)
class Sent:
    """One message that somebody tried to send.

    `place` (seq and id) is what the server answered, if it did; `stored` is where the message was found, if it was.
    Once it is settled nobody sends it again, and only the digest of its body is kept.
    """

    key: str
    slug: str
    body: bytes
    place: tuple[int, str] | None = None
    stored: tuple[int, str] | None = None
    settled: bool = False
    size: int = 0
    digest: bytes = b""

    def __post_init__(self) -> None:
        self.size = len(self.body)
        self.digest = sha256(self.body).digest()

    @property
    def signed(self) -> bool:
        """Whether it is a verified delivery, which may be retried without becoming two."""
        return self.slug in SIGNED

    @property
    def headers(self) -> dict[str, str]:
        """What a sender of this inbox sends along."""
        return github_headers(self.body, "push", f"delivery-{self.key}") if self.signed else {}

    @property
    def query(self) -> str:
        """What names the attempt in the stored message."""
        return f"key={self.key}"


@dataclass
class Kill:
    """The round's moment: after `countdown` moments of a kind.

    `cut` is where in an upload, as a portion of it; `steps` how long after a request was complete.
    """

    moment: str
    countdown: int
    cut: float
    steps: int


@dataclass
class Ledger:
    """Everything that was ever sent to the data directory, and what was counted for the report."""

    rng: random.Random
    epochs: dict[str, str] = field(default_factory=dict)
    sent: list[Sent] = field(default_factory=list)
    figures: dict[str, int] = field(default_factory=dict)
    keys: Iterator[int] = field(default_factory=count)

    def add(self, figure: str) -> None:
        """Count something."""
        self.figures[figure] = self.figures.get(figure, 0) + 1

    def next(self) -> Sent:
        """Make up a message: most are small, one in ten is kept in pieces, three in five are signed deliveries."""
        sizes = ((0, 2 * KIB), (2 * KIB, 64 * KIB), (64 * KIB + 1, 600 * KIB))
        low, high = self.rng.choices(sizes, (7, 2, 1))[0]
        body = self.rng.randbytes(self.rng.randint(low, high))
        self.sent.append(Sent(f"k{next(self.keys)}", self.rng.choice(SIGNED + PLAIN), body))
        self.add("attempts")
        return self.sent[-1]

    def plan(self) -> Kill:
        """Choose a moment."""
        moment = self.rng.choice(("answer", "upload", "request"))
        most = MOST_UPLOADS if moment == "upload" else MOST_ANSWERS
        return Kill(moment, self.rng.randint(0, most), self.rng.random(), self.rng.randint(0, MOST_STEPS))


def test_what_was_answered_survives_kill_minus_nine(tmp_path: Path, kill_rounds: int) -> None:
    seed = random.SystemRandom().getrandbits(32)
    print(f"seed {seed}")
    ledger = Ledger(random.Random(seed))
    with Server(tmp_path / "data") as server:
        prepare(server, ledger)
        for _ in range(kill_rounds):
            trio.run(play, server, ledger)
            server.start()
            if ledger.rng.random() < AGAIN:
                server.kill()
                ledger.add("killed again at the start")
                server.start()
            check(server, ledger)
            retry(server, ledger)
        assert server.stop() == 0
        server.start()
        check(server, ledger, every_body=True)
    for name, n in sorted(ledger.figures.items()):
        print(f"{name}: {n}")


def prepare(server: Server, ledger: Ledger) -> None:
    """Make the inboxes, and note their epochs."""
    with Api(server.url, server.token) as admin:
        for slug in SIGNED:
            admin.inbox(slug=slug, verifier="github", secret=SECRET)
        for slug in PLAIN:
            admin.inbox(slug=slug)
        ledger.epochs = {slug: admin.messages(slug)["epoch"] for slug in SIGNED + PLAIN}


# -- sending until the kill -------------------------------------------------------------------------------------


class Round:
    """The traffic of one round. `killed` is true from the very step in which the process got its signal."""

    def __init__(self, server: Server, ledger: Ledger) -> None:
        self.server = server
        self.ledger = ledger
        self.plan = ledger.plan()
        self.killed = False

    def is_due(self, moment: str) -> bool:
        """Whether this moment is the one; every other moment of its kind counts down."""
        if self.killed or moment != self.plan.moment:
            return False
        self.plan.countdown -= 1
        return self.plan.countdown < 0

    def kill(self) -> None:
        """Kill the server, once."""
        if not self.killed:
            self.killed = True
            self.server.kill()
            self.ledger.add(f"killed at: {self.plan.moment}")


async def play(server: Server, ledger: Ledger) -> None:
    """Send on all connections until the server is killed and every sender has noticed."""
    this = Round(server, ledger)
    with trio.fail_after(ROUND_SECONDS):
        async with trio.open_nursery() as nursery:
            for _ in range(SENDERS):
                nursery.start_soon(send, this)


async def send(this: Round) -> None:
    """Send one message after another on one connection, and note every answer."""
    async with await connect(this.server.port) as client:
        while True:
            sent = this.ledger.next()
            try:
                await upload(this, client, sent)
                reply = await client.reply()
            except trio.BrokenResourceError:
                break
            if not reply.complete:
                break
            assert reply.status == 200, reply
            sent.place = (reply.json["seq"], reply.json["id"])
            this.ledger.add("answered")
            if this.is_due("answer"):
                this.kill()
    assert this.killed, "the server ended a connection without being killed"


async def upload(this: Round, client: Client, sent: Sent) -> None:
    """Send one request; a large body in two parts, so that the kill can fall between them."""
    fields = [*sent.headers.items(), ("Content-Length", str(sent.size))]
    cut = int(sent.size * this.plan.cut) if sent.size > 64 * KIB else 0
    await client.send(head("POST", f"/in/{sent.slug}?{sent.query}", fields) + sent.body[:cut])
    if cut and this.is_due("upload"):
        this.kill()
    await client.send(sent.body[cut:])
    if this.is_due("request"):
        for _ in range(this.plan.steps):
            await trio.lowlevel.checkpoint()
        this.kill()


# -- after the restart --------------------------------------------------------------------------------------------


def check(server: Server, ledger: Ledger, *, every_body: bool = False) -> None:
    """Check that the store is what its answers promised."""
    by_key = {sent.key: sent for sent in ledger.sent}
    found: dict[str, tuple[int, str]] = {}
    with Api(server.url, server.token) as reader:
        for slug, epoch in ledger.epochs.items():
            last = 0
            for page in reader.forward(slug, limit=100):
                assert (page["epoch"], page["gap"]) == (epoch, False), "a crash is no new life"
                for message in page["messages"]:
                    last += 1
                    sent = by_key[message["untrusted"]["query"].removeprefix("key=")]
                    assert (message["seq"], message["inbox"]) == (last, sent.slug), "a hole, or a wrong place"
                    assert sent.key not in found, f"{sent.key} is there twice"
                    found[sent.key] = (message["seq"], message["id"])
                    assert message["size"] == sent.size
                    assert message["verified"] is (True if sent.signed else None)
            assert page["latest_seq"] == last
        assert len({id for _, id in found.values()}) == len(found)
        for sent in ledger.sent:
            place = found.get(sent.key)
            assert sent.place in (None, place), f"{sent.key} was answered {sent.place} and is at {place}"
            if place is not None and (every_body or sent.stored is None):
                raw = reader.call("GET", f"/inboxes/{sent.slug}/messages/{place[0]}/raw").content
                assert sha256(raw).digest() == sent.digest, f"{sent.key}: other bytes"
            sent.stored = place


def retry(server: Server, ledger: Ledger) -> None:
    """Send again what was not answered, as far as its sender may, and some of what was."""
    fresh = [sent for sent in ledger.sent if not sent.settled]
    answered = [sent for sent in fresh if sent.signed and sent.place is not None]
    again = ledger.rng.sample(answered, min(RETRIED_ANYWAY, len(answered)))
    with Api(server.url, server.token) as sender:
        for sent in fresh:
            if sent.place is None:
                ledger.add("unanswered, stored" if sent.stored else "unanswered, not stored")
            if not sent.signed or (sent.place is not None and sent not in again):
                continue
            reply = sender.post(sent.slug, sent.body, f"?{sent.query}", headers=sent.headers)
            place = (reply.json()["seq"], reply.json()["id"])
            is_duplicate = reply.headers.get("postroom-duplicate") == "true"
            assert is_duplicate == (sent.stored is not None)
            assert sent.stored in (None, place)
            ledger.add("retries" + (" that were duplicates" if is_duplicate else ", stored now"))
            sent.place = place
    for sent in fresh:
        sent.body, sent.settled = b"", True
