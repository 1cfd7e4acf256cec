"""Many inboxes: ten thousand that are written in turn against a single one, what each of them takes in memory while it
is in use, and what a hundred thousand take that nobody uses.

Messages are signed, deduplicated and durable, over as many connections as in the case `ingest`. The single inbox is of
the same server as the ten thousand, so caches and database are the same for both. Inboxes are made through the storage
layer. Memory is looked at in servers of their own: what was used once is not given back to the system.
"""

import secrets
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from actors.tokens import mint
from storage.options import StorageOptions
from storage.records import InboxListing, InboxSettings, NewInbox, Secret
from storage.secret import SecretBytes
from storage.sqlite import open_offline
from tests.bench.cases.ingest import CONNECTIONS, Measured, one_round
from tests.bench.client import Exchange, Line
from tests.bench.figures import Figure, compare, quantile
from tests.bench.harness import Bench, load
from tests.bench.processes import Server
from tests.bench.reading import get
from tests.bench.seeding import START_US, seed
from tests.bench.settling import settle
from tests.bench.signed import Deliveries
from tests.bench.subject import NotWhatItSays, served
from tests.contract.builders import See

NAME = "inboxes"

RATE_GOAL = 0.8
"""Of the rate of a single inbox."""

ACTIVE_KIB = 16.0
"""Of resident memory for an inbox that is in use."""

PASSIVE_MIB = 1.0
"""Of resident memory for all inboxes that nobody uses."""

ONE, MANY, PASSIVE = "one", "many", "passive"
LONE = "lone"
LISTED = 1000


class Sender:
    """Sends to the many inboxes in turn, and counts."""

    def __init__(self, port: int, secret: str, inboxes: int) -> None:
        self._port = port
        self._secret = secret
        self._inboxes = inboxes
        self._sent = 0

    def next(self, count: int) -> Deliveries:
        """Return the next messages, which go on with the inbox after the last one."""
        first, self._sent = self._sent, self._sent + count
        return Deliveries(
            self._port, MANY, self._secret, mint_prefix(), count, inboxes=self._inboxes, first=first
        )


def mint_prefix() -> str:
    """Return a beginning of delivery ids that no earlier server of the same data has seen."""
    return secrets.token_hex(4)


def measure(bench: Bench) -> list[Figure]:
    """Measure the case."""
    count = bench.effort.inboxes
    token, secret = mint("admin"), secrets.token_urlsafe(32)
    written = [_inbox(ONE, secret), *(_inbox(f"{MANY}-{n}", secret) for n in range(count))]
    passive = [_inbox(f"{PASSIVE}-{n}", secret) for n in range(bench.effort.passive_inboxes)]
    with tempfile.TemporaryDirectory(prefix="postroom-bench-", dir=bench.directory) as made:
        written_to, all_of_them, lone = Path(made, MANY), Path(made, PASSIVE), Path(made, LONE)
        for directory, inboxes in (
            (written_to, written),
            (all_of_them, [written[0], *passive]),
            (lone, written[:1]),
        ):
            directory.mkdir()
            with bench.steps(f"{NAME}: making {len(inboxes):,} inboxes", 1):
                seed(directory / "data", (), lambda rows: None, inboxes)
        resting: dict[str, list[float]] = {PASSIVE: [], LONE: []}
        kib: list[float] = []
        sent = 0
        with bench.steps(f"{NAME}, memory", bench.effort.long_rounds) as done:
            for _ in range(bench.effort.long_rounds):
                resting[PASSIVE].append(_at_rest(all_of_them, token))
                resting[LONE].append(_at_rest(lone, token))
                each, answers = _active(bench, written_to, token, secret)
                kib.append(each)
                sent += answers
                done(1)
        rounds, answers = _rates(bench, written_to, token, secret)
        _check(written_to, sent + answers)
    return _figures(bench, resting, kib, rounds)


def _inbox(slug: str, secret: str) -> NewInbox:
    shared = Secret("default", SecretBytes(secret.encode()), START_US)
    return NewInbox(slug, "webhook", "", InboxSettings(verifier="github"), (shared,))


@contextmanager
def _quiet(directory: Path, token: str) -> Iterator[Server]:
    """Start a server, have it answer a call, and wait until it has nothing to do."""
    with served(directory, token) as server:
        line = Line(server.port)
        try:
            line.send(get(server.port, "/v1/me", f"Authorization: Bearer {token}"))
            while line.receive() is None:
                pass
        finally:
            line.socket.close()
        settle(server)
        yield server


