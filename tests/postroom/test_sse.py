"""Bytes of an event stream, however they are cut, and the events that they mean."""

import pytest

from postroom.sse import Event, EventReader

STREAM = (
    b"retry: 2000\n\n"
    b": a heartbeat\n\n"
    b'event: message\ndata: {"a":\ndata: 1}\nid: e:1\n\n'
    b"data:no space\r\n\r\n"
    b"id: e:2\r\rdata\n\n"
    b"unknown: field\ndata: caf\xc3\xa9\n\n"
    b"data: cut off\nid: e:9\n"
)
MEANT = [
    Event("message", '{"a":\n1}', "e:1"),
    Event("message", "no space", "e:1"),
    Event("message", "", "e:2"),
    Event("message", "", "e:2"),
    Event("message", "café", "e:2"),
]


@pytest.mark.parametrize("size", [1, 2, 3, 7, len(STREAM)])
def test_a_stream_means_the_same_in_pieces_of_any_size(size: int) -> None:
    reader = EventReader()
    pieces = [STREAM[at : at + size] for at in range(0, len(STREAM), size)]
    assert list(reader.events(pieces)) == MEANT
    assert reader.retry_seconds == 2.0


def test_an_event_is_given_as_soon_as_its_last_byte_is_there() -> None:
    def pieces() -> object:
        yield b"data: one\n\n"
        raise AssertionError("the event was there already")

    events = EventReader().events(pieces())  # type: ignore[arg-type]  # a generator that ends the test
    assert next(events).data == "one"


def test_an_event_that_was_cut_off_does_not_move_the_id() -> None:
    reader = EventReader()
    assert [event.id for event in reader.events([b"id: e:1\ndata: x\n\nid: e:2\ndata: y\n"])] == ["e:1"]


@pytest.mark.parametrize("line", ["id: a\0b", "retry: -1", "retry: soon", "retry: \u0661"])
def test_what_the_standard_ignores_is_ignored(line: str) -> None:
    reader = EventReader()
    assert [event.id for event in reader.events([f"{line}\ndata: x\n\n".encode()])] == [""]
    assert reader.retry_seconds is None
