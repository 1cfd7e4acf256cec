"""How a stream ends, for whatever reason, and that everything it held is given back."""

from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing
from structlog.testing import capture_logs

from actors.commands import DeleteInbox
from tests.wire.listening import farewell, listening, settled
from tests.wire.scene import scene
from web.stream import Place


async def test_a_revoked_token_ends_its_streams_at_once(
    tmp_path: Path, mock_clock: trio.testing.MockClock
) -> None:
    async with scene(tmp_path) as at, listening(at) as stream:
        await at.served.world.tokens.revoke(at.token.token_id)
        await settled()
        assert farewell(stream) == "revoked"


async def test_an_expiring_token_ends_its_streams_in_time(
    tmp_path: Path, mock_clock: trio.testing.MockClock
) -> None:
    async with scene(tmp_path) as at:
        await at.new_token(["demo"], lifetime_seconds=40)
        async with listening(at) as stream:
            for _ in range(3):
                mock_clock.jump(13)
                await settled()
            assert not stream.ended
            mock_clock.jump(1)
            await settled()
            assert farewell(stream) == "revoked"


async def test_a_token_that_loses_the_inbox_ends_the_stream_and_one_that_keeps_it_does_not(
    tmp_path: Path, mock_clock: trio.testing.MockClock
) -> None:
    async with scene(tmp_path) as at, listening(at) as stream:
        await at.rescope(("demo", "other"))
        await at.send()
        await settled()
        assert stream.seqs == [1]
        await at.rescope(("other",))
        await settled()
        assert farewell(stream) == "revoked"


async def test_a_deleted_inbox_ends_its_streams(tmp_path: Path, mock_clock: trio.testing.MockClock) -> None:
    async with scene(tmp_path) as at, listening(at) as stream:
        await at.served.world.registry.ask(at.inbox.inbox_id, DeleteInbox())
        await settled()
        assert farewell(stream) == "inbox_deleted"
        assert at.served.slots.taken == 0


async def test_a_client_that_hangs_up_gives_everything_back_at_once(
    tmp_path: Path, mock_clock: trio.testing.MockClock
) -> None:
    async with scene(tmp_path) as at:
        async with listening(at), listening(at, "/v1/stream?inboxes=demo"):
            assert (at.served.slots.taken, at.served.slots.on(at.inbox.inbox_id)) == (2, 2)
        await settled()
        assert (at.served.slots.taken, at.served.slots.on(at.inbox.inbox_id)) == (0, 0)
        assert not at.served.world.registry.live(at.inbox.inbox_id).watchers
        assert not at.served.connections.live


async def test_a_stray_byte_hides_the_hang_up_until_the_next_heartbeat(
    tmp_path: Path, mock_clock: trio.testing.MockClock
) -> None:
    async with scene(tmp_path) as at:
        async with at.served.connect() as client:
            await client.send(at.get("/v1/inboxes/demo/stream") + at.get("/v1/me"))
            await settled()
        await settled()
        mock_clock.jump(15)
        await settled()
        assert at.served.slots.taken == 0
        assert not at.served.connections.live


async def test_a_stream_that_fails_is_cut_off_and_gives_its_slot_back(
    tmp_path: Path, mock_clock: trio.testing.MockClock
) -> None:
    with capture_logs() as logs:
        async with scene(tmp_path) as at, at.served.connect() as client:
            await client.start("/v1/inboxes/demo/stream", at.headers)
            await client.data()
            live = at.served.world.registry.live(at.inbox.inbox_id)
            at.served.world.registry._quarantined.add(at.inbox.inbox_id)
            live.stop()
            with pytest.raises(ConnectionError):
                await client.data()
            assert at.served.slots.taken == 0
    assert "a streamed answer was cut off" in [line["event"] for line in logs]


@pytest.mark.parametrize("kept", [True, False])
async def test_what_came_after_the_inbox_was_closed_is_not_told_however_late_it_was_read(
    tmp_path: Path, mock_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch, kept: bool
) -> None:
    read, under_way, go_on = Place.read, trio.Event(), trio.Event()

    async def slowly(place: Place, types: tuple[str, ...], body_limit: int) -> Any:
        found = await read(place, types, body_limit)
        under_way.set()
        await go_on.wait()
        return found

    async with scene(tmp_path) as at, listening(at) as stream:
        monkeypatch.setattr(Place, "read", slowly)
        await at.send()
        await under_way.wait()
        await at.rescope(("demo", "other") if kept else ("other",))
        go_on.set()
        await settled()
        if kept:
            assert stream.seqs == [1]
        else:
            assert (farewell(stream), stream.seqs) == ("revoked", [])
            assert stream.parser.last_event_id.endswith(":0"), "who may read it again, resumes before it"


async def test_what_was_read_while_its_token_was_revoked_is_not_told(
    tmp_path: Path, mock_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with scene(tmp_path) as at, listening(at) as stream:
        read = Place.read

        async def meanwhile(place: Place, types: tuple[str, ...], body_limit: int) -> Any:
            found = await read(place, types, body_limit)
            await at.served.world.tokens.revoke(at.token.token_id)
            return found

        monkeypatch.setattr(Place, "read", meanwhile)
        await at.send()
        await settled()
        assert (farewell(stream), stream.seqs) == ("revoked", [])
