"""The write-ahead log: how large it is after 200,000 messages, beside a reader who pages through the inbox all along.

A reader that holds a snapshot keeps SQLite from folding the log into the database, and then it grows with every
message. So one reads on, from the first message to the last and again from the first, as long as messages come, signed
and durable as in the case `ingest`. The file is looked at a hundred times a second; the goal is for its last size.
"""

import tempfile
import threading
from pathlib import Path

import msgspec

from storage.lock import DATABASE_NAME
from tests.bench.beside import beside
from tests.bench.cases.ingest import CONNECTIONS
from tests.bench.figures import Figure, compare
from tests.bench.harness import Bench, load
from tests.bench.pager import Job, Read
from tests.bench.subject import NotWhatItSays, postroom

NAME = "log"

LIMIT_MIB = 16.0
"""Of the file, while a reader is running."""

PORTION = 10_000
"""Messages of one run of the client, which holds them all in memory."""

LOOK_SECONDS = 0.01

SLUG = "logged"


class Watch:
    """The greatest size that a file has had, in bytes."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look)
        self.peak = 0

    def __enter__(self) -> "Watch":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def now(self) -> int:
        """Return its size at present."""
        size = self._file.stat().st_size if self._file.exists() else 0
        self.peak = max(self.peak, size)
        return size

    def _look(self) -> None:
        while not self._over.wait(LOOK_SECONDS):
            self.now()


def measure(bench: Bench) -> list[Figure]:
    """Measure the case."""
    total = bench.effort.logged
    with (
        tempfile.TemporaryDirectory(prefix="postroom-bench-", dir=bench.directory) as made,
        postroom(Path(made)) as subject,
    ):
        inbox = subject.github_inbox(SLUG)
        with (
            beside("tests.bench.pager") as pager,
            Watch(Path(made, "data", f"{DATABASE_NAME}-wal")) as watch,
            bench.steps(f"{NAME}: {total:,} messages", total) as done,
        ):
            pager.tell(msgspec.json.encode(Job(subject.reader(SLUG))))
            for start in range(0, total, PORTION):
                prefix, count = f"from-{start}", min(PORTION, total - start)
                inbox.answered(prefix, load(inbox.deliveries(prefix, count), CONNECTIONS))
                done(count)
            after = watch.now()
            read = pager.ask(b"", Read)
        stored = inbox.check()
    if not read.pages:
        raise NotWhatItSays("nobody has read meanwhile")
    bench.note(
        f"{NAME}: {stored:,} messages were answered and are stored; meanwhile a reader has read {read.pages:,} pages "
        f"and come to the end {read.ends:,} times"
    )
    sizes = {"after": after, "peak": watch.peak}
    return [
        compare(
            f"{NAME}.{name}",
            [size / 1024**2],
            f"{LIMIT_MIB:g} MiB",
            [LIMIT_MIB],
            unit="MiB",
            better="lower",
            goal=1.0 if name == "after" else None,
        )
        for name, size in sizes.items()
    ]
