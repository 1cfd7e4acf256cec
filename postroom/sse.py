"""Server-sent events as a reader sees them: bytes in, events out. Pure; it knows no connection and no terminal.

The rules are those of the HTML standard, section 9.2.6 ("Interpreting an event stream"): lines end in LF, CR or CRLF,
several `data` lines are joined by newlines, an empty line dispatches, an event that was cut off is dropped. The last
event id is remembered across events and moves with its event: a cursor never stands on what was not seen whole.
"""

from collections.abc import Iterable, Iterator

import msgspec

MAX_LINE_BYTES = 64 * 1024 * 1024
"""The longest line that is collected: far over any page (PAGE_BYTES goes to 64 MiB), far under a machine's memory."""


class NoEventStream(Exception):
    """What comes is no event stream, or not one of ours."""


class Event(msgspec.Struct, frozen=True):
    """One event. `id` is the last event id at this point of the stream, `""` when there was none yet.

    An event without data moves the id and means nothing else.
    """

    name: str
    data: str
    id: str


class EventReader:
    """One stream. `retry_seconds`: how long the server asks to wait before a new connection, None when it does not."""

    def __init__(self) -> None:
        self.retry_seconds: float | None = None
        self._id = ""
        self._name = ""
        self._data: list[str] = []
        self._seen = False

    def events(self, pieces: Iterable[bytes]) -> Iterator[Event]:
        """Give the events of a stream, each as soon as its last byte is there. Raises `NoEventStream`."""
        for line in _lines(pieces):
            if line:
                self._take(line.decode(errors="replace"))
            elif self._seen:
                yield self._dispatch()

    def _take(self, line: str) -> None:
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        match name:
            case "data":
                self._data.append(value)
            case "event":
                self._name = value
            case "id" if "\0" not in value:
                self._id = value
            case "retry" if value.isascii() and value.isdecimal():
                self.retry_seconds = int(value) / 1000
                return
            case _:
                return  # a comment (the name is empty) or a field that the standard does not know
        self._seen = True

    def _dispatch(self) -> Event:
        event = Event(self._name or "message", "\n".join(self._data), self._id)
        self._name, self._data, self._seen = "", [], False
        return event


def _lines(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Give complete lines without their ends. A CR at the end of a piece waits for the LF that may follow it."""
    rest = bytearray()
    for piece in pieces:
        searched = max(len(rest) - 1, 0)
        rest += piece
        start = 0
        while (end := _line_end(rest, max(start, searched))) is not None:
            at, after = end
            yield bytes(rest[start:at])
            start = after
        del rest[:start]
        if len(rest) > MAX_LINE_BYTES:
            raise NoEventStream("The answer is no stream of events.")


def _line_end(buffer: bytearray, start: int) -> tuple[int, int] | None:
    """Return where the next line ends and where the one after it begins; None when that is not known yet."""
    lf = buffer.find(b"\n", start)
    cr = buffer.find(b"\r", start, lf if lf >= 0 else len(buffer))
    if cr < 0:
        return (lf, lf + 1) if lf >= 0 else None
    if cr + 1 == len(buffer):
        return None
    return (cr, cr + 2) if buffer[cr + 1] == ord("\n") else (cr, cr + 1)
