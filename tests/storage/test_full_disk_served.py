"""A disk that fills under the whole server: who sends is told 507, everybody else is served, and room ends it.

The web stack without sockets over the real storage, whose disk has as many bytes as a test gives it. The same on a real
file system: `tests/live/test_full_disk.py`.
"""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
import trio

from actors.commands import Deliver, DeliveryDraft
from actors.housekeeping import Housekeeper
from actors.units import Reading
from storage.clock import wall_clock_us
from storage.lock import DATABASE_NAME
from storage.options import StorageOptions
from storage.space import BATCH_ROOM_BYTES, RESERVE_NAME
from storage.sqlite import SqliteStore, open_store
from storage.verify import verify_file
from tests.contract.mail import DELIVERY
from tests.storage.faulty_vfs import FaultyDisk
from tests.wire.client import Reply
from tests.wire.harness import Wire, wire

MIB = 1024 * 1024
RESERVE_BYTES = MIB
CAPACITY = 5 * MIB + BATCH_ROOM_BYTES + RESERVE_BYTES
"""Room for some five dozen messages of `BODY`, beside what is kept free."""

BODY = b"x" * 50_000
LARGE = b"y" * 200_000
"""Stored before its message is, in pieces."""

MOST = 400
"""Messages after which a disk of that size must be full."""

BOUND_SECONDS = 60.0


class Served:
    """A server, its disk, and clients with every right."""

    def __init__(self, served: Wire, store: SqliteStore, disk: FaultyDisk, token: tuple[str, str]) -> None:
        self.served, self.store, self.disk = served, store, disk
        self._token = token
        world = served.world
        self._house = Housekeeper(store, world.registry, world.tokens, wall_clock_us)

    async def call(self, method: str, target: str, body: Any = None, token: Any = None) -> Reply:
        """Make a call on a connection of its own."""
        data = None if body is None else body if isinstance(body, bytes) else msgspec.json.encode(body)
        async with self.served.connect() as client:
            return await client.request(method, target, [token or self._token], data)

    async def send(self, body: bytes = BODY, slug: str = "demo") -> Reply:
        """Send a webhook."""
        return await self.call("POST", f"/in/{slug}", body)

    async def fill(self) -> int:
        """Send until the server says that it has no room; return how many were stored."""
        for n in range(MOST):
            reply = await self.send()
            if reply.status != 200:
                assert (reply.status, reply.code) == (507, "insufficient_storage")
                return n
        raise AssertionError("the disk never became full")

    async def latest(self, slug: str = "demo") -> int:
        """Return the number of the last message, as a reader is told."""
        reply = await self.call("GET", f"/v1/inboxes/{slug}/messages?limit=1")
        assert reply.status == 200, reply.body
        return int(reply.json["latest_seq"])

    async def keep_house(self) -> None:
        """What the housekeeper does when it is nudged."""
        await self._house.sweep()

    async def until_open(self) -> None:
        """Return when there is room again, which a full store looks for every `PROBE_SECONDS`."""
        while await self.state() != "open":
            await trio.lowlevel.checkpoint()

    async def state(self) -> str:
        """Return what `/readyz` says of the store."""
        return str((await self.call("GET", "/readyz")).json["store"])


