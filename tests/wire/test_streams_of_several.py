"""One stream of several inboxes: it resumes by a vector of places, and tells of each inbox by itself."""

from pathlib import Path

import trio
import trio.testing

from tests.wire.listening import farewell, listening, settled, vector_of
from tests.wire.scene import scene
from web.sse import vector_id


async def test_one_stream_of_several_inboxes_resumes_by_its_vector(
    tmp_path: Path, mock_clock: trio.testing.MockClock
) -> None:
    async with scene(tmp_path, max_streams=1) as at:
        other = await at.served.inbox("other")
        await at.rescope(None)
        target = "/v1/stream?inboxes=demo&inboxes=other&inboxes=demo"
        epochs = {"demo": await at.epoch(), "other": await at.epoch("other")}
        await at.send()
        async with listening(at, target) as stream:
            assert vector_of(stream.parser.last_event_id) == {
                "demo": [epochs["demo"], 1],
                "other": [epochs["other"], 0],
            }
            slots = at.served.slots
            assert (slots.taken, slots.on(at.inbox.inbox_id), slots.on(other.inbox_id)) == (1, 1, 1)
            await at.send()
            await at.send(inbox=other)
            await at.send()
            await settled()
            told = [(event.json["inbox"], event.json["seq"]) for event in stream.events]
            assert sorted(told) == [("demo", 2), ("demo", 3), ("other", 1)]
            ids = {told_at: event.last_event_id for told_at, event in zip(told, stream.events, strict=True)}
            first = stream.events[0]
        for _ in range(2):
            await at.send(inbox=other)
        async with listening(at, target, first.last_event_id) as stream:
            seen = [told[0], *((event.json["inbox"], event.json["seq"]) for event in stream.events)]
            assert sorted(seen) == [("demo", 2), ("demo", 3), ("other", 1), ("other", 2), ("other", 3)]
        assert vector_of(ids["demo", 3])["demo"] == [epochs["demo"], 3]


async def test_an_inbox_that_a_vector_does_not_name_begins_as_the_address_says(
    tmp_path: Path, mock_clock: trio.testing.MockClock
) -> None:
    async with scene(tmp_path) as at:
        other = await at.served.inbox("other")
        await at.rescope(None)
        await at.send()
        await at.send(inbox=other)
        async with listening(at, "/v1/stream?inboxes=demo") as stream:
            vector = stream.parser.last_event_id
        async with listening(at, "/v1/stream?inboxes=demo&inboxes=other&after=0", vector) as stream:
            assert [(event.json["inbox"], event.json["seq"]) for event in stream.events] == [("other", 1)]


async def test_a_new_life_of_one_inbox_keeps_the_place_in_the_others(
    tmp_path: Path, mock_clock: trio.testing.MockClock
) -> None:
    async with scene(tmp_path) as at:
        other = await at.served.inbox("other")
        await at.rescope(None)
        target = "/v1/stream?inboxes=demo&inboxes=other"
        await at.send(inbox=other)
        async with listening(at, target) as stream:
            vector = stream.parser.last_event_id
            await at.served.service.delete_inbox(at.inbox.inbox_id)
            await settled()
            assert farewell(stream) == "inbox_deleted"
            assert stream.events[-1].json["inbox"] == "demo"
        at.inbox = await at.served.inbox("demo")
        await at.send()
        async with listening(at, target, vector) as stream:
            assert stream.ended
            assert stream.names == ["epoch_changed"]
            assert stream.events[0].json == {"inbox": "demo", "epoch": await at.epoch()}
            vector = stream.parser.last_event_id
        async with listening(at, target, vector) as stream:
            assert [(event.json["inbox"], event.json["seq"]) for event in stream.events] == [("demo", 1)]


async def test_who_breaks_off_between_two_new_lives_is_told_of_the_second_again(
    tmp_path: Path, mock_clock: trio.testing.MockClock
) -> None:
    async with scene(tmp_path) as at:
        other = await at.served.inbox("other")
        await at.served.inbox("third")
        await at.rescope(None)
        await at.send(inbox=other)
        target = "/v1/stream?inboxes=demo&inboxes=third&inboxes=other"
        async with listening(at, target) as stream:
            before = vector_of(stream.parser.last_event_id)
        for inbox in (at.inbox, other):
            await at.served.service.delete_inbox(inbox.inbox_id)
        for slug in ("demo", "other"):
            await at.served.inbox(slug)
        async with listening(at, target, vector_id(before)) as stream:
            assert stream.ended
            assert stream.names == ["epoch_changed", "epoch_changed"]
            first, second = stream.events
        assert first.last_event_id is not None
        between = vector_of(first.last_event_id)
        assert between == {**before, "demo": [first.json["epoch"], 0]}
        async with listening(at, target, first.last_event_id) as stream:
            assert [event.json for event in stream.events] == [second.json]
            assert stream.parser.last_event_id == second.last_event_id
        async with listening(at, target, second.last_event_id) as stream:
            assert stream.events == []
            assert not stream.ended


async def test_a_farewell_names_the_deleted_inbox_among_several(
    tmp_path: Path, mock_clock: trio.testing.MockClock
) -> None:
    async with scene(tmp_path) as at:
        other = await at.served.inbox("other")
        await at.rescope(None)
        async with listening(at, "/v1/stream?inboxes=demo&inboxes=other") as stream:
            await at.served.service.delete_inbox(other.inbox_id)
            await settled()
            assert stream.ended
            assert stream.events[-1].json == {"reason": "inbox_deleted", "inbox": "other"}


async def test_a_busy_inbox_does_not_keep_the_others_from_being_told(
    tmp_path: Path, mock_clock: trio.testing.MockClock
) -> None:
    async with scene(tmp_path) as at:
        other = await at.served.inbox("other")
        await at.rescope(None)
        for _ in range(1_000):
            await at.send()
        await at.send(inbox=other)
        async with listening(at, "/v1/stream?inboxes=demo&inboxes=other&after=0") as stream:
            told = [event.json["inbox"] for event in stream.events]
            assert told.count("demo") == 1_000
            assert told.index("other") < 200
