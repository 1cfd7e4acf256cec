"""The simulated machine: the server lives and dies on it, over a disk and a network that outlive it.

The server is the program's own composition root, whole. Only three things are not the real ones: the store
(`disk.py`), the sockets (`ports.py`) and time.
"""

import math
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import msgspec
import trio

from actors.options import ActorOptions
from postroom import server
from postroom.config import Config, load
from postroom.server import Started
from storage.records import TokenRecord
from tests.simulation.disk import Disk
from tests.simulation.ledger import Ledger
from tests.simulation.ports import Network
from tests.simulation.promises import Promises
from tests.simulation.schedule import Shape, TimeOfDay, chance_of
from tests.virtual import pass_time
from web.front import Front
from web.pulse import Pulse
from web.upstream.connections import Connections

ADMIN_TOKEN = "prm_admin_" + "x" * 40

END_SECONDS = 60.0
"""An orderly end takes no longer, with the slowest disk."""

GRACE_SECONDS = 20.0
"""So long after trouble with the disk, and after a start, somebody may still be refused because of it: whoever tries
again does so after a pause of its own.
"""

QUIET_SECONDS = 120.0
"""When all have gone, the server has come to rest by then."""


class Machine:
    """One computer. `over` is set when nobody is to begin anything new; `calm` when there are no more troubles."""

    def __init__(
        self, seed: int, shape: Shape, day: TimeOfDay, data_dir: Path, nursery: trio.Nursery
    ) -> None:
        self.seed = seed
        self.shape = shape
        self.day = day
        self.ledger = Ledger(day.us)
        self.promises = Promises(self.ledger, slow="slow" in shape.spells)
        self.disk = Disk(shape, chance_of(seed, "disk"), day.us, self.ledger.committed, nursery)
        self.network = Network(chance_of(seed, "network"))
        self.chance = chance_of(seed, "machine")
        self.over = trio.Event()
        self.up = trio.Event()
        self.lives = 0
        self.front: Front | None = None
        self.connections: Connections | None = None
        self.pulse: Pulse | None = None
        self.service: Any = None
        self._nursery = nursery
        self._config = self._configured(data_dir)
        self._stopping = trio.Event()
        self._scope = trio.CancelScope()
        self._ended = trio.Event()
        self._changed_at = -math.inf

    def _configured(self, data_dir: Path) -> Config:
        return load(
            settings={
                "data_dir": data_dir,
                "auth_failures_per_minute": 0,
                "max_streams_per_inbox": self.shape.streams_per_inbox,
                "pull_max_batch": self.shape.pull_batch,
                "page_bytes": self.shape.page_bytes,
            },
            environment={"POSTROOM_ADMIN_TOKEN": ADMIN_TOKEN},
        )

    # -- its life -------------------------------------------------------------------------------------------
    async def start(self) -> None:
        """Start the server, and return when it answers."""
        self._launch()
        with trio.move_on_after(END_SECONDS) as bound:
            await self.up.wait()
        if bound.cancelled_caught:
            self.ledger.find("the server did not start")

    async def start_halfway(self) -> None:
        """Begin to start the server, and crash meanwhile."""
        self.ledger.note("machine: start halfway")
        self._launch()
        await pass_time(self.chance.uniform(0, 0.3))
        await self.crash()

    def _launch(self) -> None:
        self.lives += 1
        self._stopping, self._scope, self._ended = trio.Event(), trio.CancelScope(), trio.Event()
        self._nursery.start_soon(self._live, self._scope, self._stopping, self._ended)

    async def stop(self) -> None:
        """End the server in order, which must not take long."""
        self.ledger.note("machine: stop")
        self.changed()
        self._stopping.set()
        with trio.move_on_after(END_SECONDS) as bound:
            await self._ended.wait()
        if bound.cancelled_caught:
            self.ledger.find(f"the server did not end within {END_SECONDS:.0f} s")
            await self.crash()

    async def stop_halfway(self) -> None:
        """Begin to end the server in order, and crash meanwhile."""
        self.ledger.note("machine: stop halfway")
        self.changed()
        self._stopping.set()
        with trio.move_on_after(self.chance.uniform(0, 2)):
            await self._ended.wait()
            return
        await self.crash()

    async def crash(self) -> None:
        """End the process here and now."""
        self.ledger.note("machine: crash")
        self.changed()
        self.up = trio.Event()
        self.disk.crash()
        self.network.sever()
        self._scope.cancel()
        with trio.move_on_after(END_SECONDS) as bound:
            await self._ended.wait()
        if bound.cancelled_caught:
            self.ledger.find("something in the server outlives its cancellation")

    def changed(self) -> None:
        """Take note that who calls now may be refused: the server starts or ends."""
        self._changed_at = trio.current_time()

    @property
    def excused(self) -> bool:
        """Whether there is, or was a moment ago, a reason to refuse somebody."""
        since = trio.current_time() - GRACE_SECONDS
        return self.disk.spell != "" or max(self.disk.troubled_at, self._changed_at) >= since

    async def _live(self, scope: trio.CancelScope, stopping: trio.Event, ended: trio.Event) -> None:
        try:
            with scope:
                await server.run(self._config, stopping, self._ready, ports=self.network.ports)
        except* Exception as error:
            if not scope.cancel_called and not self.ledger.findings:
                self.ledger.find(f"the server ended by itself: {told(error)}")
        finally:
            self.front = self.connections = self.pulse = self.service = None
            self.up = trio.Event()
            self.changed()
            self.ledger.note("machine: the server has ended")
            ended.set()

    def _ready(self, started: Started) -> None:
        self.service = started.service
        self.promises.answering_since = trio.current_time()
        self.changed()
        if self.disk.opened is not None:
            self.disk.opened.awake = True
        self.ledger.note("machine: the server answers")
        self.up.set()

    def watched(self) -> AbstractContextManager[None]:
        """Return a context in which servers are made of this machine's parts."""
        real = server.serve_http

        async def serve_http(app: Front, *args: Any, **kwargs: Any) -> None:
            self.front, self.connections = app, kwargs["connections"]
            await real(app, *args, **kwargs)

        def pulse() -> Pulse:
            self.pulse = Pulse()
            return self.pulse

        @contextmanager
        def patched() -> Iterator[None]:
            made_of = patch.multiple(server, open_store=self.disk.open, serve_http=serve_http, Pulse=pulse)
            with made_of, patch.object(Config, "actors", self._options()):
                yield

        return patched()

    def _options(self) -> property:
        """Return the options of actors, some of which nobody can configure."""
        shape, configured = self.shape, Config.actors

        def options(config: Config) -> ActorOptions:
            return msgspec.structs.replace(
                configured.__get__(config),
                idle_seconds=shape.idle_seconds,
                known_inboxes=shape.known_inboxes,
                tail_bytes=shape.tail_bytes,
            )

        return property(options)

    # -- when all have gone -----------------------------------------------------------------------------------
    async def come_to_rest(self) -> None:
        """Wait until nothing is under way any more, and look whether everything was given back."""
        if await self._until(lambda: self._routed() and not self._held()):
            return
        if not self._routed():
            self.ledger.find("the router does not come to the end of the log")
        if self._held():
            self.ledger.find(f"not given back: {', '.join(self._held())}")

    async def compare(self) -> None:
        """Hold what the server has in memory against what is stored: whatever went wrong, they must come to agree."""
        service, state = self.service, self.disk.state
        for inbox in [inbox for inbox in state.inboxes.values() if inbox.alive]:
            found = await service.find(inbox.record.slug)
            if found != inbox.record:
                self.ledger.find(f"{inbox.record.slug} is {found} in memory, and {inbox.record} is stored")
        stored = {token.token_id: token for token in state.tokens.values() if token.revoked_at is None}
        if _without_use(service.tokens._by_id) != _without_use(stored):
            self.ledger.find(f"tokens in memory are {service.tokens._by_id}, and {stored} are stored")

    async def _until(self, condition: Callable[[], bool]) -> bool:
        with trio.move_on_after(QUIET_SECONDS):
            while not condition():
                await pass_time(1.0)
            return True
        return False

    def _routed(self) -> bool:
        router = None if self.service is None else self.service.router
        return router is not None and router.routed_mid >= self.disk.state.last_mid

    def _held(self) -> list[str]:
        """Name what is held though nobody is there."""
        front, connections, service = self.front, self.connections, self.service
        if front is None or connections is None or service is None:
            return ["the server is not there"]
        in_flight = front.ingest.in_flight
        actors = service._registry._actors.values()
        held = {
            "slots": 0 if front._slots is None else front._slots.taken,
            "inboxes with slots": 0 if front._slots is None else len(front._slots._by_inbox),
            "bytes of bodies": in_flight.small + in_flight.large,
            "connections": len(connections.live),
            "watchers": sum(len(actor.live.watchers) for actor in actors),
            "reads": self.disk.under_way,
            "streams": 0 if self.pulse is None else self.pulse.streams,
            "tokens that are watched": len(service.tokens._watchers),
        }
        return [f"{count} {what}" for what, count in held.items() if count]


def _without_use(tokens: Mapping[str, TokenRecord]) -> dict[str, TokenRecord]:
    """Return tokens without what is written down late on purpose."""
    return {name: msgspec.structs.replace(token, last_used_at=None) for name, token in tokens.items()}


def told(error: BaseException) -> str:
    """Return what an exception is, and where it was raised."""
    if isinstance(error, BaseExceptionGroup):
        return ", ".join(map(told, error.exceptions))
    frames = traceback.extract_tb(error.__traceback__)[-3:]
    where = " < ".join(f"{Path(frame.filename).name}:{frame.lineno}" for frame in reversed(frames))
    return f"{type(error).__name__}: {error} ({where})"
