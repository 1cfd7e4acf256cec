"""Crowds, turns and seeded inboxes: the clients of the cases about waiting and about pages, with real servers."""

from pathlib import Path

import pytest

from storage.options import StorageOptions
from storage.records import InboxSettings, NewInbox, PageQuery, Verdict
from storage.sqlite import open_offline
from tests.bench.client import WrongAnswer
from tests.bench.crowd import Crowd
from tests.bench.crowds import crowd, need_descriptors, open_descriptors
from tests.bench.harness import LoadFailed, run_client
from tests.bench.processes import Server, running
from tests.bench.reading import Reader, get
from tests.bench.seeding import (
    INTERVAL_US,
    RARE_COUNT,
    RARE_TYPE,
    START_US,
    Inbox,
    NotEnoughRoom,
    need_room,
    received_at,
    seed,
)
from tests.bench.signed import Deliveries, requests
from tests.bench.subject import Subject, postroom
from tests.bench.turns import UNCLOCKED, Contender, Job, Turns, take_turns
from tests.contract.builders import See
from web.decoding import time_argument

BARE_WAIT = ("-m", "tests.bench.servers.bare_wait")
BARE_ASGI = ("-m", "tests.bench.servers.bare_asgi")
BODY = b'{"action":"opened"}'


def post(subject: Subject, slug: str) -> None:
    assert subject.post(slug, [("Content-Type", "application/json")], BODY).status_code == 200


def bare_requests(server: Server, count: int) -> list[bytes]:
    return requests(Deliveries(server.port, "bench", "secret", "turns", count))


# -- what readers ask ---------------------------------------------------------------------------------------
def test_a_readers_request_names_inbox_query_and_token() -> None:
    request = Reader(8025, "demo", "prm_x").wait(after=3, types=["a b", "c"])
    head, *headers = request.decode().split("\r\n")
    assert head == "GET /v1/inboxes/demo/wait?after=3&types=a+b&types=c HTTP/1.1"
    assert headers == ["Host: 127.0.0.1:8025", "Authorization: Bearer prm_x", "", ""]


# -- turns ----------------------------------------------------------------------------------------------------
def test_every_contender_has_its_turn_and_the_first_ones_are_not_clocked(tmp_path: Path) -> None:
    with running("bare-asgi", BARE_ASGI, tmp_path) as server:
        sent = bare_requests(server, UNCLOCKED + 5)
        job = Job([Contender("a", server.port, sent), Contender("b", server.port, sent)])
        turns = run_client("tests.bench.turns", job, Turns)
    assert [one.name for one in turns.timed] == ["a", "b"]
    for one in turns.timed:
        assert len(one.answered) == 5
        assert min(one.answered) > 0
        assert one.woken == []
        assert one.size > 10


def test_contenders_with_unequal_work_are_refused() -> None:
    contenders = [Contender("a", 1, [b""] * (UNCLOCKED + 1)), Contender("b", 1, [b""] * (UNCLOCKED + 2))]
    with pytest.raises(ValueError, match="equally many"):
        take_turns(contenders, 0)


def test_a_wait_is_timed_from_the_request_that_wakes_it(tmp_path: Path) -> None:
    count = UNCLOCKED + 2
    with postroom(tmp_path) as subject:
        inbox = subject.github_inbox("demo-2")
        reader, latest = subject.reader(inbox.slug), inbox.latest_seq
        waits = [reader.wait(after=latest + n, timeout_seconds=10) for n in range(count)]
        sent = requests(inbox.deliveries("wake", count))
        turns = take_turns([Contender("woken", reader.port, sent, waits)], 0.002)
    (timed,) = turns.timed
    assert len(timed.answered) == len(timed.woken) == 2
    assert min(timed.woken) > 0


def test_a_wait_that_ends_without_a_message_ends_the_measurement(tmp_path: Path) -> None:
    with postroom(tmp_path) as subject:
        inbox = subject.github_inbox("demo-2")
        wait = subject.reader(inbox.slug).wait(after=inbox.latest_seq, timeout_seconds=0)
        contender = Contender(
            "late", subject.server.port, requests(inbox.deliveries("wake", 11)), [wait] * 11
        )
        with pytest.raises(WrongAnswer, match="without a message"):
            take_turns([contender], 0.05)


