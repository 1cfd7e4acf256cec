"""Streams through the whole stack on virtual time: the very bytes of every event, where they begin, and what runs."""

import json
from pathlib import Path

import pytest
import trio
import trio.testing

from actors.commands import Purge
from tests.wire.listening import OPENING, listening, settled
from tests.wire.scene import scene

# -- the bytes ------------------------------------------------------------------------------------------


async def test_a_message_is_these_bytes(tmp_path: Path, mock_clock: trio.testing.MockClock) -> None:
    async with scene(tmp_path) as at:
        epoch = await at.epoch()
        async with listening(at, "/v1/inboxes/demo/stream?bodies=true") as stream:
            assert stream.text == f"{OPENING}id: {epoch}:0\n\n"
            await at.send("push", body=b'{"n": 1.50}')
            await settled()
            message = await at.served.service.message(at.inbox.inbox_id, 1, 100)
            received_at = stream.events[0].json["received_at"]
            ulid = stream.events[0].json["id"]
            assert message[1] is not None
            assert stream.text == (
                f"{OPENING}id: {epoch}:0\n\n"
                f"id: {epoch}:1\n"
                "event: message\n"
                f'data: {{"id":"{ulid}","inbox":"demo","seq":1,"epoch":"{epoch}","received_at":"{received_at}",'
                '"method":"POST","untrusted":{"path":"","body":{"n": 1.50}}}\n\n'
            )
            headers = dict(stream.reply.headers)
            assert headers[b"content-type"] == b"text/event-stream"
            assert headers[b"cache-control"] == b"no-store"
            assert headers[b"x-accel-buffering"] == b"no"
            assert b"content-length" not in headers


async def test_a_body_with_line_breaks_stays_one_event(
    tmp_path: Path, mock_clock: trio.testing.MockClock
) -> None:
    bodies = [
        b'{\n  "a": 1\n}',
        b'{\r\n"b": 2}\r\n',
        b"[\r1,\r\r2]",
        b'{"id: 7": "\xe2\x80\xa8event: x"}\n\n',
    ]
    async with scene(tmp_path) as at, listening(at, "/v1/inboxes/demo/stream?bodies=true") as stream:
        for body in bodies:
            await at.send(body=body)
        await settled()
        assert stream.seqs == [1, 2, 3, 4]
        for event, body in zip(stream.events, bodies, strict=True):
            assert event.json["untrusted"]["body"] == json.loads(body)


async def test_other_events_are_these_bytes(tmp_path: Path, mock_clock: trio.testing.MockClock) -> None:
    async with scene(tmp_path) as at:
        epoch = await at.epoch()
        for _ in range(5):
            await at.send()
        await at.served.world.registry.ask(at.inbox.inbox_id, Purge())
        async with listening(at, "/v1/inboxes/demo/stream?after=2") as stream:
            gap = f'id: {epoch}:5\nevent: gap\ndata: {{"inbox":"demo","after":2,"first_seq":6}}\n\n'
            assert stream.text == f"{OPENING}id: {epoch}:2\n\n{gap}"
            at.served.world.registry.end_watchers()
            await settled()
            bye = f'id: {epoch}:5\nevent: bye\ndata: {{"reason":"shutdown"}}\n\n'
            assert stream.text == f"{OPENING}id: {epoch}:2\n\n{gap}{bye}"
            assert stream.ended


async def test_an_old_life_is_ended_so_that_a_reconnection_begins_the_new_one(
    tmp_path: Path, mock_clock: trio.testing.MockClock
) -> None:
    async with scene(tmp_path) as at:
        epoch = await at.epoch()
        await at.send()
        async with listening(at, last_id="0123456789abcdef:7") as stream:
            changed = f'id: {epoch}:0\nevent: epoch_changed\ndata: {{"inbox":"demo","epoch":"{epoch}"}}\n\n'
            assert stream.text == f"{OPENING}\n{changed}"
            assert stream.ended
            resumed = stream.parser.last_event_id
        assert resumed == f"{epoch}:0"
        async with listening(at, last_id=resumed) as stream:
            assert stream.seqs == [1]


