"""What the tests of the metrics begin with: a server without sockets whose figures are read as a scraper reads them."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import trio
from prometheus_client.parser import text_string_to_metric_families

from actors.housekeeping import Housekeeper
from storage.memory import MemoryStore
from storage.records import Retention
from tests.wire.client import Client, Reply
from tests.wire.harness import Wire, wire
from tests.wire.scene import LIMIT_SECONDS
from web.figures import CallFigures
from web.metrics.exposition import Metrics
from web.metrics.sources import Sources
from web.options import WebOptions

Sample = tuple[str, tuple[tuple[str, str], ...]]
"""The name and the labels of one value."""

Samples = dict[Sample, float]

SECRET = b"a secret of the tests"


class MetricsScene:
    """A server with two inboxes, `demo` (GitHub's signatures, one message kept) and `plain`, and an agent's token."""

    def __init__(self, served: Wire, store: MemoryStore, options: WebOptions, stack: AsyncExitStack) -> None:
        self.served = served
        self.world = served.world
        self.store = store
        self.calls = CallFigures()
        self.stack = stack
        self.gate = trio.Event()  # what a test may hold the store up with; open at the end
        self.admin: list[tuple[str, str]] = []
        self.agent: list[tuple[str, str]] = []
        self.keeper = Housekeeper(
            store, self.world.registry, self.world.tokens, lambda: 1_900_000_000_000_000
        )
        self.world.registry.on_garbage = self.keeper.nudge
        self.metrics = Metrics(
            Sources(
                service=served.service,
                options=options,
                ingest=served.front.ingest,
                requests=served.front.requests,
                slots=served.slots,
                pulse=served.pulse,
                connections=served.connections,
                authenticator=served.front._authenticator,
                housekeeping=self.keeper.figures,
                calls=self.calls,
                indexer=self.world.indexer,
            )
        )

    def scrape(self) -> Samples:
        """Return every value."""
        text = self.metrics.answer().body.decode()
        return {
            (sample.name, tuple(sorted(sample.labels.items()))): sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
        }

    async def ask(
        self, method: str, target: str, *headers: tuple[str, str], body: bytes | None = None
    ) -> Reply:
        """Make one call with the admin token, on a connection of its own."""
        async with self.served.connect() as client:
            return await client.request(method, target, [*self.admin, *headers], body)

    async def as_agent(self, method: str, target: str, body: bytes) -> Reply:
        """Make one call with the agent's token."""
        async with self.served.connect() as client:
            return await client.request(method, target, self.agent, body)

    async def post(self, slug: str = "plain", body: bytes = b"{}") -> Reply:
        """Send an unsigned message."""
        async with self.served.connect() as client:
            return await client.request("POST", f"/in/{slug}", body=body)

    async def keep_open(self) -> Client:
        """Open a connection that stays open until the end of the test."""
        return await self.stack.enter_async_context(self.served.connect())

    async def open_wait(self) -> Client:
        """Begin to wait on `plain`, for what comes from now on."""
        client = await self.keep_open()
        target = "/v1/inboxes/plain/wait?timeout_seconds=60&after=0"
        await client.send(
            f"GET {target} HTTP/1.1\r\nHost: x\r\n{self.admin[0][0]}: {self.admin[0][1]}\r\n\r\n".encode()
        )
        await trio.testing.wait_all_tasks_blocked()
        return client

    def adopt(self, **options: Any) -> None:
        """Reload the options."""
        self.served.front.adopt(WebOptions(**options))


Thing = Callable[[MetricsScene], Awaitable[None]]


@asynccontextmanager
async def metrics_scene(tmp_path: Path) -> AsyncIterator[MetricsScene]:
    store = MemoryStore()
    async with (
        wire(tmp_path, store=store, reading=True, routing=True, waking=True, indexing=True) as served,
        AsyncExitStack() as stack,
        trio.open_nursery() as nursery,
    ):
        with trio.fail_after(LIMIT_SECONDS):
            at = MetricsScene(served, store, served.front._options, stack)
            keeping = Retention(max_messages=1)
            await served.inbox("demo", {"default": SECRET}, verifier="github", retention=keeping)
            await served.inbox("plain")
            at.admin = [await served.token()]
            await at.world.agent("me")
            token, text = at.world.tokens.draft("agent", inboxes=None, agent="me")
            await at.world.tokens.create(token)
            at.agent = [("Authorization", f"Bearer {text}")]
            await nursery.start(at.keeper.run)
            yield at
        nursery.cancel_scope.cancel()
