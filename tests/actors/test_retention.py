from collections.abc import Callable
from typing import Any

import msgspec
import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from actors.commands import ChangeInbox, Erase, Purge, Refusal
from actors.housekeeping import Housekeeper
from actors.rules.retention import DROP_ROWS, due_at, plan, refusal, wanted
from actors.turn import Turn
from storage.errors import SecretUnreadable
from storage.memory import MemoryStore
from storage.records import Head, InboxRecord, InboxSettings, NewInbox, OldEntry, PageQuery, Retention
from tests.actors.drafts import append
from tests.actors.world import World, running

SECOND = 1_000_000


# -- the rules ---------------------------------------------------------------------------------------------------


def kept(rows: int, size: int = 10, first: int = 1) -> tuple[Head, list[OldEntry]]:
    """A head and its entries: one a second, `size` bytes each."""
    entries = [OldEntry(seq, seq * SECOND, size) for seq in range(first, first + rows)]
    latest = first + rows - 1
    head = Head("e", latest, first, latest * SECOND, live_rows=rows, live_bytes=rows * size)
    return head, entries[: DROP_ROWS + 1]


def test_what_is_over_the_count_goes_oldest_first() -> None:
    head, oldest = kept(10)
    drop = plan(head, oldest, Retention(max_messages=7), now_us=0)
    assert drop.rows == 3
    assert (drop.head.first_seq, drop.head.live_rows, drop.head.live_bytes) == (4, 7, 70)
    assert (drop.head.dropped_rows, drop.head.dropped_bytes) == (3, 30)
    assert not drop.more


def test_what_is_over_the_bytes_goes_but_never_the_newest() -> None:
    head, oldest = kept(10)
    assert plan(head, oldest, Retention(max_bytes=35), now_us=0).head.live_rows == 3
    assert plan(head, oldest, Retention(max_bytes=30), now_us=0).head.live_rows == 3
    assert not wanted(head, Retention(max_bytes=100), 0)
    assert wanted(head, Retention(max_bytes=99), 0)
    assert plan(head, oldest, Retention(max_bytes=1), now_us=0).head.live_rows == 1


def test_what_has_come_of_age_goes_also_the_newest() -> None:
    head, oldest = kept(10)
    young = Retention(max_age_seconds=4)
    drop = plan(head, oldest, young, now_us=9 * SECOND)
    assert (drop.rows, drop.head.first_seq) == (5, 6)
    assert drop.head.due_at == 10 * SECOND
    assert not wanted(drop.head, young, 10 * SECOND - 1)
    assert wanted(drop.head, young, 10 * SECOND)
    everything = plan(head, oldest, young, now_us=100 * SECOND)
    assert (everything.head.live_rows, everything.head.first_seq, everything.head.due_at) == (0, 11, None)


def test_holes_that_erasing_left_are_passed_over() -> None:
    head, oldest = kept(10)
    del oldest[1], oldest[2]
    head = msgspec.structs.replace(head, live_rows=8, live_bytes=80)
    drop = plan(head, oldest, Retention(max_messages=6), now_us=0)
    assert (drop.rows, drop.head.first_seq) == (2, 5)
    assert plan(head, oldest[1:], Retention(), now_us=0).head.first_seq == 1, "what is dropped is a decision"


def test_one_turn_drops_a_bounded_number_and_says_that_more_is_left() -> None:
    head, oldest = kept(3 * DROP_ROWS)
    drop = plan(head, oldest, Retention(max_messages=1), now_us=0)
    assert (drop.rows, drop.more) == (DROP_ROWS, True)
    assert drop.head.first_seq == DROP_ROWS + 1


def test_the_policy_to_refuse_drops_nothing_for_count_or_bytes_but_age_still_counts() -> None:
    head, oldest = kept(10)
    refuse = Retention(max_messages=3, max_bytes=30, policy="refuse")
    assert not wanted(head, refuse, 0)
    assert plan(head, oldest, refuse, 0).rows == 0
    aged = msgspec.structs.replace(refuse, max_age_seconds=4)
    assert plan(head, oldest, aged, 9 * SECOND).rows == 5


