"""A reader of event streams, written from the WHATWG's HTML standard, section 9.2.6, and from nothing of ours.

It takes bytes as they come, cut anywhere, and gives the events that a browser would dispatch.
"""

import codecs
import json
from collections.abc import Iterator
from typing import Any, NamedTuple


class Event(NamedTuple):
    """One dispatched event."""

    name: str
    data: str
    last_event_id: str

    @property
    def json(self) -> Any:
        """The data, decoded."""
        return json.loads(self.data)


class EventParser:
    """The parser of one stream. `last_event_id` and `retry_ms` are what a reconnection would use."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="strict")
        self._text = ""
        self._at_start = True
        self._id_buffer = ""
        self._name = ""
        self._data: list[str] = []
        self.last_event_id = ""
        self.retry_ms: int | None = None
        self.comments = 0

    def feed(self, data: bytes) -> Iterator[Event]:
        """Take some bytes and give what they complete."""
        self._text += self._decoder.decode(data)
        if self._at_start and self._text:
            self._text = self._text.removeprefix("\ufeff")
            self._at_start = False
        while True:
            ends = [at for at in (self._text.find("\r"), self._text.find("\n")) if at >= 0]
            if not ends:
                return
            end = min(ends)
            if self._text[end] == "\r" and end + 1 == len(self._text):
                return  # a line feed may follow
            line = self._text[:end]
            self._text = self._text[end + (2 if self._text[end : end + 2] == "\r\n" else 1) :]
            if line:
                self._line(line)
            else:
                yield from self._dispatch()

    def _line(self, line: str) -> None:
        name, colon, value = line.partition(":")
        value = value.removeprefix(" ")
        if colon and not name:
            self.comments += 1
        elif name == "event":
            self._name = value
        elif name == "data":
            self._data.append(value)
        elif name == "id":
            if "\0" not in value:
                self._id_buffer = value
        elif name == "retry" and value.isascii() and value.isdigit():
            self.retry_ms = int(value)

    def _dispatch(self) -> Iterator[Event]:
        self.last_event_id = self._id_buffer
        data, name = self._data, self._name
        self._data, self._name = [], ""
        if data and data != [""]:
            yield Event(name or "message", "\n".join(data), self.last_event_id)