# -- where a stream begins --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("query", "last", "seqs"),
    [
        ("", None, [4]),
        ("?after=0", None, [1, 2, 3, 4]),
        ("?after=2", None, [3, 4]),
        ("?after=0", 2, [3, 4]),
        ("?after=9&epoch=another", 1, [2, 3, 4]),
        ("", 3, [4]),
    ],
)
async def test_a_stream_begins_after_its_cursor_or_now(
    tmp_path: Path, query: str, last: int | None, seqs: list[int], mock_clock: trio.testing.MockClock
) -> None:
    async with scene(tmp_path) as at:
        for _ in range(3):
            await at.send()
        last_id = None if last is None else f"{await at.epoch()}:{last}"
        async with listening(at, f"/v1/inboxes/demo/stream{query}", last_id) as stream:
            await at.send()
            await settled()
            assert stream.seqs == seqs


async def test_a_client_that_breaks_off_before_the_first_event_misses_nothing(
    tmp_path: Path, mock_clock: trio.testing.MockClock
) -> None:
    async with scene(tmp_path) as at:
        await at.send()
        async with listening(at) as stream:
            last_id = stream.parser.last_event_id
        await at.send()
        async with listening(at, last_id=last_id) as stream:
            assert stream.seqs == [2]


async def test_a_cursor_of_zero_has_no_gap_and_what_goes_later_has(
    tmp_path: Path, mock_clock: trio.testing.MockClock
) -> None:
    async with scene(tmp_path) as at:
        for _ in range(3):
            await at.send()
        await at.served.world.registry.ask(at.inbox.inbox_id, Purge())
        async with listening(at, "/v1/inboxes/demo/stream?after=0&types=push") as stream:
            assert stream.events == []
            for _ in range(2):
                await at.send("ping")
            await at.served.world.registry.ask(at.inbox.inbox_id, Purge())
            await at.send("push")
            await settled()
            assert stream.names == ["gap", "message"]
            assert stream.events[0].json == {"inbox": "demo", "after": 3, "first_seq": 6}


@pytest.mark.parametrize(
    ("target", "last_id", "status", "code", "field"),
    [
        ("/v1/inboxes/demo/stream?after=1", None, 409, "cursor_ahead", "after"),
        ("/v1/inboxes/demo/stream?after=0&epoch=x", None, 409, "epoch_changed", "epoch"),
        ("/v1/inboxes/demo/stream", "EPOCH:9", 409, "cursor_ahead", "after"),
        ("/v1/inboxes/demo/stream", "nonsense", 400, "invalid_argument", "Last-Event-ID"),
        ("/v1/inboxes/demo/stream", ":4", 400, "invalid_argument", "Last-Event-ID"),
        ("/v1/inboxes/demo/stream", "x:-4", 400, "invalid_argument", "Last-Event-ID"),
        ("/v1/inboxes/demo/stream", "x:99999999999999999999", 400, "invalid_argument", "Last-Event-ID"),
        ("/v1/inboxes/demo/stream?limit=3", None, 400, "invalid_argument", "limit"),
        ("/v1/inboxes/nobody/stream", None, 404, "not_found", None),
        ("/v1/stream", None, 400, "invalid_argument", "inboxes"),
        ("/v1/stream?inboxes=demo&inboxes=nobody", None, 404, "not_found", None),
        ("/v1/stream?inboxes=demo", "EPOCH:0", 400, "invalid_argument", "Last-Event-ID"),
        ("/v1/stream?inboxes=Demo", None, 400, "invalid_argument", "inboxes"),
        ("/v1/stream?inboxes=demo&inboxes=other&epoch=x", None, 400, "invalid_argument", "epoch"),
        ("/v1/stream?inboxes=demo&inboxes=other&after=1", None, 409, "cursor_ahead", "after"),
    ],
)
async def test_faults_before_the_head_are_errors_as_everywhere(
    tmp_path: Path,
    target: str,
    last_id: str | None,
    status: int,
    code: str,
    field: str | None,
    mock_clock: trio.testing.MockClock,
) -> None:
    async with scene(tmp_path) as at, at.served.connect() as client:
        await at.served.inbox("other")
        await at.rescope(None)
        headers = list(at.headers)
        if last_id is not None:
            headers.append(("Last-Event-ID", last_id.replace("EPOCH", await at.epoch())))
        reply = await client.request("GET", target, headers)
        assert (reply.status, reply.code, reply.json["error"].get("field")) == (status, code, field)
        assert at.served.slots.taken == 0


