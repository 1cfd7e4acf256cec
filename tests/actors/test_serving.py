"""An agent's mail message by message: plain reads, peeks and acknowledgements by id, over both stores."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
import trio

from actors.commands import AckEach, Erase, MarkServed, Purge, Refusal
from actors.rules import draining
from storage.mail_records import AgentRecord, Receipt
from tests.actors import post
from tests.actors.drafts import draft
from tests.actors.meeting import ack, ids, peek, plain, read, reader, receipts, send, unread, worlds
from tests.actors.world import World


@pytest.fixture(params=["memory", "sqlite"])
async def world(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[World]:
    async with AsyncExitStack() as stack:
        yield await stack.enter_async_context(worlds(request.param, tmp_path)(routing=True, pull_max_batch=4))


async def mailed(world: World, count: int) -> tuple[AgentRecord, AgentRecord]:
    """Return two agents; the first has sent the second so many messages, called by their seqs."""
    ada, ben = await world.machine("m", ("ada", "ben"))
    for number in range(1, count + 1):
        await send(world, ada, str(number), to_agent="ben", require_alive=False)
    return ada, ben


# -- plain reads and peeks ---------------------------------------------------------------------------------------
async def test_a_plain_read_says_everything_once_and_oldest_first(world: World) -> None:
    _, ben = await mailed(world, 5)
    assert await plain(world, ben, limit=2) == ["1", "2"]
    assert await plain(world, ben, limit=2) == ["3", "4"]
    assert await plain(world, ben) == ["5"]
    assert await plain(world, ben) == []
    assert await unread(world, ben) == 5, "serving acknowledges nothing"
    assert (await reader(world, ben)).ack_cursor == 0


async def test_a_peek_says_what_is_not_acknowledged_whatever_was_served(world: World) -> None:
    _, ben = await mailed(world, 3)
    assert await peek(world, ben) == ["1", "2", "3"]
    assert await plain(world, ben, limit=2) == ["1", "2"]
    assert await peek(world, ben) == ["1", "2", "3"]
    assert (await ack(world, ben, [(await ids(world, ben))[1]])).acked
    assert await peek(world, ben) == ["1", "3"]
    assert await plain(world, ben) == ["3"], "what was peeked is still new to a plain read"
    assert await peek(world, ben, limit=1) == ["1"]


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
async def test_a_peek_and_a_read_that_finds_nothing_commit_nothing(kind: str, tmp_path: Path) -> None:
    async with worlds(kind, tmp_path)() as world:  # without a router: it commits where it is
        _, ben = await mailed(world, 3)
        await plain(world, ben)
        before, commits = await reader(world, ben), world.store.health.commits
        for _ in range(20):
            await peek(world, ben)
            await plain(world, ben)
        assert world.store.health.commits == commits
        assert await reader(world, ben) == before


async def test_what_was_acknowledged_is_served_no_more_whatever_was_peeked(world: World) -> None:
    _, ben = await mailed(world, 3)
    first, second, _ = await ids(world, ben)
    await ack(world, ben, [first, second])
    assert await plain(world, ben) == ["3"]
    assert await unread(world, ben) == 1


async def test_two_plain_reads_at_once_never_get_the_same_message(world: World) -> None:
    _, ben = await mailed(world, 30)
    got: list[str] = []

    async def take() -> None:
        while found := await plain(world, ben, limit=3):
            got.extend(found)

    with trio.fail_after(10):
        async with trio.open_nursery() as nursery:
            for _ in range(4):
                nursery.start_soon(take)
    assert sorted(got, key=int) == [str(number) for number in range(1, 31)]


async def test_a_message_that_goes_between_look_and_mark_is_not_served(world: World) -> None:
    _, ben = await mailed(world, 3)
    assert await world.registry.ask(ben.inbox_id, MarkServed((1, 3, 9))) == (1, 3)
    await world.registry.ask(ben.inbox_id, Erase(2))
    assert await world.registry.ask(ben.inbox_id, MarkServed((1, 2, 3))) == ()
    assert await plain(world, ben) == []


async def test_a_page_is_full_also_where_some_of_its_rows_were_served_before(world: World) -> None:
    _, ben = await mailed(world, 6)
    await world.registry.ask(ben.inbox_id, MarkServed((2, 4)))
    assert await plain(world, ben, limit=3) == ["1", "3", "5"]
    assert await plain(world, ben, limit=3) == ["6"]


async def test_a_page_is_cut_by_its_bytes_and_what_was_cut_off_comes_next(world: World) -> None:
    _, ben = await mailed(world, 4)
    options = {"byte_budget": 250, "measure": lambda row: 100}
    assert await plain(world, ben, **options) == ["1", "2"]
    assert await plain(world, ben, **options) == ["3", "4"]
    assert await plain(world, ben, byte_budget=1, measure=lambda row: 100) == []
    assert await peek(world, ben, byte_budget=1, measure=lambda row: 100) == ["1"], "at least one"


async def test_rows_that_a_token_does_not_see_are_neither_served_nor_counted_nor_taken_from_others(
    world: World,
) -> None:
    ben = await world.agent("ben")
    made = await post.seed(world, ben, [(0.5, number % 3 == 0) for number in range(250)])
    seen = [seq for seq in range(1, 251) if seq % 3 == 1]
    served = [row.seq for row in (await read(world, ben, visible=post.SCOPE, limit=100)).rows]
    assert served == seen
    found = await read(world, ben, visible=post.SCOPE)
    assert (found.rows, found.unread) == ([], len(seen))
    other = await read(world, ben, visible=frozenset({post.CLOSED}), limit=100)
    assert [row.seq for row in other.rows] == [seq for seq in range(1, 151) if seq % 3 != 1]
    await world.service.delete_inbox(made[post.CLOSED])
    assert (await read(world, ben, visible=frozenset({post.CLOSED}))).unread == 0


async def test_expired_mail_is_not_shown(world: World) -> None:
    ben = await world.agent("ben")
    made = await post.origins(world)
    await post.deliver(world, ben, made[post.OPEN], expires_at=1)
    await post.deliver(world, ben, made[post.OPEN])
    for peeking in (True, False):
        found = await read(world, ben, peek=peeking, visible=post.SCOPE)
        assert ([row.seq for row in found.rows], found.unread) == ([2], 1)


# -- acknowledging by id -----------------------------------------------------------------------------------------
async def test_acknowledgements_out_of_order_fold_over_a_prefix_and_then_agree_with_pulls(
    world: World,
) -> None:
    _, ben = await mailed(world, 6)
    of = dict(enumerate(await ids(world, ben), 1))
    for seqs, cursor in (([3], 0), ([5, 2], 0), ([1], 3), ([4], 5)):
        done = await ack(world, ben, [of[seq] for seq in seqs])
        assert (done.acked, done.cursor) == (tuple(of[seq] for seq in seqs), cursor)
        pulled = await world.mail.pull(ben, post.call())
        assert pulled.cursor == cursor
        runs = (await reader(world, ben)).acked
        assert all(low > cursor for low, _ in runs)
    assert await plain(world, ben) == ["6"]
    assert (await world.mail.pull(ben, post.call(ack=6))).cursor == 6
    assert (await ack(world, ben, [of[6]])).already == (of[6],)
    assert await unread(world, ben) == 0


async def test_a_pull_acknowledges_for_plain_reads_too_and_serves_what_they_have_served(world: World) -> None:
    _, ben = await mailed(world, 4)
    await plain(world, ben)
    assert post.seqs(await world.mail.pull(ben, post.call())) == (1, 2, 3, 4)
    await world.mail.pull(ben, post.call(ack=3))
    assert await peek(world, ben) == ["4"]
    assert (await reader(world, ben)).served == ((4, 4),)


async def test_an_id_that_is_not_the_agent_s_to_see_is_unknown_in_every_case_alike(world: World) -> None:
    ada, ben = await mailed(world, 1)
    await send(world, ben, "for ada", to_agent="ada", require_alive=False)
    made = await post.origins(world)
    await post.deliver(world, ben, made[post.CLOSED], one=draft())
    (of_ada,) = await ids(world, ada)
    hidden = (await read(world, ben, peek=True, visible=frozenset({post.CLOSED}))).rows[-1].id
    nowhere = b"\x07" * 16
    before = await reader(world, ben)
    done = await ack(world, ben, [of_ada, hidden, nowhere])
    assert (done.acked, done.already, done.unknown) == ((), (), (of_ada, hidden, nowhere))
    assert await reader(world, ben) == before
    assert await peek(world, ada) == ["for ada"]
    assert receipts_of(await receipts(world, ben)) == {"ada": (False, False)}


async def test_an_id_named_twice_counts_once_and_gone_mail_is_unknown(world: World) -> None:
    _, ben = await mailed(world, 3)
    first, second, third = await ids(world, ben)
    done = await ack(world, ben, [second, second])
    assert (done.acked, done.already) == ((second,), ())
    await world.registry.ask(ben.inbox_id, Erase(1))
    done = await ack(world, ben, [first, second, third])
    assert (done.acked, done.already, done.unknown, done.cursor) == ((third,), (second,), (first,), 3)
    await world.registry.ask(ben.inbox_id, Purge())
    assert (await ack(world, ben, [third])).unknown == (third,)


async def test_too_many_holes_are_refused_and_change_nothing(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(draining, "MAX_RUNS", 2)
    _, ben = await mailed(world, 8)
    of = await ids(world, ben)
    await ack(world, ben, [of[1], of[3]])
    before = await reader(world, ben)
    with pytest.raises(Refusal) as refusal:
        await ack(world, ben, [of[5]])
    assert refusal.value.code == "conflict"
    assert await reader(world, ben) == before
    assert (await ack(world, ben, [of[0], of[5]])).cursor == 2


# -- receipts ------------------------------------------------------------------------------------------------------
def receipts_of(found: list[dict[str, Receipt]]) -> dict[str, tuple[bool, bool]]:
    """Return of the newest message whether it was served and acknowledged, by recipient."""
    return {
        name: (receipt.served_at is not None, receipt.acked_at is not None)
        for name, receipt in found[0].items()
    }


async def test_a_sender_sees_what_was_stored_served_and_acknowledged_each_by_itself(world: World) -> None:
    ada, ben = await mailed(world, 1)
    assert receipts_of(await receipts(world, ada)) == {"ben": (False, False)}
    await peek(world, ben)
    assert receipts_of(await receipts(world, ada)) == {"ben": (False, False)}
    await plain(world, ben)
    assert receipts_of(await receipts(world, ada)) == {"ben": (True, False)}
    await ack(world, ben, await ids(world, ben))
    assert receipts_of(await receipts(world, ada)) == {"ben": (True, True)}
    (of,) = await receipts(world, ada)
    assert of["ben"].stored_at is not None
    assert of["ben"].expired_at is None


@pytest.mark.parametrize("by", ["id", "seq", "cursor"])
async def test_an_acknowledgement_of_any_kind_counts_as_served(world: World, by: str) -> None:
    ada, ben = await mailed(world, 1)
    if by == "id":
        await ack(world, ben, await ids(world, ben))
    elif by == "seq":
        await world.registry.ask(ben.inbox_id, AckEach((1,)))
    else:
        await world.mail.pull(ben, post.call(ack=1))
    assert receipts_of(await receipts(world, ada)) == {"ben": (True, True)}
