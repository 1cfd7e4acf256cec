"""Everything that is left to chance in a run, drawn from one integer.

`Shape` is what kind of world a seed makes: who is there, and which troubles it knows. Each seed leaves some of them out
and has more of others, so that rare combinations are met, and none is drowned in the noise of all the rest. `chance_of`
gives each part of the world its own source of random numbers, so that what one draws says nothing about another.

`seeded` makes the interpreter follow: trio's scheduler shuffles by the seed, random bytes come from it, and the time of
day is the virtual clock's.
"""

import os
import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

import msgspec
import trio

BEGIN_US = 1_900_000_000_000_000
"""Where the time of day begins, in µs since the Unix epoch."""

BEGIN_SECONDS = 1_000.0
"""Where the virtual clock begins."""

SPELLS = ("flaky", "full", "degraded", "slow", "busy", "crooked")
"""Kinds of trouble with the disk, see `tests.simulation.disk`."""


class Shape(msgspec.Struct, frozen=True, kw_only=True):
    """What kind of world a seed makes. Times in seconds, rates as means between two events of a kind.

    `hang_up`: how often somebody leaves before the answer. `reorder`: how often an answer of the store is late.
    `idle_seconds`, `known_inboxes`, `tail_bytes`: as in `actors.options`.
    `visitors`: whether there are readers whose token is changed while they read.
    `limits`: the most messages that inboxes keep while retention is on; 0, it never is.
    `ages`: for how many seconds inboxes keep messages while they forget with time; 0, they never do.
    """

    seconds: float
    senders: int
    pagers: int
    waiters: int
    streamers: int
    drainers: int
    mailers: int
    writers: int
    nuisances: int
    admin: bool
    deleting: bool
    erasing: bool
    limits: int
    think: float
    hang_up: float
    reorder: float
    latency: float
    spells: tuple[str, ...]
    spell_every: float
    restart_every: float
    crash: float
    clock_steps: bool
    streams_per_inbox: int
    pull_batch: int
    page_bytes: int
    idle_seconds: float
    known_inboxes: int
    tail_bytes: int
    visitors: bool
    ages: int


def chance_of(seed: int, name: str) -> random.Random:
    """Return the source of random numbers of one part of a seed's world."""
    return random.Random(f"{seed} {name}")


def shape_of(seed: int) -> Shape:
    """Return what kind of world a seed makes."""
    chance = chance_of(seed, "shape")
    spells = tuple(spell for spell in SPELLS if chance.random() < 0.4)
    restarts = chance.choice((0.0, 3.0, 5.0, 5.0))
    return Shape(
        seconds=chance.choice((3.0, 5.0, 9.0)),
        senders=chance.randint(1, 4),
        pagers=chance.randint(0, 2),
        waiters=chance.choice((0, 1, 2, 5)),
        streamers=chance.randint(0, 2),
        drainers=chance.choice((0, 1, 1)),
        mailers=chance.choice((0, 1, 1, 2)),
        writers=chance.choice((0, 1, 2)),
        nuisances=chance.choice((0, 0, 1)),
        admin=chance.random() < 0.6,
        deleting=chance.random() < 0.4,
        erasing=chance.random() < 0.5,
        limits=chance.choice((0, 0, 3, 8)),
        think=chance.choice((0.2, 0.5, 0.8)),
        hang_up=chance.choice((0.0, 0.05, 0.25)),
        reorder=chance.choice((0.0, 0.1, 0.5)),
        latency=chance.choice((0.0, 0.002, 0.05, 0.3)),
        spells=spells,
        spell_every=chance.choice((1.0, 3.0)),
        restart_every=restarts,
        crash=chance.choice((0.0, 0.5, 0.8, 1.0)),
        clock_steps=chance.random() < 0.2,
        streams_per_inbox=chance.choice((3, 64)),
        pull_batch=chance.choice((2, 5, 100)),
        page_bytes=chance.choice((16_384, 1_048_576)),
        idle_seconds=chance.choice((0.2, 1.0, 60.0, 60.0)),
        known_inboxes=chance.choice((1, 16_384)),
        tail_bytes=chance.choice((3_000, 1_048_576)),
        visitors=chance.random() < 0.3,
        ages=chance.choice((0, 0, 1, 3)),
    )


class TimeOfDay:
    """The time of day of the simulated machine: the virtual clock's, and what somebody has set it on or back by."""

    def __init__(self) -> None:
        self.set_by_us = 0
        self._last_us = BEGIN_US

    def ns(self) -> int:
        """Return ns since the Unix epoch, as `time.time_ns`."""
        return self.us() * 1_000

    def us(self) -> int:
        """Return µs since the Unix epoch."""
        try:
            passed = trio.current_time() - BEGIN_SECONDS
        except RuntimeError:  # before and after the run
            return self._last_us
        self._last_us = BEGIN_US + self.set_by_us + round(passed * 1_000_000)
        return self._last_us

    def seconds(self) -> float:
        """Return seconds since the Unix epoch, as `time.time`."""
        return self.us() / 1_000_000


@contextmanager
def seeded(seed: int) -> Iterator[TimeOfDay]:
    """Let everything that is random or a time of day follow the seed, inside."""
    scheduling, bytes_of = chance_of(seed, "scheduling"), chance_of(seed, "bytes")
    day = TimeOfDay()
    with (
        patch.object(trio._core._run, "_ALLOW_DETERMINISTIC_SCHEDULING", new=True),
        patch.object(trio._core._run, "_r", scheduling),
        patch.object(os, "urandom", bytes_of.randbytes),
        patch.object(random, "_urandom", bytes_of.randbytes),
        patch.object(time, "time_ns", day.ns),
        patch.object(time, "time", day.seconds),
    ):
        yield day
