"""What agents send: once for each key, with a receipt for everybody it is sent to, and delivered exactly once."""

import itertools
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.commands import Append, Appended, Deliver, Draft, Once, Refusal
from actors.rules import append, delivering
from actors.turn import Turn, lane_of
from actors.units import Reading
from storage.mail_records import Receipt, Recipient, Sent
from storage.memory import MemoryStore
from storage.protocols import Lane
from storage.records import Head, InboxSettings, Retention
from tests.actors.drafts import draft
from tests.actors.post import CLOSED, OPEN, call, delivered, origins, publish, record, seqs
from tests.actors.world import World, running
from tests.contract.builders import START_US
from tests.contract.conftest import opens

HEAD = Head("e", 3, 1, 1_000, 3, 30)
DAY_US = 86_400 * 1_000_000


def direct(**fields: Any) -> Draft:
    """Return a message to the agent whose inbox it is appended to."""
    return msgspec.structs.replace(draft(), delivery=record(1.0, "direct"), **fields)


def once(key: bytes = b"k", request: bytes = b"r", sender: int = 7) -> Once:
    return Once(sender, key, request)


# -- once ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
async def test_the_same_request_is_answered_with_the_first_place_wherever_it_is_tried(
    kind: str, tmp_path: Path
) -> None:
    async with opens(kind, tmp_path)() as store, running(store) as world:
        made = await origins(world)
        first = draft()
        appended = await world.registry.ask(made[OPEN], Append(first, once=once()))
        assert appended == Appended(first.id, 1, duplicate=False)
        for inbox in made.values():
            again = await world.registry.ask(inbox, Append(draft(), once=once()))
            assert again == Appended(first.id, 1, duplicate=True)
        with pytest.raises(Refusal, match="another request") as refused:
            await world.registry.ask(made[CLOSED], Append(draft(), once=once(request=b"other")))
        assert (refused.value.code, refused.value.field) == ("conflict", "idempotency_key")
        for other in (once(sender=8, request=b"other"), once(key=b"K", request=b"other")):
            assert not (await world.registry.ask(made[CLOSED], Append(draft(), once=other))).duplicate
        head = await world.service.log.read(Reading(lambda snapshot: snapshot.head(made[CLOSED])))
        assert head.latest_seq == 2


def test_two_of_one_turn_with_the_same_key_are_one_message() -> None:
    one, two = draft(), draft()
    commands = [Append(one, once=once()), Append(two, once=once()), Append(two, once=once(request=b"x"))]
    plan = append.decide(HEAD, {}, commands, 2_000)
    assert [entry.id for entry in plan.entries] == [one.id]
    assert plan.outcomes[:2] == [Appended(one.id, 4, duplicate=False), Appended(one.id, 4, duplicate=True)]
    assert isinstance(plan.outcomes[2], Refusal)
    assert [key for key, _ in plan.sent] == [(7, b"k")]


@pytest.mark.parametrize(("age_us", "again"), [(0, True), (DAY_US - 1, True), (DAY_US, False)])
def test_a_key_means_the_same_request_for_a_day(age_us: int, again: bool) -> None:
    first = Appended(b"f" * 16, 2, duplicate=False)
    sent = {(7, b"k"): Sent(b"r", msgspec.json.encode(first), START_US)}
    plan = append.decide(HEAD, {}, [Append(draft(), once=once())], START_US + age_us, sent=sent)
    (outcome,) = plan.outcomes
    assert isinstance(outcome, Appended)
    assert outcome.duplicate is again
    assert len(plan.entries) == (not again)
    assert len(plan.sent) == (not again)


def test_what_is_refused_is_not_remembered() -> None:
    full = Retention(max_messages=3, policy="refuse")
    plan = append.decide(HEAD, {}, [Append(direct(recipients=(9,)), once=once())], 2_000, full)
    assert isinstance(plan.outcomes[0], Refusal)
    assert (plan.entries, plan.sent, plan.recipients) == ([], [], [])


# -- recipients ------------------------------------------------------------------------------------------------