@pytest.mark.parametrize(
    ("limit", "refused"),
    [
        (Retention(max_messages=10, policy="refuse"), True),
        (Retention(max_messages=11, policy="refuse"), False),
        (Retention(max_bytes=109, policy="refuse"), True),
        (Retention(max_bytes=110, policy="refuse"), False),
        (Retention(max_messages=1), False),
    ],
)
def test_a_full_inbox_refuses_only_under_that_policy(limit: Retention, refused: bool) -> None:
    head, _ = kept(10)
    assert (refusal(head, limit, size=10) is not None) == refused


def test_without_an_age_limit_nothing_is_ever_due() -> None:
    assert due_at(Retention(), 5) is None
    assert due_at(Retention(max_age_seconds=1), None) is None
    assert due_at(Retention(max_age_seconds=1), 5) == 5 + SECOND


limits = st.builds(
    Retention,
    max_age_seconds=st.none() | st.integers(1, 30),
    max_messages=st.none() | st.integers(1, 30),
    max_bytes=st.none() | st.integers(1, 300),
    policy=st.sampled_from(["drop_oldest", "refuse"]),
)


@given(limits, st.lists(st.integers(0, 40), min_size=1, max_size=25), st.integers(0, 60), st.integers(1, 50))
def test_whatever_the_limits_a_plan_leaves_a_run_that_keeps_them(
    retention: Retention, sizes: list[int], now: int, first: int
) -> None:
    oldest = [OldEntry(first + n, n * SECOND, size) for n, size in enumerate(sizes)]
    head = Head("e", first + len(sizes) - 1, first, live_rows=len(sizes), live_bytes=sum(sizes))
    drop = plan(head, oldest, retention, now * SECOND)
    rest = oldest[drop.rows :]
    assert drop.head.latest_seq == head.latest_seq
    assert drop.head.live_rows == len(rest)
    assert drop.head.live_bytes == sum(entry.size for entry in rest)
    assert drop.head.first_seq == (rest[0].seq if rest else head.latest_seq + 1)
    assert not wanted(drop.head, retention, now * SECOND)
    if drop.rows:  # nothing went that could have stayed
        spared = oldest[drop.rows - 1 :]
        old = retention.max_age_seconds is not None and (
            spared[0].received_at + retention.max_age_seconds * SECOND <= now * SECOND
        )
        over = retention.policy == "drop_oldest" and (
            (retention.max_messages is not None and len(spared) > retention.max_messages)
            or (retention.max_bytes is not None and sum(entry.size for entry in spared) > retention.max_bytes)
        )
        assert old or over


# -- the actor ---------------------------------------------------------------------------------------------------


async def inbox_with(world: World, retention: Retention, slug: str = "demo") -> int:
    settings = InboxSettings(retention=retention)
    return (await world.service.create_inbox(NewInbox(slug, "webhook", "", settings))).record.inbox_id


async def seqs(world: World, inbox_id: int) -> list[int]:
    page, _ = await world.service.page(PageQuery(inbox_id, limit=100, after=0))
    return [row.seq for row in page.rows]


def clock(now: list[int]) -> Callable[[], int]:
    return lambda: now[0]


async def test_an_inbox_keeps_its_newest_messages_and_its_counters_tell_what_went() -> None:
    async with running() as world:
        inbox = await inbox_with(world, Retention(max_messages=3))
        for _ in range(10):
            await world.registry.ask(inbox, append(b"12345"))
        assert await seqs(world, inbox) == [8, 9, 10]
        listing = await world.service.show("demo")
        assert listing is not None
        head = listing.head
        assert (head.first_seq, head.live_rows, head.live_bytes) == (8, 3, 15)
        assert (head.dropped_rows, head.dropped_bytes) == (7, 35)


async def test_a_full_inbox_that_refuses_loses_nothing_and_takes_mail_again_after_a_purge() -> None:
    async with running() as world:
        inbox = await inbox_with(world, Retention(max_messages=2, policy="refuse"))
        for _ in range(2):
            await world.registry.ask(inbox, append())
        with pytest.raises(Refusal) as refused:
            await world.registry.ask(inbox, append(key=b"k"))
        assert refused.value.code == "insufficient_storage"
        assert await seqs(world, inbox) == [1, 2]
        await world.registry.ask(inbox, Purge())
        outcome = await world.registry.ask(inbox, append(key=b"k"))
        assert (outcome.seq, outcome.duplicate) == (3, False)  # the refused delivery was not remembered


