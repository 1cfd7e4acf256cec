"""Event streams of a real server: readers that come back after restarts, stop reading, or are browsers."""

import base64
import json
from pathlib import Path

import pytest
import trio

from tests.live.api import Api, error_of
from tests.live.harness import Server, connect
from tests.live.listening import EventSource, streaming
from tests.wire.client import head

LARGE = b'"' + b"x" * 16_000 + b'"'
LARGE_MESSAGES = 400
"""Over 6 MB as sent: more than the buffers of a connection to the loopback take."""


def test_a_stream_tells_what_is_sent_and_resumes_by_its_last_id(api: Api) -> None:
    slug = api.inbox()
    with streaming(api, f"/inboxes/{slug}/stream?bodies=true") as stream:
        api.send(slug, b'{\n  "n": 1\n}')
        event = next(stream)
        assert (event.name, event.json["seq"], event.json["untrusted"]["body"]) == ("message", 1, {"n": 1})
        assert stream.parser.retry_ms == 2000
    api.send(slug)
    with streaming(api, f"/inboxes/{slug}/stream", event.last_event_id) as stream:
        assert next(stream).json["seq"] == 2


@pytest.mark.parametrize("how", ["stop", "kill"])
def test_a_stream_resumes_after_a_restart(tmp_path: Path, how: str) -> None:
    with Server(tmp_path / "data") as server:
        with Api(server.url, server.token) as api:
            one, two = api.inbox(), api.inbox()
            for slug in (one, two, one):
                api.send(slug)
            target = f"/stream?inboxes={one}&inboxes={two}"
            with (
                streaming(api, f"/inboxes/{one}/stream?after=1") as single,
                streaming(api, f"{target}&after=0") as several,
            ):
                assert next(single).json["seq"] == 2
                told = {(event.json["inbox"], event.json["seq"]) for event in (next(several), next(several))}
                single_id, several_id = single.parser.last_event_id, several.parser.last_event_id
                if how == "stop":
                    assert server.stop() == 0
                    farewell = next(event for event in single if event.name == "bye")
                    assert farewell.json == {"reason": "shutdown"}
                else:
                    server.kill()
        server.start()
        with Api(server.url, server.token) as api:
            api.send(one)
            with streaming(api, f"/inboxes/{one}/stream", single_id) as single:
                assert next(single).json["seq"] == 3
            with streaming(api, target, several_id) as several:
                while len(told) < 4:
                    event = next(several)
                    told.add((event.json["inbox"], event.json["seq"]))
            assert told == {(one, 1), (one, 2), (one, 3), (two, 1)}


def test_a_new_life_is_told_to_who_resumes_and_refused_to_who_asks_by_parameter(api: Api) -> None:
    slug = api.inbox()
    api.send(slug)
    with streaming(api, f"/inboxes/{slug}/stream?after=0") as stream:
        old = next(stream).last_event_id
        api.call("DELETE", f"/inboxes/{slug}").raise_for_status()
        assert (bye := next(stream)).name == "bye"
        assert bye.json == {"reason": "inbox_deleted"}
        assert list(stream) == []
    api.inbox(slug=slug)
    api.send(slug)
    with streaming(api, f"/inboxes/{slug}/stream", old) as stream:
        changed = next(stream)
        assert changed.name == "epoch_changed"
        assert changed.last_event_id == f"{changed.json['epoch']}:0"
        assert list(stream) == []
    with streaming(api, f"/inboxes/{slug}/stream", changed.last_event_id) as stream:
        assert next(stream).json["epoch"] == changed.json["epoch"]
    epoch = old.partition(":")[0]
    answer = api.call("GET", f"/inboxes/{slug}/stream?after=1&epoch={epoch}")
    assert error_of(answer)[:2] == (409, "epoch_changed")


