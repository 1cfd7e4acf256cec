"""The client of a fan-out, a process of its own: a crowd that waits on one inbox, its sender, and another sender.

Everybody waits for one type of event on the same inbox. So the sender's usual time is measured beside the very crowd
that its next message, of that type, will wake. As a program it takes a `Job` as JSON on stdin and prints `Crushes`.
"""

import gc
import json
import sys
import time

import msgspec

from tests.bench.client import Line, WrongAnswer
from tests.bench.crowd import Crowd
from tests.bench.reading import Reader
from tests.bench.signed import Deliveries, requests

UNCLOCKED = 5
"""Usual messages before those that count: whoever was woken last has sent its next wait just before."""

CALM_SECONDS = 0.3
"""For a thousand waits to be read and to fall asleep."""

WAIT_SECONDS = 60


class Job(msgspec.Struct, frozen=True):
    """`crowd` waits for `event` on the inbox of `reader`. There are as many fan-outs as `waking` has messages, the
    first `quiet` of them with no other sender. The `usual` messages, of another type, are spread evenly before them.
    `others` are messages to another inbox, `others_usual` of them before each of the fan-outs that they accompany.
    """

    reader: Reader
    crowd: int
    event: str
    latest_seq: int
    usual: Deliveries
    waking: Deliveries
    others: Deliveries
    quiet: int
    others_usual: int


class Crush(msgspec.Struct, frozen=True):
    """One fan-out, times in ms. `usual`: the sender's answers before it; `sender`: its answer to the message that woke
    the crowd; `crowd`: from that message sent to the last of the crowd having it. With another sender: its answers
    before, and those to what it sent meanwhile.
    """

    usual: list[float]
    sender: float
    crowd: float
    others_usual: list[float]
    others: list[float]


class Crushes(msgspec.Struct, frozen=True):
    """All fan-outs of a job, in their order."""

    crushes: list[Crush]


class Sender:
    """One connection that sends prepared messages, one at a time."""

    def __init__(self, deliveries: Deliveries) -> None:
        self.line = Line(deliveries.port)
        self._upcoming = iter(requests(deliveries))
        self.seq = 0

    def start(self) -> None:
        """Send the next message."""
        self.line.send(next(self._upcoming))

    def finish(self) -> float | None:
        """Take what has come of the answer; return its time in ms when it is whole."""
        answer = self.line.receive()
        if answer is None:
            return None
        elapsed = (time.perf_counter_ns() - self.line.began) / 1e6
        self.seq = int(json.loads(answer)["seq"])
        return elapsed

    def once(self) -> float:
        """Send the next message and wait for its answer."""
        self.start()
        while (elapsed := self.finish()) is None:
            pass
        return elapsed


class Scene:
    """The crowd and the senders of a job."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.crowd = Crowd()
        self.sender = Sender(job.usual)
        self.waker = Sender(job.waking)
        self.other = Sender(job.others)

    def play(self) -> list[Crush]:
        """Play every fan-out. Raises `WrongAnswer`, `OSError`."""
        job = self.job
        usual = job.usual.count // job.waking.count
        crushes: list[Crush] = []
        self.sender.seq = job.latest_seq
        for n in range(job.waking.count):
            self._everybody_waits(again=n > 0)
            usuals = [self.sender.once() for _ in range(usual)][UNCLOCKED:]
            accompanied = n >= job.quiet
            others_usual = [self.other.once() for _ in range(job.others_usual)] if accompanied else []
            crushes.append(self._crush(usuals, others_usual, accompanied=accompanied))
        return crushes

    def _everybody_waits(self, *, again: bool) -> None:
        job = self.job
        latest = max(self.sender.seq, self.waker.seq)
        wait = job.reader.wait(after=latest, types=[job.event], timeout_seconds=WAIT_SECONDS)
        waits = [wait] * job.crowd
        if again:
            self.crowd.again(waits)
        else:
            self.crowd.hold(job.reader.port, waits)
        self.crowd.receive(CALM_SECONDS)
        if self.crowd.open != job.crowd:
            raise WrongAnswer(f"{job.crowd - self.crowd.open} waits ended early: {self.crowd.example}")

    def _crush(self, usual: list[float], others_usual: list[float], *, accompanied: bool) -> Crush:
        """Wake the crowd, and watch everybody until the last of them has the message."""
        crowd, waker, other = self.crowd, self.waker, self.other
        heard = crowd.heard
        sender: float | None = None
        others: list[float] = []
        crowd.watch(waker.line.socket)
        if accompanied:
            crowd.watch(other.line.socket)
            other.start()
        waker.start()
        while crowd.open or sender is None:
            for socket in crowd.watched(1.0):
                if socket is waker.line.socket:
                    sender = waker.finish()
                elif (elapsed := other.finish()) is not None:
                    others.append(elapsed)
                    other.start()
        elapsed = (time.perf_counter_ns() - waker.line.began) / 1e6
        crowd.unwatch(waker.line.socket)
        if accompanied:
            crowd.unwatch(other.line.socket)
            while other.finish() is None:
                pass
        if crowd.heard - heard != self.job.crowd:
            raise WrongAnswer(f"{crowd.heard - heard} of {self.job.crowd} were woken: {crowd.example}")
        return Crush(usual, sender, elapsed, others_usual, others)

    def close(self) -> None:
        """Close every connection."""
        self.crowd.close()
        for sender in (self.sender, self.waker, self.other):
            sender.line.socket.close()


def main() -> None:
    """Do the job on stdin."""
    job = msgspec.json.decode(sys.stdin.buffer.read(), type=Job)
    scene = Scene(job)
    gc.disable()
    try:
        sys.stdout.buffer.write(msgspec.json.encode(Crushes(scene.play())))
    finally:
        scene.close()


if __name__ == "__main__":
    main()
