"""A stream pulled by hand: a commit at any point of its life is told once, in order, and nothing is buffered."""

from contextlib import ExitStack
from typing import Any

import pytest
import trio

from actors.commands import Purge
from actors.watchers import Watcher
from storage.memory import MemoryStore
from storage.protocols import Look
from storage.records import PageQuery, TokenRecord
from tests.actors.drafts import append
from tests.actors.test_feed import StepStore
from tests.actors.world import World, running
from tests.wire.events import EventParser
from web.pulse import Pulse
from web.stream import PIECE_BYTES, Place, Stream
from web.watching import Access


async def stream_of(
    world: World, inbox: int, after: int | None, *, types: tuple[str, ...] = (), bodies: bool = False
) -> Stream:
    """Open a stream as its handler does, without HTTP."""
    held = ExitStack()
    watcher = Watcher(types)
    token = TokenRecord("t", b"hash", "admin", None)
    world.tokens.took(token)
    held.enter_context(world.tokens.watching(token, watcher))
    place = Place("demo", held.enter_context(world.service.feed(inbox, watcher)))
    place.begin(await place.look(), after)
    access = Access(world.tokens, token, ("demo",), watcher)
    stream = Stream(
        (place,),
        watcher,
        access,
        held,
        Pulse(),
        several=False,
        types=types,
        bodies=bodies,
        inline_limit=16_384,
    )
    stream.open()
    return stream


class Reader:
    """Pulls a stream and keeps what it was told."""

    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        self.parser = EventParser()
        self.seqs: list[int] = []
        self.pieces: list[int] = []

    async def until(self, seq: int) -> None:
        while not self.seqs or self.seqs[-1] < seq:
            piece = await anext(self.stream)
            self.pieces.append(len(piece))
            self.seqs += [event.json["seq"] for event in self.parser.feed(piece) if event.name == "message"]


@pytest.mark.parametrize("warm", [True, False], ids=["warm", "cold"])
@pytest.mark.parametrize("read_steps", [0, 1, 3])
@pytest.mark.parametrize("commit_steps", [0, 2])
@pytest.mark.parametrize("after", [0, None])
async def test_a_commit_at_any_point_of_a_streams_start_is_told_once(
    warm: bool, read_steps: int, commit_steps: int, after: int | None
) -> None:
    for moment in range(20):
        store = StepStore()
        async with running(store) as world:
            inbox = await world.inbox()
            if warm:
                await world.registry.ask(inbox, append())
            store.read_steps, store.commit_steps = read_steps, commit_steps
            readers: list[Reader] = []
            begun = trio.Event()

            async def listen(
                world: World = world,
                inbox: int = inbox,
                readers: list[Reader] = readers,
                begun: trio.Event = begun,
            ) -> None:
                reader = Reader(await stream_of(world, inbox, after))
                readers.append(reader)
                begun.set()
                with reader.stream._held:
                    await reader.until(3)

            with trio.fail_after(5):
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(listen)
                    for _ in range(moment):
                        await trio.lowlevel.checkpoint()
                    await world.registry.ask(inbox, append())
                    await begun.wait()
                    await world.registry.ask(inbox, append())
                    if not warm:
                        await world.registry.ask(inbox, append())
            seqs = readers[0].seqs
            assert seqs == list(range(seqs[0], 4)), moment
            assert seqs[0] == 1 if after == 0 else seqs[0] <= 3


async def test_a_stream_that_is_sending_misses_nothing_and_buffers_nothing() -> None:
    reads: list[Any] = []

    class Counting(MemoryStore):
        async def read(self, look: Look[Any]) -> Any:
            reads.append(look)
            return await super().read(look)

    async with running(Counting()) as world:
        inbox = await world.inbox()
        await world.registry.ask(inbox, append())
        reader = Reader(await stream_of(world, inbox, None))
        with trio.fail_after(5), reader.stream._held:
            await anext(reader.stream)
            reads.clear()
            for seq in range(2, 30):
                await world.registry.ask(inbox, append())  # while the last piece is still being sent
                if seq % 3 == 0:
                    await reader.until(seq)
            assert reader.seqs == list(range(2, 28))
            assert reads == [], "a reader that keeps up costs the store nothing"


async def test_a_stream_far_behind_is_told_in_pieces_of_bounded_size() -> None:
    async with running() as world:
        inbox = await world.inbox()
        body = b'"%b"' % (b"x" * 10_000)
        for _ in range(200):
            await world.registry.ask(inbox, append(body))
        reader = Reader(await stream_of(world, inbox, 0, bodies=True))
        with trio.fail_after(5), reader.stream._held:
            await reader.until(200)
        assert reader.seqs == list(range(1, 201))
        assert max(reader.pieces) < PIECE_BYTES + 2 * len(body)


async def test_retention_that_overtakes_a_stream_is_told_as_a_gap() -> None:
    async with running() as world:
        inbox = await world.inbox()
        for _ in range(3):
            await world.registry.ask(inbox, append())
        stream = await stream_of(world, inbox, 1)
        parser = EventParser()
        with trio.fail_after(5), stream._held:
            assert list(parser.feed(await anext(stream))) == []
            await world.registry.ask(inbox, append())
            await world.registry.ask(inbox, Purge())
            await world.registry.ask(inbox, append())
            events = list(parser.feed(await anext(stream)))
        assert [(event.name, event.last_event_id.rpartition(":")[2]) for event in events] == [
            ("gap", "4"),
            ("message", "5"),
        ]
        assert events[0].json == {"inbox": "demo", "after": 1, "first_seq": 5}


async def test_a_closed_stream_leaves_nobody_behind_and_ends() -> None:
    async with running() as world:
        inbox = await world.inbox()
        stream = await stream_of(world, inbox, 0)
        assert len(world.registry.live(inbox).watchers) == 1
        async with stream:
            await anext(stream)
        assert not world.registry.live(inbox).watchers
        assert len(world.tokens._watchers) == 0
        assert [piece async for piece in stream] == []
        stream.close()


async def test_a_quiet_inbox_is_not_read_again_when_another_one_wakes_the_stream() -> None:
    reads: list[PageQuery] = []

    class Counting(MemoryStore):
        async def read(self, look: Look[Any]) -> Any:
            reads.append(look)  # type: ignore[arg-type]  # only counted
            return await super().read(look)

    async with running(Counting()) as world:
        inbox = await world.inbox()
        watcher = Watcher()
        with world.service.feed(inbox, watcher) as feed:
            place = Place("demo", feed)
            place.begin(await place.look(), None)
            reads.clear()
            due = [place.due]
            await world.registry.ask(inbox, append())
            due.append(place.due)
            page, entries = await place.read((), 0)
            assert [row.seq for row in page.rows] == [1]
            assert len(entries) == 1
            place.passed(page, None)
            due.append(place.due)
        assert due == [False, True, False]
        assert reads == []