@pytest.mark.parametrize(
    ("accept", "accepted"),
    [
        ("text/event-stream", True),
        ("text/*", True),
        ("*/*", True),
        ("application/json, text/event-stream;q=0.1", True),
        ("application/json", False),
        ("text/event-stream;q=0, */*", False),
    ],
)
async def test_a_client_that_does_not_take_event_streams_is_told(
    tmp_path: Path, accept: str, accepted: bool, mock_clock: trio.testing.MockClock
) -> None:
    async with scene(tmp_path) as at, at.served.connect() as client:
        reply = await client.start("/v1/inboxes/demo/stream", [*at.headers, ("Accept", accept)])
        assert reply.status == (200 if accepted else 406)
        if not accepted:
            assert json.loads(await client.data())["error"]["code"] == "not_acceptable"


async def test_head_is_answered_and_over(tmp_path: Path, mock_clock: trio.testing.MockClock) -> None:
    async with scene(tmp_path) as at, at.served.connect() as client:
        for _ in range(2):
            reply = await client.request("HEAD", "/v1/inboxes/demo/stream", at.headers)
            assert (reply.status, reply.header("content-type"), reply.body) == (200, "text/event-stream", b"")
        assert at.served.slots.taken == 0


# -- while it runs ----------------------------------------------------------------------------------------------


async def test_a_reader_that_is_behind_gets_everything_in_order(
    tmp_path: Path, mock_clock: trio.testing.MockClock
) -> None:
    async with scene(tmp_path) as at:
        for _ in range(300):
            await at.send()
        async with listening(at, "/v1/inboxes/demo/stream?after=0") as stream:
            for _ in range(100):
                await at.send()
            await settled()
            assert stream.seqs == list(range(1, 401))


async def test_filters_skip_and_the_cursor_passes_what_they_skipped(
    tmp_path: Path, mock_clock: trio.testing.MockClock
) -> None:
    async with scene(tmp_path) as at:
        epoch = await at.epoch()
        async with listening(at, "/v1/inboxes/demo/stream?types=push&types=tag") as stream:
            for event_type in ("push", "ping", "tag", "ping", "ping"):
                await at.send(event_type)
            await settled()
            assert stream.seqs == [1, 3]
            mock_clock.jump(15)
            await settled()
            assert stream.text.endswith(f":\nid: {epoch}:5\n\n")
            assert stream.parser.last_event_id == f"{epoch}:5"
            assert len(stream.events) == 2


async def test_silence_is_broken_by_a_comment_every_fifteen_seconds(
    tmp_path: Path, mock_clock: trio.testing.MockClock
) -> None:
    async with (
        scene(tmp_path, keep_alive_seconds=30.0, stalled_reader_seconds=5.0) as at,
        listening(at) as stream,
    ):
        opening = stream.text
        for n in range(30):
            mock_clock.jump(14)
            await settled()
            assert stream.text == opening + ":\n\n" * n
            mock_clock.jump(1)
            await settled()
            assert stream.text == opening + ":\n\n" * (n + 1)
        await at.send()
        await settled()
        assert stream.seqs == [1], "seven minutes later it is still a stream"


async def test_bodies_over_the_inline_limit_are_marked(
    tmp_path: Path, mock_clock: trio.testing.MockClock
) -> None:
    async with (
        scene(tmp_path, inline_body_bytes=8) as at,
        listening(at, "/v1/inboxes/demo/stream?bodies=true") as with_bodies,
        listening(at) as without,
    ):
        await at.send(body=b'{"n": 1234567}')
        await at.send(body=b"[1]")
        await settled()
        large, small = (event.json for event in with_bodies.events)
        assert large["body_truncated"] is True
        assert small["untrusted"]["body"] == [1]
        assert ["body" in event.json["untrusted"] for event in without.events] == [False, False]


async def test_readers_of_the_same_tail_share_one_encoding(
    tmp_path: Path, mock_clock: trio.testing.MockClock
) -> None:
    async with scene(tmp_path) as at:
        async with listening(at) as one, listening(at) as another:
            await at.send()
            await settled()
            assert one.text == another.text
        tail = at.served.world.registry.live(at.inbox.inbox_id).tail
        _, [entry] = tail.look(0, None, 10)
        assert list(entry.fragments) == [False]
