"""A reader that never rests, a process of its own: it pages through a whole inbox, oldest first, again and again.

As a program it takes a `Job` as JSON on stdin and reads until a line comes there; then it prints `Read` as JSON.
"""

import select
import sys

import msgspec

from tests.bench.beside import lines_of_stdin, say
from tests.bench.client import Line
from tests.bench.reading import Reader

LIMIT = 100


class Job(msgspec.Struct, frozen=True):
    """Which inbox to read."""

    reader: Reader


class Read(msgspec.Struct, frozen=True):
    """What was read: pages, and how often the reader came to the end of the inbox."""

    pages: int
    ends: int


class Page(msgspec.Struct):
    """What of an answer tells where to go on."""

    next_after: int
    latest_seq: int


def read_on(job: Job) -> Read:
    """Read until there is something on stdin. Raises `tests.bench.client.WrongAnswer`, `OSError`."""
    line = Line(job.reader.port)
    pages = ends = after = 0
    while not select.select([sys.stdin], (), (), 0)[0]:
        line.send(job.reader.page(after=after, limit=LIMIT))
        while (answer := line.receive()) is None:
            pass
        page = msgspec.json.decode(answer, type=Page)
        pages += 1
        at_end = page.next_after == page.latest_seq
        ends += at_end
        after = 0 if at_end else page.next_after
    return Read(pages, ends)


def main() -> None:
    """Do the job on stdin."""
    job = msgspec.json.decode(lines_of_stdin().readline(), type=Job)
    say(read_on(job))


if __name__ == "__main__":
    main()
