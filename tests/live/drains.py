"""Agents that drain their inboxes while servers come and go, and what must be true of every page that they are served.

Each remembers what it was told before it asked, so that an answer can be held against it: a cursor never moves back,
what was acknowledged is not served again, and a message has one number for ever.
"""

import random
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import msgspec

from postroom.client import Client
from postroom.deliveries import Item
from postroom.draining import Drainer
from tests.live.harness import Server
from tests.live.mailroom import Agent, Ledger, key_of

HASTE = 20
"""The library comes back to a server that was away after 2 s and more; here so many times sooner."""

WAIT_SECONDS = 1
LAST_SECONDS = 20.0
"""For draining what is left in the end, which takes about one."""


@dataclass
class Draining:
    """What the clients of one agent know, together. `cursor` is the highest that was answered, `sent` the highest
    acknowledgement that was sent. `places`: the number of each message that was served, `handled`: what was handled.
    """

    agent: Agent
    cursor: int = 0
    sent: int = 0
    places: dict[str, int] = field(default_factory=dict)
    handled: set[str] = field(default_factory=set)

    def take(self, page: Any, known: int, ack: int | None, ledger: Ledger) -> None:
        """Check a page against what was known when it was asked for, and take it over."""
        assert known <= page["cursor"] <= self.sent, "a cursor moved back, or further than anybody has asked"
        assert ack is None or page["cursor"] >= ack, "an honest acknowledgement was not taken"
        assert page["window_high"] >= page["cursor"]
        for item in page["items"]:
            key, seq = key_of(item), item["delivery_seq"]
            assert page["cursor"] < seq <= page["window_high"], "acknowledged, and served again"
            sent = ledger.sent[key]
            assert sent.hears(self.agent), f"{key} is not for {self.agent.name}"
            assert sent.id in (None, item["diff"]["diff_id"]), f"{key} has become another message"
            assert self.places.setdefault(key, seq) == seq, f"{key} is there twice"
            ledger.add("served" if key not in self.handled else "served again")
        self.cursor = max(self.cursor, page["cursor"])


@dataclass
class Session:
    """One client of an agent, through all rounds. `ack` is what it owes; `stage` is what it was doing last."""

    draining: Draining
    ack: int | None = None
    stage: str = "away"

    def handle(self, page: Any, rng: random.Random) -> None:
        """Handle a page, or only the best of it, or nothing of it, and work out what may be acknowledged."""
        items = page["items"]
        done = rng.choice((len(items), len(items), len(items), rng.randint(0, len(items))))
        self.draining.handled.update(key_of(item) for item in items[:done])
        left = [item["delivery_seq"] for item in items[done:]]
        self.ack = min(left) - 1 if left else page["window_high"]


@contextmanager
def drained_by_the_library(server: Server, ledger: Ledger, draining: Draining) -> Iterator[None]:
    """Meanwhile, drain an inbox with the client that we give to users, in a thread, through all restarts.

    At the end it must have handed over everything that is due, each message once.
    """
    over, failed = threading.Event(), threading.Event()

    def handle(item: Item) -> None:
        key = key_of(msgspec.json.decode(item.document))
        assert key not in draining.handled, f"{key} was handed over twice"
        draining.places[key] = item.delivery_seq
        draining.handled.add(key)

    def run() -> None:
        with Client(server.url, ledger.tokens[draining.agent.name]) as api:

            def pause(seconds: float) -> None:
                if failed.wait(seconds / HASTE):
                    raise InterruptedError
                # On a port of its own: one that is tried while nobody listens there may be taken by the try itself.
                api.url = server.url or api.url

            drainer = Drainer(api, patience_seconds=None, sleep=pause)
            while not failed.is_set():
                drainer.drain(handle, wait_seconds=WAIT_SECONDS)
                if over.is_set() and draining.handled >= ledger.due(draining.agent):
                    return

    with ThreadPoolExecutor(1) as threads:
        running: Future[None] = threads.submit(run)
        try:
            yield
            over.set()
            wait([running], LAST_SECONDS)
            assert running.done(), f"never handed over: {ledger.due(draining.agent) - draining.handled}"
            running.result()
        except BaseException:
            failed.set()
            server.kill()  # wherever the thread is, it now comes to a pause, and to its end there
            raise
