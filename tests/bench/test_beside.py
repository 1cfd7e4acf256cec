"""The clients that work beside a measurement, and those of streams and of the queue: with real servers."""

import sys
from pathlib import Path

import msgspec
import pytest

from tests.bench import beanstalk, puts
from tests.bench.beside import beside
from tests.bench.client import Exchange, WrongAnswer
from tests.bench.harness import LoadFailed, run_client
from tests.bench.pager import Job as Pager
from tests.bench.pager import Read
from tests.bench.probe import Job as Probe
from tests.bench.probe import Stops
from tests.bench.processes import listening, running
from tests.bench.signed import BODY_BYTES, Deliveries, requests
from tests.bench.spread import Job, has_event, play
from tests.bench.subject import postroom

BARE_ASGI = ("-m", "tests.bench.servers.bare_asgi")


# -- processes that are led -------------------------------------------------------------------------------------
def test_a_pager_reads_until_it_is_told_to_stop(tmp_path: Path) -> None:
    with postroom(tmp_path) as subject, beside("tests.bench.pager") as pager:
        subject.post("demo", [("Content-Type", "application/json")], b"{}")
        # Both lines at once: the second one must not be lost in a buffer.
        pager.tell(msgspec.json.encode(Pager(subject.reader("demo"))) + b"\n")
        assert pager.hear(Read).pages >= 0


def test_a_probe_says_how_long_each_server_took(tmp_path: Path) -> None:
    with running("bare-asgi", BARE_ASGI, tmp_path) as server, beside("tests.bench.probe") as probe:
        probe.ask(msgspec.json.encode(Probe([server.port, server.port])), Stops)
        stops = probe.ask(b"", Stops)
    assert stops.asked >= 2
    assert len(stops.longest) == 2
    assert min(stops.longest) > 0


def test_a_client_that_ends_is_reported_with_its_last_words() -> None:
    with beside("tests.bench.probe") as probe, pytest.raises(LoadFailed, match="JSON"):
        probe.ask(b"no job", Stops)


# -- streams ------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("received", "whole"),
    [
        (b"5\r\n:\n\n\r\n", False),
        (b"20\r\nid: e:1\nevent: message\ndata: {}", False),
        (b"20\r\nid: e:1\nevent: message\ndata: {}\n\n\r\n", True),
    ],
)
def test_an_event_is_there_when_its_chunk_has_ended(received: bytes, whole: bool) -> None:
    assert has_event(received) is whole


def test_every_subscriber_is_told_of_every_message(tmp_path: Path) -> None:
    with running("bare-asgi", BARE_ASGI, tmp_path) as bare, postroom(tmp_path) as subject:
        inbox = subject.github_inbox("news")
        job = Job(
            port=subject.server.port,
            subscribe=subject.reader("news").stream_among(bodies="true"),
            subscribers=5,
            waking=inbox.deliveries("waking", 2),
            bare=Deliveries(bare.port, "news", "secret", "bare", 6),
        )
        done = play(job)
    assert done.event_bytes > BODY_BYTES
    assert [len(one.bare) for one in done.spreads] == [3, 3]
    for one in done.spreads:
        assert min(one.everybody, one.sender, one.busy) > 0


def test_a_stream_that_is_refused_ends_the_measurement(tmp_path: Path) -> None:
    with postroom(tmp_path, {"MAX_STREAMS": "2"}) as subject:
        inbox = subject.github_inbox("news")
        subscribe = subject.reader("news").stream_among()
        wanted = inbox.deliveries("waking", 1)
        with pytest.raises(WrongAnswer, match=r"not a stream.*429"):
            play(Job(subject.server.port, subscribe, 3, wanted, wanted))


# -- requests -----------------------------------------------------------------------------------------------------
def test_deliveries_to_many_inboxes_go_on_with_the_next_one() -> None:
    sent = requests(Deliveries(8025, "many", "secret", "x", 4, inboxes=3, first=2))
    assert [request.split(b" ", 2)[1].decode() for request in sent] == [
        "/in/many-2",
        "/in/many-0",
        "/in/many-1",
        "/in/many-2",
    ]


# -- the queue ----------------------------------------------------------------------------------------------------
def test_a_put_is_answered_by_one_line() -> None:
    head, _, rest = puts.put(3).partition(b"\r\n")
    assert head == b"put 0 0 60 %d" % BODY_BYTES
    assert len(rest) == BODY_BYTES + 2
    assert puts.inserted(b"INSERTED 1") is None
    assert puts.inserted(b"INSERTED 12\r\n") == b"INSERTED 12"
    with pytest.raises(WrongAnswer, match="not inserted"):
        puts.inserted(b"OUT_OF_MEMORY\r\n")


def test_a_server_that_does_not_say_its_port_is_found(tmp_path: Path) -> None:
    program = "import socket, threading; s = socket.create_server(('127.0.0.1', 0)); threading.Event().wait()"
    with listening("silent", [sys.executable, "-c", program], tmp_path) as server:
        assert server.port > 0


@pytest.mark.skipif(not beanstalk.is_there(), reason="unpacked by make bench")
def test_the_queue_stores_what_is_put(tmp_path: Path) -> None:
    with beanstalk.beanstalkd(tmp_path) as server:
        exchange = run_client("tests.bench.puts", puts.Job(server.port, 20, 4), Exchange)
    assert len(set(exchange.answers)) == 20
    assert len(exchange.percentiles_ms) == 101
