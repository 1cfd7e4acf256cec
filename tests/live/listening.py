"""Listening to a real server's event streams: over httpx with our own reader, and with Node's `eventsource`."""

import json
import queue
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.live.api import Api
from tests.node import NODE
from tests.wire.events import Event, EventParser

EVENT_SECONDS = 20.0
"""For one event; each takes milliseconds, a reconnection a few seconds."""

TESTS = Path(__file__).parents[1]


class Stream:
    """One open stream: an iterator of its events. `parser` knows what a reconnection would send."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self.parser = EventParser()
        self._pieces = pieces
        self._events: list[Event] = []

    def __iter__(self) -> Iterator[Event]:
        return self

    def __next__(self) -> Event:
        while not self._events:
            self._events += self.parser.feed(next(self._pieces))
        return self._events.pop(0)

    def opened(self) -> Self:
        """Return when the first bytes have come: what is sent from now on is told."""
        self._events += self.parser.feed(next(self._pieces))
        return self


@contextmanager
def streaming(api: Api, path: str, last_event_id: str | None = None) -> Iterator[Stream]:
    """Open a stream below `/v1`."""
    headers = {} if last_event_id is None else {"Last-Event-ID": last_event_id}
    with api._http.stream("GET", f"/v1{path}", headers=headers) as answer:
        assert answer.status_code == 200, answer.read()
        assert answer.headers["content-type"] == "text/event-stream"
        yield Stream(answer.iter_raw()).opened()


class EventSource:
    """A Node process that listens as a browser does and prints every event as a line of JSON."""

    def __init__(self, url: str, token: str) -> None:
        self._process = subprocess.Popen(
            [str(NODE), str(TESTS / "live" / "eventsource.mjs"), url, token],
            cwd=TESTS,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def next(self) -> Any:
        """Return the next event: `{type, lastEventId, data}`, or `{type: "open" | "error", …}`."""
        line = self._lines.get(timeout=EVENT_SECONDS)
        assert line is not None, "the listening process has ended"
        return json.loads(line)

    def next_of(self, *kinds: str) -> Any:
        """Return the next event of these types, passing over others."""
        while (event := self.next())["type"] not in kinds:
            pass
        return event

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.wait()
        self._reader.join()
        assert self._process.stdout is not None
        self._process.stdout.close()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.put(line)
        self._lines.put(None)
