"""Agents on one machine's token, each a process, write to each other through `kill -9` of themselves and of the server.

In the end every message is acknowledged by each of its recipients, by each exactly once; nobody was left out, and
nothing came to anybody else. What is there after each kill of the server is read from a copy: every answer that an
agent was given before is in it.

`--kill-rounds N` asks for 20 N messages, N kills of agents and half as many of the server, and from 100 on for 20
agents. A failing run prints its seed.
"""

import random
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import NamedTuple

import msgspec
import trio
from ulid import ULID

from postroom.client import Client
from postroom.mesh import Mesh
from storage.mail_records import SELF
from tests.live.api import Api
from tests.live.autopsy import opened
from tests.live.harness import Server
from tests.live.mesh_agent import BROADCASTS
from tests.live.mesh_crew import Crew, Kill, Ledger, draw

MACHINE = "box"

FEWEST_AGENTS, MOST_AGENTS = 4, 20
ROUNDS_OF_AN_AGENT = 5
ROUNDS_OF_A_SERVER_KILL = 2
MESSAGES_OF_A_ROUND = 20

SECONDS_OF_A_ROUND = 15.0
"""Far more than the two or three that one takes, its kills and starts included."""

UNDER_FIRE = 0.8
"""The part of all answers within which kills are drawn: nearly everything that is sent and acknowledged."""

ALL_SURE = 10
"""From so many rounds on, kills must have come to both; with fewer, none may be drawn for the server."""

SENT_PAGE = 100

_MESSAGES = "SELECT id, body FROM message"
_RECEIPTS = """
SELECT m.id, a.agent_id, r.seq, r.stored_at, r.served_at, r.acked_at, r.expired_at
FROM receipt r JOIN message m USING (mid) JOIN agent a USING (inbox_id)
"""
_ENTRIES = """
SELECT m.id, a.agent_id, e.seq FROM entry e JOIN message m USING (mid) JOIN agent a ON a.inbox_id = e.inbox_id
"""
_READERS = """
SELECT a.agent_id, r.ack_cursor, r.acked, r.served FROM reader r JOIN agent a USING (inbox_id) WHERE r.name = ?
"""


class Receipt(NamedTuple):
    """What the store says of one message at one agent; times in µs."""

    seq: int | None
    stored_at: int | None
    served_at: int | None
    acked_at: int | None
    expired_at: int | None


class _Payload(msgspec.Struct):
    key: str


_payload = msgspec.json.Decoder(_Payload)


@dataclass(frozen=True)
class Store:
    """What a data directory holds: the key of each message by its id, the receipts and the entries by message id and
    agent, and how far each agent has acknowledged, with what it has marked above.
    """

    keys: dict[str, str]
    receipts: dict[tuple[str, str], Receipt]
    entries: dict[tuple[str, str], int]
    readers: dict[str, tuple[int, bytes, bytes]]


