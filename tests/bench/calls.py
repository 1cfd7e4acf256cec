"""The load client for API calls: the same closed loop as `client.py`, with requests that are given and repeated.

As a program it takes a `Job` as JSON on stdin and prints `Calls` as JSON.
"""

import sys

import msgspec

from tests.bench.client import drive


class Job(msgspec.Struct, frozen=True):
    """Send `count` requests, going through `requests` again and again, over so many connections."""

    port: int
    requests: list[bytes]
    count: int
    connections: int


class Calls(msgspec.Struct, frozen=True):
    """What came of it, as in `client.Exchange`. `lengths`: the distinct sizes of the answers' bodies."""

    clocked: int
    seconds: float
    p50_ms: float
    p99_ms: float
    cpu_seconds: float
    answers: int
    lengths: list[int]

    @property
    def per_second(self) -> float:
        """Answers a second."""
        return self.clocked / self.seconds


def main() -> None:
    """Do the job on stdin."""
    job = msgspec.json.decode(sys.stdin.buffer.read(), type=Job)
    prepared = [job.requests[n % len(job.requests)] for n in range(job.count + job.connections)]
    done = drive(job.port, prepared, job.connections)
    lengths = sorted({len(answer.encode()) for answer in done.answers})
    calls = Calls(
        done.clocked, done.seconds, done.p50_ms, done.p99_ms, done.cpu_seconds, len(done.answers), lengths
    )
    sys.stdout.buffer.write(msgspec.json.encode(calls))


if __name__ == "__main__":
    main()