def _at_rest(directory: Path, token: str) -> float:
    """Return the resident MiB of a server that has just started."""
    with _quiet(directory, token) as server:
        return server.resident_bytes() / 1024**2


def _active(bench: Bench, directory: Path, token: str, secret: str) -> tuple[float, int]:
    """Return by how many KiB a server grows for each of its inboxes that gets a message, and how many were sent.

    Before, one inbox gets as many: what the server itself needs for that is not theirs.
    """
    count = bench.effort.inboxes
    with _quiet(directory, token) as server:
        warm = load(_to_one(server, secret, count), CONNECTIONS)
        settle(server)
        before = server.resident_bytes()
        spread = load(Sender(server.port, secret, count).next(count), CONNECTIONS)
        settle(server)
        each = (server.resident_bytes() - before) / count / 1024
        return each, len(warm.answers) + len(spread.answers)


def _to_one(server: Server, secret: str, count: int) -> Deliveries:
    return Deliveries(server.port, ONE, secret, mint_prefix(), count)


def _rates(bench: Bench, directory: Path, token: str, secret: str) -> tuple[dict[str, list[Measured]], int]:
    """Return the rounds of both, and how many messages were answered."""
    count = bench.effort.requests + CONNECTIONS
    answers = 0

    def sent(deliveries: Deliveries) -> Exchange:
        nonlocal answers
        exchange = load(deliveries, CONNECTIONS)
        answers += len(exchange.answers)
        return exchange

    with ExitStack() as stack:
        server = stack.enter_context(_quiet(directory, token))
        sender = Sender(server.port, secret, bench.effort.inboxes)
        sent(sender.next(bench.effort.inboxes))  # all of them are in use from now on
        contenders: dict[str, Callable[[int], Measured]] = {
            ONE: lambda number: one_round(server, lambda: sent(_to_one(server, secret, count))),
            MANY: lambda number: one_round(server, lambda: sent(sender.next(count))),
        }
        rounds = bench.rounds(NAME, contenders)
    return rounds, answers


def _check(directory: Path, answers: int) -> None:
    """Raise `NotWhatItSays` unless as many messages are stored as were answered."""
    stored, after = 0, ""
    with open_offline(StorageOptions(data_dir=directory / "data")) as store:
        while page := store.read(_after(after)):
            stored += sum(listing.head.live_rows for listing in page)
            after = page[-1].record.slug
    if stored != answers:
        raise NotWhatItSays(f"{answers:,} messages were answered, {stored:,} are stored")


def _after(slug: str) -> See[list[InboxListing]]:
    return See(lambda snapshot: snapshot.inboxes(None, slug, LISTED))


def _figures(
    bench: Bench, resting: dict[str, list[float]], kib: list[float], rounds: dict[str, list[Measured]]
) -> list[Figure]:
    grown = [more - one for more, one in zip(resting[PASSIVE], resting[LONE], strict=True)]
    rates = {name: [one.exchange.per_second for one in of] for name, of in rounds.items()}
    cpu = {name: [one.cpu_us for one in of] for name, of in rounds.items()}
    bench.note(
        f"{NAME}: {bench.effort.inboxes:,} in turn, {quantile(rates[MANY], 0.5):,.0f} messages/s against "
        f"{quantile(rates[ONE], 0.5):,.0f}; a server at rest takes {quantile(resting[LONE], 0.5):.1f} MiB with one "
        f"inbox, {quantile(resting[PASSIVE], 0.5):.1f} MiB with {bench.effort.passive_inboxes:,} more"
    )
    one = "a single inbox"
    at_most = {
        "memory": (kib, ACTIVE_KIB, "KiB"),
        "passive": (grown, PASSIVE_MIB, "MiB"),
    }
    return [
        compare(f"{NAME}.rate", rates[MANY], one, rates[ONE], unit="/s", better="higher", goal=RATE_GOAL),
        compare(f"{NAME}.cpu", cpu[MANY], one, cpu[ONE], unit="µs", better="lower"),
        *(
            compare(
                f"{NAME}.{name}",
                values,
                f"{limit:g} {unit}",
                [limit] * len(values),
                unit=unit,
                better="lower",
                goal=1.0,
            )
            for name, (values, limit, unit) in at_most.items()
        ),
    ]
