"""A server under flood and the honest client beside it: what every flood is judged by.

The server is the program; its memory is counted from its start, the honest client's times against its own just before
the flood, and what is held after the flood against what was held before.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from tests.bench.beside import Beside, beside
from tests.bench.reading import Reader
from tests.floods.accounting import Books, Holding
from tests.floods.honest import Client, Times
from tests.live.api import Api
from tests.live.harness import Server

SLOWER = 5.0
"""How many times its usual time the honest client may have to wait, in the median of each kind of answer."""

MEMORY_MIB = 512.0

MOMENT_MS = 20.0
"""What a small flood may add to that. It lasts for a second or less, in which the honest client asks perhaps ten times,
while the rest of the suite has the other core: such a median is not worth more. A full flood has no such allowance.
"""

USUAL_ROUNDS = 25
"""Rounds of the honest client before a flood: half a second."""

ADMINISTRATORS = 2
"""Connections that stay open for the whole test."""

HONEST = "honest"
"""The inbox of the honest client. It has a token of its own, for this inbox alone."""


class Scene:
    """A server, its administrator, and the honest client. Made by `scene`."""

    def __init__(self, server: Server, api: Api, client: Beside, allowed_ms: float) -> None:
        self._allowed_ms = allowed_ms
        self.server = server
        self.api = api
        self.books = Books(server)
        api.inbox(slug=HONEST)
        api.send(HONEST)  # the administrator's two connections are open from here on
        self._client = client
        self._reader = Reader(server.port, HONEST, api.agent([HONEST]))
        self._ask(rounds=3)  # what is made on first use is there
        self._before = self._settled()

    @property
    def port(self) -> int:
        """The server's."""
        return self.server.port

    @contextmanager
    def honest_client_beside(self) -> Iterator[None]:
        """Have the honest client ask before the block, which is the flood, and while it runs. Fails when it is refused,
        or slower than it may be.
        """
        usual = self._ask(rounds=USUAL_ROUNDS).medians
        self._before = self._settled()
        began = time.monotonic()
        self._client.ask(msgspec.json.encode(Client(self._reader)), Times)
        yield
        times = self._client.ask(b"", Times)
        under = times.medians
        print(f"{len(times.send)} rounds of the honest client in {time.monotonic() - began:.1f} s of flood")
        for name in usual:
            slower = under[name] / usual[name]
            longest = max(getattr(times, name))
            print(
                f"{name}: {usual[name]:.2f} ms usually, {under[name]:.2f} ms under the flood ({slower:.1f} times), "
                f"{longest:.0f} ms the longest"
            )
        assert all(under[name] <= SLOWER * usual[name] + self._allowed_ms for name in usual), (usual, under)

    def all_is_given_back(self) -> None:
        """Check that the server holds what it held before the flood, and has never needed more memory than it may."""
        seconds = self.books.until_given_back(self._before)
        peak = self.books.peak_mib()
        print(f"as before after {seconds:.1f} s: {msgspec.structs.asdict(self._before)}; peak {peak:.0f} MiB")
        assert peak < MEMORY_MIB
        self._ask(rounds=3)

    def _ask(self, rounds: int) -> Times:
        self._client.ask(msgspec.json.encode(Client(self._reader, rounds)), Times)
        return self._client.hear(Times)

    def _settled(self) -> Holding:
        """Return what is held when the honest client has left."""
        return self.books.until(lambda holding: holding.connections <= ADMINISTRATORS)


@contextmanager
def scene(data_dir: Path, *, allowed_ms: float = 0.0, **settings: object) -> Iterator[Scene]:
    """Run a server with these settings, and the honest client; `allowed_ms` is added to what it may have to wait. The
    server must end in order.
    """
    with (
        Server(data_dir, metrics_bind="127.0.0.1:0", **settings) as server,
        Api(server.url, server.token) as api,
        beside("tests.floods.honest") as client,
    ):
        server.wait_for_output("metrics ready")
        yield Scene(server, api, client, allowed_ms)
        assert server.stop() == 0
        assert "Traceback" not in server.output