@asynccontextmanager
async def serving(tmp_path: Path, capacity: int | None, **options: Any) -> AsyncIterator[Served]:
    disk = FaultyDisk()
    data = tmp_path / "data"
    disk.reserve = data / RESERVE_NAME
    disk.capacity = capacity
    sizes = {"reserve_bytes": RESERVE_BYTES, "wal_limit_bytes": RESERVE_BYTES // 2}
    kept = StorageOptions(data_dir=data, **sizes, **options)
    try:
        with trio.fail_after(BOUND_SECONDS):
            async with (
                open_store(kept, vfs=disk.name, free_bytes=disk.free) as store,
                wire(tmp_path, store=store, reading=True, administering=True) as served,
            ):
                await served.inbox("demo")
                yield Served(served, store, disk, await served.token())
                disk.heal()
    finally:
        disk.unregister()
    assert verify_file(data / DATABASE_NAME, lambda _: None).findings == ()


@pytest.fixture(params=["the disk", "max_data_bytes"])
def limited(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[], Any]:
    """Return what runs a server that has room for so much, by its disk or by its settings, and looks often for more."""
    monkeypatch.setattr("storage.upkeep.PROBE_SECONDS", 0.05)
    monkeypatch.setattr("storage.upkeep.IDLE_CHECKPOINT_SECONDS", 0.05)
    if request.param == "the disk":
        return lambda: serving(tmp_path, CAPACITY)
    return lambda: serving(tmp_path, None, max_data_bytes=5 * MIB)


async def test_what_retention_frees_lets_ingest_resume_without_a_restart(limited: Callable[[], Any]) -> None:
    async with limited() as at:
        stored = await at.fill()
        assert (await at.send(LARGE)).status == 507
        assert (await at.latest(), await at.state()) == (stored, "full")

        kept = {"retention": {"max_messages": 5}}
        assert (await at.call("PATCH", "/v1/inboxes/demo", kept)).status == 200
        await at.keep_house()
        await at.until_open()
        assert (await at.send(LARGE)).status == 200
        for n in range(12):
            assert (await at.send()).json["seq"] == stored + 2 + n, "and a refused one has taken no number"
            await at.keep_house()
        assert await at.state() == "open"
        page = await at.call("GET", "/v1/inboxes/demo/messages?limit=100")
        assert len(page.json["messages"]) == 5


async def test_a_disk_that_somebody_else_fills_stops_nobody_but_the_senders(tmp_path: Path) -> None:
    async with serving(tmp_path, 1 << 30) as at:
        world = at.served.world
        agent = await world.agent("a")
        token, text = world.tokens.draft("agent", inboxes=("demo",), agent="a")
        await world.tokens.create(token)
        for _ in range(6):
            assert (await at.send()).status == 200
        await at.served.inbox("other")
        drafts = await _as_deliveries(at)
        assert await world.registry.ask(agent.inbox_id, Deliver(drafts)) == (1, 2, 3, 4, 5, 6)

        at.disk.capacity = at.disk.used()
        bearer = ("Authorization", f"Bearer {text}")
        for body in (BODY, LARGE, b"", b"{}"):
            assert (await at.send(body)).status == 507
        pulled = await at.call("POST", "/v1/inbox:pull", {}, bearer)
        assert [item["delivery_seq"] for item in pulled.json["items"]] == [1, 2, 3, 4, 5, 6]
        acked = await at.call("POST", "/v1/inbox:pull", {"ack": 4}, bearer)
        assert (acked.status, acked.json["cursor"]) == (200, 4)
        assert (await at.call("GET", "/v1/inboxes/demo/messages/3")).status == 200
        assert (await at.call("GET", "/v1/inboxes/demo/wait?after=2")).status == 200
        assert (await at.call("PATCH", "/v1/inboxes/demo", {"name": "full"})).status == 200
        assert (await at.call("DELETE", "/v1/inboxes/other")).status == 204
        assert (await at.call("POST", "/v1/inboxes/demo:purge")).status == 200
        assert (await at.send()).status == 507, "somebody else still has the room"
        assert (await at.latest(), await at.state()) == (6, "full")

        at.disk.capacity = None
        assert (await at.send()).json["seq"] == 7
        assert await at.state() == "open"
        again = await at.call("POST", "/v1/inbox:pull", {}, bearer)
        assert (again.json["cursor"], [item["delivery_seq"] for item in again.json["items"]]) == (4, [5, 6])


async def _as_deliveries(at: Served) -> tuple[Any, ...]:
    """Return every message of the log as a delivery, as the router makes them."""
    found = await at.store.read(Reading(lambda snapshot: snapshot.routable(0, 100).rows))
    return tuple(
        DeliveryDraft(row.mid, row.event_type, row.verified, row.size, row.inbox_id, None, DELIVERY)
        for row in found
    )