# -- crowds ---------------------------------------------------------------------------------------------------
def test_a_killed_crowd_leaves_no_descriptor_behind(tmp_path: Path) -> None:
    with running("bare-wait", BARE_WAIT, tmp_path) as server:
        before = open_descriptors(server.pid)
        with crowd() as held:
            assert held.hold(server.port, [get(server.port, "/hold")] * 100).open == 100
            assert open_descriptors(server.pid) >= before + 100
        with crowd() as again:  # the server has looked at the dead ones once it holds these
            assert again.hold(server.port, [get(server.port, "/hold")] * 100).open == 100
            assert open_descriptors(server.pid) < before + 200


def test_a_crowd_hears_of_a_message_by_wait_and_by_stream(tmp_path: Path) -> None:
    with postroom(tmp_path) as subject:
        reader = subject.reader("demo")
        with crowd() as held:
            held.hold(reader.port, [reader.wait(after=0, timeout_seconds=30)] * 5)
            assert held.hold(reader.port, [reader.stream(after=0)] * 3, streams=True).open == 8
            post(subject, "demo")
            state = held.collect()
    assert (state.heard, state.refused, state.open) == (8, 0, 0)


def test_a_refused_wait_is_told_with_the_servers_words(tmp_path: Path) -> None:
    with postroom(tmp_path, {"MAX_STREAMS": "2"}) as subject, crowd() as held:
        reader = subject.reader("demo")
        held.hold(reader.port, [reader.wait(after=0, timeout_seconds=1)] * 3)
        state = held.collect()
        assert (state.heard, state.refused) == (0, 3)  # two of them when their time was up
        assert "too_many_waits" in state.example
        with pytest.raises(LoadFailed, match=r"3 of 3 waits were not held open: .*429"):
            held.check()


def test_the_same_connections_wait_again(tmp_path: Path) -> None:
    with postroom(tmp_path) as subject:
        reader = subject.reader("demo")
        people = Crowd()
        try:
            people.hold(reader.port, [reader.wait(after=0, timeout_seconds=30)] * 4)
            post(subject, "demo")
            people.collect()
            people.again([reader.wait(after=1, timeout_seconds=30)] * 4)
            post(subject, "demo")
            people.collect()
            assert (people.heard, people.refused, people.open) == (8, 0, 0)
        finally:
            people.close()


def test_too_few_descriptors_are_told_in_a_sentence() -> None:
    with pytest.raises(LoadFailed, match=r"1,000,000,000 connections need .* open files .*ulimit -Hn"):
        need_descriptors(1_000_000_000)


# -- seeded inboxes -------------------------------------------------------------------------------------------
def test_a_seeded_inbox_is_dense_and_has_its_rare_messages(tmp_path: Path) -> None:
    written: list[int] = []
    seed(tmp_path / "data", [Inbox("seeded", 1_400), Inbox("other", 200)], written.append)
    assert sum(written) == 1_600
    with open_offline(StorageOptions(data_dir=tmp_path / "data")) as store:
        listing = store.read(See(lambda snapshot: snapshot.inbox_by_slug("seeded")))
        assert listing is not None
        assert (listing.head.first_seq, listing.head.latest_seq, listing.head.live_rows) == (1, 1_400, 1_400)
        query = PageQuery(listing.record.inbox_id, 1_400, after=0, byte_budget=1 << 30)
        rows = store.read(See(lambda snapshot: snapshot.page(query))).rows
    assert [row.seq for row in rows] == list(range(1, 1_401))
    assert sum(row.event_type == RARE_TYPE for row in rows) == RARE_COUNT
    assert sum(row.verified == Verdict.FAILED for row in rows) == RARE_COUNT
    assert rows[6].received_at == time_argument("since", received_at(7)) == START_US + 7 * INTERVAL_US


def test_seeded_messages_are_routed_and_stand_beside_empty_inboxes(tmp_path: Path) -> None:
    empty = [NewInbox(f"empty-{n}", "webhook", "", InboxSettings()) for n in range(3)]
    seed(tmp_path / "data", [Inbox("seeded", 250)], lambda rows: None, empty)
    with open_offline(StorageOptions(data_dir=tmp_path / "data")) as store:
        slugs = store.read(See(lambda snapshot: snapshot.inboxes(None, "", 10)))
        assert [listing.record.slug for listing in slugs] == ["empty-0", "empty-1", "empty-2", "seeded"]
        assert store.read(See(lambda snapshot: (snapshot.routed_mid(), snapshot.last_mid()))) == (250, 250)


def test_too_little_room_is_told_in_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(NotEnoughRoom, match=r"messages need .* GB in .*: choose another --directory"):
        need_room(tmp_path, 10**15)