def test_agents_hear_of_everything_once_through_kills_of_themselves_and_of_the_server(
    tmp_path: Path, kill_rounds: int
) -> None:
    seed = random.SystemRandom().getrandbits(32)
    print(f"seed {seed}")
    rng = random.Random(seed)
    names = [f"a{n}" for n in range(min(MOST_AGENTS, max(FEWEST_AGENTS, kill_rounds // ROUNDS_OF_AN_AGENT)))]
    quota = MESSAGES_OF_A_ROUND * kill_rounds // len(names)
    with Server(tmp_path / "data") as server:
        crew = Crew(server, furnish(server, names), names, quota, rng)
        deaths = Deaths(server, tmp_path, crew.ledger)
        answers = quota * len(names) * (2 + BROADCASTS * (len(names) - 2))
        kills = draw(rng, kill_rounds // ROUNDS_OF_A_SERVER_KILL, kill_rounds, int(answers * UNDER_FIRE))
        began = monotonic()
        trio.run(play, crew, kills, deaths, SECONDS_OF_A_ROUND * max(kill_rounds, ALL_SURE))
        seconds = monotonic() - began
        check_what_senders_are_shown(server, crew, names)
        assert server.stop() == 0
        store = deaths.examine()
    check_that_all_is_done(store, crew.ledger, names)
    figures = crew.ledger.figures
    figures["messages"] = len(crew.ledger.sent)
    figures["of them broadcasts"] = sum(crew.ledger.wishes[key].to is None for key in crew.ledger.sent)
    figures["messages without a recipient"] = len(crew.ledger.declined)
    figures["deliveries"] = len(crew.ledger.due)
    figures["acknowledgements answered"] = len(crew.ledger.acked)
    figures["acknowledgements whose answer was lost"] = len(crew.ledger.due - crew.ledger.acked)
    figures["kills that were not needed"] = len(crew.kills)
    for name, n in sorted(figures.items()):
        print(f"{name}: {n}")
    print(f"{len(names)} agents, {seconds:.1f} s")
    if kill_rounds >= ALL_SURE:
        assert min(figures["kills of the server"], figures["kills of an agent"]) > 0


async def play(crew: Crew, kills: list[Kill], deaths: "Deaths", seconds: float) -> None:
    """Let everything happen. Fails with what is missing when it does not come to its end."""
    with trio.move_on_after(seconds) as spent:
        await crew.play(kills, deaths.examine)
    ledger = crew.ledger
    assert not spent.cancelled_caught, (
        f"{len(ledger.sent)} messages are sent; not handled: {sorted(ledger.due - ledger.handled)}; "
        f"not acknowledged: {len(ledger.due - ledger.known)}"
    )


def furnish(server: Server, names: list[str]) -> str:
    """Make the machine and its agents; return the machine's token."""
    with Api(server.url, server.token) as admin:
        admin.ok("POST", "/machines", {"name": MACHINE}, status=201)
        for name in names:
            admin.ok("POST", "/agents", {"agent_id": name, "machine": MACHINE}, status=201)
        form = {"kind": "machine", "machine": MACHINE, "inboxes": []}
        return str(admin.ok("POST", "/tokens", form, status=201)["token"])


# -- after a kill -------------------------------------------------------------------------------------------------


class Deaths:
    """What was found after each kill, the last time, so that nothing can change that must stay."""

    def __init__(self, server: Server, folder: Path, ledger: Ledger) -> None:
        self._server = server
        self._folder = folder
        self._ledger = ledger
        self._before: dict[tuple[str, str], Receipt] = {}

    def examine(self) -> Store:
        """Check that what agents were answered is in the store, and that what was there before is as it was."""
        assert "locked" not in self._server.output
        assert "Traceback" not in self._server.output
        store = read(self._folder / "data", self._folder / "copy")
        ledger = self._ledger
        recipients: dict[str, set[str]] = {}
        for id, name in store.receipts:
            recipients.setdefault(id, set()).add(name)
        for key, (id, to) in ledger.sent.items():
            assert store.keys.get(id) == key, f"{key} was answered, and is gone"
            assert recipients[id] == to, f"{key} is for others than its sender was told"
        for pair in ledger.known:
            assert store.receipts[pair].acked_at is not None, f"{pair} was acknowledged, and is not"
        for pair in ledger.served:
            assert store.receipts[pair].served_at is not None, f"{pair} was served, and is not marked"
        for pair, before in self._before.items():
            now = store.receipts[pair]
            assert all(new == old for new, old in zip(now, before, strict=True) if old is not None), pair
        assert store.entries == {pair: one.seq for pair, one in store.receipts.items() if one.seq is not None}
        self._before = store.receipts
        late = sum(one.seq is None for one in store.receipts.values())
        ledger.figures["kills between commit and routing"] += late > 0
        ledger.figures["kills between commit and routing: deliveries to come"] += late
        return store


def read(data_dir: Path, copy_dir: Path) -> Store:
    """Return what is in the store of a server that does not run."""
    with opened(data_dir, copy_dir) as db:
        keys = {text(id): _payload.decode(body).key for id, body in db.execute(_MESSAGES)}
        entries = Counter((text(id), name) for id, name, _ in db.execute(_ENTRIES))
        assert len(set(keys.values())) == len(keys), "a message was stored twice"
        assert set(entries.values()) <= {1}, "an agent has a message twice"
        return Store(
            keys,
            {(text(id), name): Receipt(*rest) for id, name, *rest in db.execute(_RECEIPTS)},
            {(text(id), name): seq for id, name, seq in db.execute(_ENTRIES)},
            {name: (cursor, acked, served) for name, cursor, acked, served in db.execute(_READERS, (SELF,))},
        )


def text(id: bytes) -> str:
    """Return an id as the API writes it."""
    return str(ULID.from_bytes(id))


# -- in the end ---------------------------------------------------------------------------------------------------


def check_what_senders_are_shown(server: Server, crew: Crew, names: list[str]) -> None:
    """Check that each sender sees each of its messages acknowledged by each of its recipients."""
    for name in names:
        shown: dict[str, dict[str, dict[str, str]]] = {}
        with Client(server.url, crew.token) as api:
            before = None
            while page := Mesh(api, name).sent(limit=SENT_PAGE, before=before)["messages"]:
                shown |= {one["id"]: {at["agent_id"]: at for at in one["recipients"]} for one in page}
                before = page[-1]["id"]
        own = {id: to for key, (id, to) in crew.ledger.sent.items() if crew.ledger.wishes[key].sender == name}
        assert {id: set(recipients) for id, recipients in shown.items()} == own
        for recipients in shown.values():
            for at in recipients.values():
                assert at["stored_at"] <= at["served_at"] <= at["acked_at"]
                assert at["expired_at"] is None


def check_that_all_is_done(store: Store, ledger: Ledger, names: list[str]) -> None:
    """Check that the store holds exactly what was sent, and that all of it is acknowledged by those it is for."""
    assert store.keys == {id: key for key, (id, _) in ledger.sent.items()}
    assert ledger.handled == ledger.due == store.receipts.keys() == store.entries.keys()
    for pair, receipt in store.receipts.items():
        assert receipt.expired_at is None, pair
        _, stored_at, served_at, acked_at, _ = receipt
        assert 0 < (stored_at or 0) <= (served_at or 0) <= (acked_at or 0), pair
    for name in names:
        cursor, acked, served = store.readers[name]
        assert cursor == sum(one == name for _, one in ledger.due)
        assert (acked, served) == (b"[]", b"[]")