def test_a_revoked_token_hears_so(api: Api) -> None:
    slug = api.inbox()
    issued = api.ok("POST", "/tokens", {"kind": "agent", "inboxes": [slug]}, status=201)
    with streaming(api.as_(issued["token"]), f"/inboxes/{slug}/stream") as stream:
        api.call("DELETE", f"/tokens/{issued['token_id']}").raise_for_status()
        assert next(stream).json == {"reason": "revoked"}
        assert list(stream) == []


def test_an_event_source_of_node_listens_through_a_restart(tmp_path: Path) -> None:
    with Server(tmp_path / "data") as server, Api(server.url, server.token) as api:
        slug = api.inbox()
        api.send(slug, b'{\r\n"first": true}')
        url = f"{server.url}/v1/inboxes/{slug}/stream?after=0&bodies=true"
        with EventSource(url, server.token) as source:
            first = source.next_of("message")
            assert first["data"]["untrusted"]["body"] == {"first": True}
            server.keep_port()
            assert server.stop() == 0
            assert source.next_of("bye")["data"] == {"reason": "shutdown"}
            server.start()
            api.send(slug)
            second = source.next_of("message")
            assert second["data"]["seq"] == 2, "neither told twice nor missed"
            assert second["lastEventId"] == first["lastEventId"].replace(":1", ":2")
            api.call("DELETE", f"/inboxes/{slug}").raise_for_status()
            assert source.next_of("bye")["data"] == {"reason": "inbox_deleted"}
            api.inbox(slug=slug)
            api.send(slug)
            changed = source.next_of("epoch_changed")
            assert changed["data"]["inbox"] == slug
            begun = source.next_of("message")
            assert (begun["data"]["seq"], begun["data"]["epoch"]) == (1, changed["data"]["epoch"])


def test_an_event_source_of_node_resumes_several_inboxes_by_their_vector(tmp_path: Path) -> None:
    with Server(tmp_path / "data") as server, Api(server.url, server.token) as api:
        one, two = api.inbox(), api.inbox()
        with EventSource(f"{server.url}/v1/stream?inboxes={one}&inboxes={two}", server.token) as source:
            source.next_of("open")
            told = []
            for slug in (one, two):
                api.send(slug)
                told.append(source.next_of("message"))
            server.keep_port()
            server.kill()
            server.start()
            api.send(two)
            told.append(source.next_of("message"))
            assert [(event["data"]["inbox"], event["data"]["seq"]) for event in told] == [
                (one, 1),
                (two, 1),
                (two, 2),
            ]
            event_id = told[-1]["lastEventId"]
            vector = json.loads(base64.urlsafe_b64decode(event_id + "=" * (-len(event_id) % 4)))
            assert {slug: seq for slug, (_, seq) in vector.items()} == {one: 1, two: 2}


def test_a_reader_that_stops_is_disconnected_and_resumes_by_its_cursor(tmp_path: Path) -> None:
    with Server(tmp_path / "data", stalled_reader_seconds=1) as server, Api(server.url, server.token) as api:
        slug = api.inbox()
        for _ in range(LARGE_MESSAGES):
            api.send(slug, LARGE)
        target = f"/v1/inboxes/{slug}/stream?after=0&bodies=true"
        request = head("GET", target, [("Authorization", f"Bearer {server.token}")])

        async def stall() -> int:
            """Read nothing until the server has given up on this client; return what was still in the buffers."""
            async with await connect(server.port, receive_buffer=4096) as client:
                await client.send(request)
                while api.get("/stats")["waits"]["open"] != 1:
                    await trio.lowlevel.checkpoint()
                while api.get("/stats")["waits"]["open"] != 0:
                    await trio.lowlevel.checkpoint()
                return len(await client.until_closed())

        async def bounded() -> int:
            with trio.fail_after(30):
                return await stall()

        assert trio.run(bounded) < LARGE_MESSAGES * len(LARGE) / 2
        with streaming(api, f"/inboxes/{slug}/stream?after=0") as stream:
            assert [next(stream).json["seq"] for _ in range(LARGE_MESSAGES)] == list(
                range(1, LARGE_MESSAGES + 1)
            )
