"""Bytes of an event stream, however they are cut, and the events that they mean."""

import pytest

from postroom import sse
from postroom.sse import Event, EventReader, NoEventStream

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


@pytest.mark.parametrize(
    ("stream", "meant"),
    [
        (b"data: a\r\ndata: b\r\n\r\n", [Event("message", "a\nb", "")]),
        (b"event: gap\ndata: a\n\ndata: b\n\n", [Event("gap", "a", ""), Event("message", "b", "")]),
        (b"\ndata: a\r\n\r\n", [Event("message", "a", "")]),
        (b"data: a\n\n\n\r\n\rdata: b\n\n", [Event("message", "a", ""), Event("message", "b", "")]),
        (b"data: \xff\xc3\n\n", [Event("message", "\ufffd\ufffd", "")]),
    ],
)
@pytest.mark.parametrize("size", [1, 2, 100])
def test_lines_end_in_any_way_and_events_are_called_what_they_say(
    stream: bytes, meant: list[Event], size: int
) -> None:
    pieces = [stream[at : at + size] for at in range(0, len(stream), size)]
    assert list(EventReader().events(pieces)) == meant


def test_what_never_ends_a_line_is_no_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sse, "MAX_LINE_BYTES", 8)
    assert len(list(EventReader().events([b"data: ab", b"\n\n"]))) == 1
    with pytest.raises(NoEventStream, match="no stream of events"):
        list(EventReader().events([b"data: abc"]))