async def test_a_lower_limit_takes_effect_in_the_turn_that_sets_it() -> None:
    async with running() as world:
        inbox = await inbox_with(world, Retention())
        for _ in range(5):
            await world.registry.ask(inbox, append())

        def lower(record: InboxRecord) -> tuple[str, InboxSettings]:
            return record.name, msgspec.structs.replace(record.settings, retention=Retention(max_messages=2))

        await world.registry.ask(inbox, ChangeInbox(lower))
        assert await seqs(world, inbox) == [4, 5]


async def test_a_great_excess_goes_in_bounded_turns_of_the_housekeeping_lane() -> None:
    turns: list[Turn] = []
    store = MemoryStore()
    async with running(store) as world:
        inbox = await inbox_with(world, Retention())
        count = 2 * DROP_ROWS + 50
        async with trio.open_nursery() as nursery:
            for _ in range(count):
                nursery.start_soon(world.registry.ask, inbox, append())

        def note(unit: Any) -> None:
            if isinstance(unit, Turn):
                turns.append(unit)

        store.fault = note

        def lower(record: InboxRecord) -> tuple[str, InboxSettings]:
            return record.name, msgspec.structs.replace(record.settings, retention=Retention(max_messages=1))

        await world.registry.ask(inbox, ChangeInbox(lower))
        with trio.fail_after(5):
            while await seqs(world, inbox) != [count]:
                await trio.testing.wait_all_tasks_blocked()
        assert [len(turn.commands) for turn in turns] == [1, 0, 0]
        assert not any(turn.grows for turn in turns)


async def test_old_messages_of_an_inbox_that_nobody_writes_to_go_when_they_come_of_age() -> None:
    now = [1_000 * SECOND]
    store = MemoryStore(clock=clock(now))
    async with running(store, idle_seconds=0.001) as world:
        aging = await inbox_with(world, Retention(max_age_seconds=10), "aging")
        lasting = await inbox_with(world, Retention(), "lasting")
        for inbox in (aging, lasting):
            for _ in range(3):
                await world.registry.ask(inbox, append())
        keeper = Housekeeper(store, world.registry, world.tokens, clock(now))
        assert await keeper.call_due() == 0
        now[0] += 10 * SECOND + 1
        assert await keeper.call_due() == 1
        assert await seqs(world, aging) == [3]  # the three are a microsecond apart
        now[0] += SECOND
        assert await keeper.call_due() == 1
        assert await keeper.call_due() == 0
        assert await seqs(world, aging) == []
        assert await seqs(world, lasting) == [1, 2, 3]


@pytest.mark.parametrize("error", [KeyError("a defect"), SecretUnreadable("a secret that does not open")])
async def test_an_inbox_that_cannot_take_its_turn_keeps_no_other_from_dropping(error: Exception) -> None:
    now = [1_000 * SECOND]
    store = MemoryStore(clock=clock(now))
    async with running(store, crashes_allowed=0) as world:
        poor = await inbox_with(world, Retention(max_age_seconds=1), "poor")
        fine = await inbox_with(world, Retention(max_age_seconds=1), "fine")
        for inbox in (poor, fine):
            await world.registry.ask(inbox, append())

        def die(unit: Any) -> None:
            if isinstance(unit, Turn) and unit.inbox_id == poor:
                raise error

        store.fault = die
        with pytest.raises(Exception, match=r"actor failed|does not open"):
            await world.registry.ask(poor, append())
        now[0] += 10 * SECOND
        keeper = Housekeeper(store, world.registry, world.tokens, clock(now))
        assert await keeper.call_due() == 2
        assert await seqs(world, fine) == []


async def test_erasing_the_oldest_message_does_not_stop_the_next_one_from_coming_of_age() -> None:
    now = [1_000 * SECOND]
    store = MemoryStore(clock=clock(now))
    async with running(store) as world:
        inbox = await inbox_with(world, Retention(max_age_seconds=10))
        await world.registry.ask(inbox, append())
        now[0] += 5 * SECOND
        await world.registry.ask(inbox, append())
        await world.registry.ask(inbox, Erase(1))
        keeper = Housekeeper(store, world.registry, world.tokens, clock(now))
        now[0] += 6 * SECOND
        await keeper.call_due()
        assert await seqs(world, inbox) == [2]
        now[0] += 6 * SECOND
        await keeper.call_due()
        assert await seqs(world, inbox) == []
