"""How a case is measured: contenders take turns, round after round, beside a progress bar.

Interleaving (A B C A B C …) lets a slow minute of the machine fall on all contenders alike. One round before
the first is not counted: it fills caches, starts actors and lets servers reach their steady state.
"""

import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import msgspec
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from tests.bench.client import Exchange, Job
from tests.bench.details import Series
from tests.bench.signed import Deliveries

CLIENT_SECONDS = 300.0
"""One round of the load client; far above what any server needs for it."""

CLIENT_NEAR_LIMIT = 0.5
"""A client busier than this share of a core begins to measure itself; the run says so."""

T = TypeVar("T")


class Effort(msgspec.Struct, frozen=True, kw_only=True):
    """How long to measure. `requests` is for one round of one contender.

    `long_rounds`: of a case whose round takes most of a minute. `waits`, `streams`: held open at once, and left alone
    for `idle_seconds`. `crowd`: waits or streams that one message reaches. `large_inbox`: messages of the inbox that is
    drained; `huge_inbox`: of the one that is paged through. `logged`: messages after which the write-ahead log is
    looked at. `inboxes`: written in turn, and there at a start; `passive_inboxes`: only there.
    """

    rounds: int
    requests: int
    long_rounds: int
    waits: int
    streams: int
    idle_seconds: float
    crowd: int
    large_inbox: int
    huge_inbox: int
    logged: int
    inboxes: int
    passive_inboxes: int


IDLE_SECONDS = 15.0
"""As long as the interval of a stream's heartbeats, so that each of them sends one meanwhile."""

FULL = Effort(
    rounds=9,
    requests=4000,
    long_rounds=3,
    waits=10_000,
    streams=1000,
    idle_seconds=IDLE_SECONDS,
    crowd=1000,
    large_inbox=1_000_000,
    huge_inbox=10_000_000,
    logged=200_000,
    inboxes=10_000,
    passive_inboxes=100_000,
)
# A smoke test of all cases in well under two minutes.
QUICK = Effort(
    rounds=1,
    requests=600,
    long_rounds=1,
    waits=500,
    streams=100,
    idle_seconds=1.0,
    crowd=300,
    large_inbox=20_000,
    huge_inbox=50_000,
    logged=3_000,
    inboxes=500,
    passive_inboxes=20_000,
)


class LoadFailed(Exception):
    """The load client ended with an error; the message says which."""


class Bench:
    """One run: its effort, its directory on the disk, its screen."""

    def __init__(self, effort: Effort, directory: Path, console: Console) -> None:
        self.effort = effort
        self.directory = directory
        self.console = console
        self.notes: dict[str, list[str]] = {}
        self.series: list[Series] = []
        self._case = ""

    def begin(self, case: str) -> None:
        """Begin a case: what is noted from now on belongs to it."""
        self._case = case

    def note(self, text: str) -> None:
        """Print a line that belongs to the figures but is none, and keep it for the page."""
        self.notes.setdefault(self._case, []).append(text)
        self.console.print(text, style="dim", highlight=False, soft_wrap=True)

    def draw(self, plot: str, line: str, points: Sequence[tuple[float, float]]) -> None:
        """Keep a line of one of the page's plots (`tests.bench.plots`)."""
        self.series.append(Series(plot, line, [(x, y) for x, y in points]))

    @contextmanager
    def steps(self, title: str, total: int) -> Iterator[Callable[[int], None]]:
        """Show how far a preparation is; what is yielded is told of each part that was done."""
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        with Progress(*columns, console=self.console, transient=True) as progress:
            bar = progress.add_task(title, total=total)
            yield lambda done: progress.advance(bar, done)

    def rounds(self, title: str, contenders: Mapping[str, Callable[[int], T]]) -> dict[str, list[T]]:
        """Let each contender measure once a round and return what they measured, by their names.

        They are called with the number of the round; round 0 is the one that is not counted.
        """
        measured: dict[str, list[T]] = {name: [] for name in contenders}
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
        )
        with Progress(*columns, console=self.console, transient=True) as progress:
            bar = progress.add_task(title, total=(self.effort.rounds + 1) * len(contenders))
            for number in range(self.effort.rounds + 1):
                for name, measure in contenders.items():
                    what = f"round {number} of {self.effort.rounds}" if number else "warming up"
                    progress.update(bar, description=f"{title}: {what}, {name}")
                    result = measure(number)
                    if number:
                        measured[name].append(result)
                    progress.advance(bar)
        return measured


def load(deliveries: Deliveries, connections: int) -> Exchange:
    """Send deliveries from a process of its own. Raises `LoadFailed`."""
    return run_client("tests.bench.client", Job(deliveries, connections), Exchange)


def run_client(module: str, job: msgspec.Struct, result: type[T]) -> T:
    """Have a client do a job in a process of its own and return what came of it. Raises `LoadFailed`."""
    try:
        done = subprocess.run(
            [sys.executable, "-m", module],
            input=msgspec.json.encode(job),
            capture_output=True,
            timeout=CLIENT_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise LoadFailed(f"the load client was not done after {CLIENT_SECONDS:g} s") from error
    if done.returncode != 0:
        raise LoadFailed(done.stderr.decode(errors="replace").strip().rpartition("\n")[2])
    return msgspec.json.decode(done.stdout, type=result)