def test_every_recipient_is_written_down_once_and_the_home_with_its_seq() -> None:
    commands = [
        Append(draft()),
        Append(direct(recipients=(5, 9, 5, 4))),
        Append(msgspec.structs.replace(draft(), recipients=(5, 4))),
        Append(direct()),
    ]
    plan = append.decide(HEAD, {}, commands, 2_000, inbox_id=4)
    assert plan.recipients == [
        (1, (Recipient(4, 5, 2_001), Recipient(5), Recipient(9))),
        (2, (Recipient(5),)),
        (3, (Recipient(4, 7, 2_003),)),
    ]


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
async def test_mail_to_several_is_at_home_with_the_first_and_delivered_to_the_others(
    kind: str, tmp_path: Path
) -> None:
    async with opens(kind, tmp_path)() as store, running(store) as world:
        one, two = await world.agent("a"), await world.agent("b")
        message = direct(recipients=(two.inbox_id,), expires_at=2**62)
        mid = await publish(world, one.inbox_id, message)
        (pending,) = await world.service.log.read(Reading(lambda see: see.pending((0, 0), mid, 10)))
        assert (pending.inbox_id, pending.home, pending.expires_at) == (two.inbox_id, one.inbox_id, 2**62)
        assert pending.delivery is not None
        for expected in ((1,), (None,)):
            command = Deliver(
                (delivered(mid, two.inbox_id, expires_at=2**62, delivery=pending.delivery, size=2),)
            )
            assert await world.registry.ask(two.inbox_id, command) == expected
        for agent in (one, two):
            pulled = await world.mail.pull(agent, call(visible=frozenset()))
            assert seqs(pulled) == (1,)
            assert (pulled.rows[0].own, pulled.rows[0].id) == (True, message.id)
        receipts = await _receipts(world, mid)
        assert [(receipt.inbox_id, receipt.seq) for receipt in receipts] == [
            (one.inbox_id, 1),
            (two.inbox_id, 1),
        ]
        assert all(receipt.stored_at for receipt in receipts)


async def _receipts(world: World, mid: int) -> list[Receipt]:
    return await world.service.log.read(Reading(lambda snapshot: snapshot.receipts(mid)))


# -- deliveries ------------------------------------------------------------------------------------------------


@given(
    drafts=st.lists(st.tuples(st.integers(1, 6), st.integers(0, 50)), max_size=12),
    undelivered=st.sets(st.integers(1, 6)),
    now_us=st.integers(0, 3_000),
)
def test_deliveries_are_numbered_without_holes_each_message_once_at_rising_times(
    drafts: list[tuple[int, int]], undelivered: set[int], now_us: int
) -> None:
    wanted = [delivered(mid, 1, size=size) for mid, size in drafts]
    plan = delivering.decide(HEAD, undelivered, wanted, now_us, Retention(max_messages=1, policy="refuse"))
    given_seqs = [seq for seq in plan.seqs if seq is not None]
    assert given_seqs == list(range(4, 4 + len(given_seqs))) == [one.seq for one in plan.deliveries]
    assert len(plan.seqs) == len(wanted)
    mids = [draft.mid for draft, seq in zip(wanted, plan.seqs, strict=True) if seq is not None]
    assert mids == [mid for mid in dict.fromkeys(mid for mid, _ in drafts) if mid in undelivered]
    times = [HEAD.last_at, *(one.delivered_at for one in plan.deliveries)]
    assert all(later > earlier for earlier, later in itertools.pairwise(times))
    assert all(at >= now_us for at in times[1:])
    assert plan.head.latest_seq == 3 + len(given_seqs)
    assert plan.head.live_rows == 3 + len(given_seqs)
    assert plan.head.live_bytes == 30 + sum(one.size for one in plan.deliveries)
    assert plan.head.last_at == times[-1]


async def test_a_delivery_sets_when_its_inbox_comes_of_age_and_retention_takes_the_oldest() -> None:
    async with running() as world:
        made = await origins(world)
        keeps_two = InboxSettings(retention=Retention(max_age_seconds=60, max_messages=2))
        agent = await world.mail.create_agent("a", keeps_two)
        mids = [await publish(world, made[OPEN]) for _ in range(3)]
        drafts = tuple(delivered(mid, made[OPEN]) for mid in mids)
        assert await world.registry.ask(agent.inbox_id, Deliver(drafts)) == (1, 2, 3)
        head = await world.service.log.read(Reading(lambda snapshot: snapshot.head(agent.inbox_id)))
        assert (head.first_seq, head.latest_seq, head.live_rows) == (2, 3, 2)
        assert head.due_at is not None
        assert head.last_at < head.due_at <= head.last_at + 60_000_000


async def test_a_message_that_is_gone_is_skipped() -> None:
    async with running(MemoryStore()) as world:
        agent = await world.agent()
        made = await origins(world)
        mid = await publish(world, made[OPEN])
        await world.service.erase(made[OPEN], 1)
        assert await world.registry.ask(agent.inbox_id, Deliver((delivered(mid, made[OPEN]),))) == (None,)


def test_a_turn_waits_in_the_lane_of_its_most_urgent_command() -> None:
    deliver = Deliver((delivered(1, 1), delivered(2, 1)))
    for commands, lane in (
        ((), Lane.HOUSEKEEPING),
        ((deliver, deliver), Lane.DELIVERIES),
        ((deliver, Append(draft())), Lane.ANSWERS),
    ):
        assert lane_of(commands) is lane
    turn = Turn(1, None, (deliver,))
    assert turn.grows
    assert 0 < turn.cost < Turn(1, None, (deliver, Append(draft()))).cost
