"""The load client for beanstalkd: the same closed loop as `client.py`, putting jobs of the size of a message's body.

As a program it takes a `Job` as JSON on stdin and prints a `client.Exchange` as JSON.
"""

import sys

import msgspec

from tests.bench.client import Line, WrongAnswer, drive
from tests.bench.signed import body_of

INSERTED = b"INSERTED "
LINE_END = b"\r\n"


class Job(msgspec.Struct, frozen=True):
    """How many jobs to put, over how many connections."""

    port: int
    count: int
    connections: int


def inserted(received: bytes) -> bytes | None:
    """Return the line that answers a put, None while it is not whole. Raises `WrongAnswer`."""
    if not received.endswith(LINE_END):
        return None
    if not received.startswith(INSERTED):
        raise WrongAnswer(f"not inserted: {received[:500]!r}")
    return received.removesuffix(LINE_END)


class QueueLine(Line):
    """A connection to beanstalkd."""

    __slots__ = ()

    whole = staticmethod(inserted)


def put(number: int) -> bytes:
    """Return one put, without priority or delay, as bytes on the wire."""
    body = body_of(number)
    return b"put 0 0 60 %d\r\n%b\r\n" % (len(body), body)


def main() -> None:
    """Do the job on stdin."""
    job = msgspec.json.decode(sys.stdin.buffer.read(), type=Job)
    exchange = drive(job.port, [put(number) for number in range(job.count)], job.connections, QueueLine)
    sys.stdout.buffer.write(msgspec.json.encode(exchange))


if __name__ == "__main__":
    main()
