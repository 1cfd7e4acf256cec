"""Sending on the mesh: to one, to all on a machine, to nobody; what is stored, who gets it, and who is told what."""

from pathlib import Path

import pytest

from actors import sending
from actors.commands import Skipped
from actors.units import Reading
from storage.records import INLINE_BODY_BYTES, BodyKind, Verdict
from tests.actors.meeting import (
    Clock,
    Running,
    ack,
    arrive,
    ids,
    letter,
    peek,
    plain,
    receipts,
    refused,
    send,
    worlds,
)
from tests.actors.routing import got, place, reader, routed
from tests.actors.world import World


@pytest.fixture(params=["memory", "sqlite"])
def world_of(request: pytest.FixtureRequest, tmp_path: Path) -> Running:
    """Return how to run a world that routes, over one store."""
    return worlds(request.param, tmp_path)


async def stored(world: World) -> int:
    """Return how many messages there are."""
    return await world.store.read(Reading(lambda snapshot: snapshot.last_mid()))


# -- to one --------------------------------------------------------------------------------------------------------
async def test_a_message_to_an_agent_is_at_home_in_its_inbox_as_it_was_sent(world_of: Running) -> None:
    async with world_of() as world:
        ada, ben = await world.machine("m", ("ada", "ben"))
        await arrive(world, ben)
        sent = await send(world, ada, "hello ☃", to_agent="ben")
        assert (sent.delivered_to, sent.skipped, sent.duplicate) == (("ben",), (), False)
        _, row = await world.store.read(Reading(lambda snapshot: snapshot.message(ben.inbox_id, 1, 65_536)))
        assert row is not None
        one = letter("hello ☃")
        assert (row.id, row.facts, row.said, row.body) == (sent.id, one.facts, one.said, one.body)
        assert (row.body_kind, row.event_type, row.verified) == (BodyKind.JSON, "note", Verdict.NONE)
        (entry,) = await got(world, ben)
        assert entry.via == "direct"
        assert await plain(world, ada) == []


async def test_a_message_may_have_no_payload(world_of: Running) -> None:
    async with world_of() as world:
        ada, ben = await world.machine("m", ("ada", "ben"))
        await world.mesh.send(ada, letter(to_agent="ben", body=b"", require_alive=False))
        _, row = await world.store.read(Reading(lambda snapshot: snapshot.message(ben.inbox_id, 1, 65_536)))
        assert row is not None
        assert (row.size, row.body_kind, row.body) == (0, BodyKind.EMPTY, None)


@pytest.mark.parametrize(
    ("name", "near"),
    [("bem", ["ben"]), ("reviewer", ["reviewer-1"]), ("kim", []), ("zzz", [])],
)
async def test_a_name_that_is_not_there_stores_nothing_and_is_told_who_is(
    world_of: Running, name: str, near: list[str]
) -> None:
    async with world_of() as world:
        ada, ben, _, gone = await world.machine("m", ("ada", "ben", "reviewer-1", "gone"))
        await world.machine("other", ("kim",))
        for agent in (ada, ben, gone):
            await arrive(world, agent)
        await world.mesh.check_out(gone)
        refusal = await refused(world, ada, to_agent=name)
        assert (refusal.code, refusal.field) == ("not_found", "to_agent")
        assert refusal.details == {"alive": ["ben"], "near": near}
        assert await stored(world) == 0


async def test_whoever_would_not_notice_is_sent_nothing_unless_the_sender_insists(world_of: Running) -> None:
    clock = Clock()
    async with world_of(clock=clock) as world:
        ada, ben, cleo, dora = await world.machine("m", ("ada", "ben", "cleo", "dora"))
        for agent in (ben, cleo):
            await arrive(world, agent, ttl_seconds=30)
        await world.mesh.check_out(cleo)
        await send(world, ada, "there", to_agent="ben")
        clock.pass_seconds(31)
        for agent in (ben, cleo, dora):
            refusal = await refused(world, ada, to_agent=agent.agent_id)
            assert refusal.code == "not_found", "stale, gone, and never heard of"
            assert refusal.details == {"alive": [], "near": []}
            await send(world, ada, "waits", to_agent=agent.agent_id, require_alive=False)
        assert await plain(world, ben) == ["there", "waits"]
        assert await plain(world, cleo) == await plain(world, dora) == ["waits"]


@pytest.mark.parametrize("name", ["other", "nowhere"])
async def test_a_machine_out_of_reach_and_one_that_is_not_there_are_the_same(
    world_of: Running, name: str
) -> None:
    async with world_of() as world:
        (ada,) = await world.machine("m", ("ada",))
        await world.machine("other", ("kim",))
        for to_agent in (None, "kim"):
            refusal = await refused(world, ada, machine=name, to_agent=to_agent)
            assert (refusal.code, refusal.field) == ("not_found", "to")
            assert (
                refusal.message.replace(name, "…")
                == 'There is no machine "…", or it is not to be reached from here.'
            )
        refusal = await refused(world, ada, to_agent="kim")
        assert refusal.message == 'There is no agent "kim" on "m".', "nothing says that it is elsewhere"


async def test_other_machines_are_reached_where_that_is_allowed(world_of: Running) -> None:
    async with world_of(routing=True) as world:
        (ada,) = await world.machine("m", ("ada",))
        kim, _ = await world.machine("other", ("kim", "lea"))
        reach = frozenset({"m", "other"})
        sent = await send(
            world, ada, "hi", machine="other", to_agent="kim", require_alive=False, reachable=reach
        )
        assert sent.delivered_to == ("kim",)
        sent = await send(world, ada, "all", machine="other", reachable=reach)
        assert sent.delivered_to == ("kim", "lea")
        await routed(world)
        assert await plain(world, kim) == ["hi", "all"]
        assert "is on" in (await refused(world, ada, to_agent="kim", reachable=reach)).message


async def test_an_administrator_sends_from_nobody_and_must_name_the_machine(world_of: Running) -> None:
    async with world_of() as world:
        _, ben = await world.machine("m", ("ada", "ben"))
        await arrive(world, ben)
        assert (await refused(world, None, to_agent="ben", reachable=None)).field == "to"
        sent = await send(world, None, "hi", machine="m", to_agent="ben", reachable=None, key=b"k")
        again = await send(world, None, "hi", machine="m", to_agent="ben", reachable=None, key=b"k")
        assert (again.id, again.duplicate) == (sent.id, True)
        assert (await send(world, None, "all", machine="m", reachable=None)).delivered_to == ("ada", "ben")


async def test_a_payload_over_what_is_kept_with_the_message_is_refused(world_of: Running) -> None:
    async with world_of() as world:
        ada, _ = await world.machine("m", ("ada", "ben"))
        refusal = await refused(world, ada, body=b"1" * (INLINE_BODY_BYTES + 1))
        assert (refusal.code, refusal.field) == ("payload_too_large", "payload")


# -- to all --------------------------------------------------------------------------------------------------------
async def test_a_broadcast_goes_to_all_that_have_not_said_farewell_but_its_sender(world_of: Running) -> None:
    async with world_of(routing=True) as world:
        ada, ben, cleo, dora = await world.machine("m", ("ada", "ben", "cleo", "dora"))
        (kim,) = await world.machine("other", ("kim",))
        await arrive(world, cleo)
        await world.mesh.check_out(cleo)
        sent = await send(world, ada, "to all")
        assert (sent.delivered_to, sent.skipped) == (("ben", "dora"), (Skipped("cleo", "gone"),))
        await routed(world)
        for agent, expected in ((ada, []), (ben, ["to all"]), (cleo, []), (dora, ["to all"]), (kim, [])):
            assert await peek(world, agent) == expected, agent.agent_id
        (entry,) = await got(world, ben)
        assert (entry.via, entry.also_via) == ("broadcast", ())


async def test_a_broadcast_that_one_has_read_is_unread_for_another(world_of: Running) -> None:
    async with world_of(routing=True) as world:
        ada, ben, cleo = await world.machine("m", ("ada", "ben", "cleo"))
        await send(world, ada, "to all")
        await routed(world)
        assert await plain(world, ben) == ["to all"]
        await ack(world, ben, await ids(world, ben))
        assert await plain(world, cleo) == ["to all"]
        (of,) = await receipts(world, ada)
        assert {name: (one.served_at is not None, one.acked_at is not None) for name, one in of.items()} == {
            "ben": (True, True),
            "cleo": (True, False),
        }


async def test_its_recipients_are_known_and_recorded_before_anything_is_delivered(world_of: Running) -> None:
    async with world_of() as world:
        ada, ben = await world.machine("m", ("ada", "ben"))
        sent = await send(world, ada, "to all")
        assert sent.delivered_to == ("ben",)
        (of,) = await receipts(world, ada)
        assert (list(of), of["ben"].seq, of["ben"].stored_at) == (["ben"], None, None)
        assert await peek(world, ben) == []


async def test_a_broadcast_to_nobody_is_refused_and_stores_nothing(world_of: Running) -> None:
    async with world_of() as world:
        ada, ben = await world.machine("m", ("ada", "ben"))
        await arrive(world, ben)
        await world.mesh.check_out(ben)
        refusal = await refused(world, ada, key=b"k")
        assert refusal.code == "no_recipient"
        assert await stored(world) == 0
        assert await world.mesh.sent(ada, None, 9) == []
        await arrive(world, ben)
        sent = await send(world, ada, key=b"k")
        assert (sent.delivered_to, sent.duplicate) == (("ben",), False), "the key was not used up"
        _, row = await world.store.read(
            Reading(lambda snapshot: snapshot.message(machine_inbox(world), 1, 65_536))
        )
        assert row is not None, "and neither was a number"


def machine_inbox(world: World) -> int:
    """Return the inbox of the machine."""
    machine = world.machines.get("m")
    assert machine is not None
    return machine.inbox_id


async def test_a_broadcast_has_so_many_recipients_at_most_and_says_whom_it_left_out(
    world_of: Running,
) -> None:
    async with world_of(route_recipients=2) as world:
        ada, *_ = await world.machine("m", ("ada", "ben", "cleo", "dora"))
        sent = await send(world, ada)
        assert (sent.delivered_to, sent.skipped) == (("ben", "cleo"), (Skipped("dora", "limit"),))


async def test_whoever_gets_a_broadcast_anyway_gets_it_once_and_its_beacon_counts_nothing(
    world_of: Running,
) -> None:
    async with world_of(routing=True) as world:
        ada = await reader(world, "ada", machine="m")
        ben = await reader(world, "ben", ("machine.m",), machine="m")
        eve = await reader(world, "eve", ("machine.m",))
        for agent in (ada, ben, eve):
            await place(world, agent, "all")
        await send(world, ada, "to all", facts=b'{"sender":"ada"}')
        await routed(world)
        assert [(one.mail, one.via) for one in await got(world, ben)] == [("to all", "broadcast")]
        assert [(one.mail, one.via) for one in await got(world, eve)] == [("to all", "beacon:all")]
        assert world.router.figures.delivered == 2
        assert await counts(world) == {"ada": 0, "ben": 0, "eve": 1}


async def counts(world: World) -> dict[str, int]:
    """Return what each agent's beacon has brought."""
    return {
        agent.agent_id: world.beacons.in_force.count((agent.agent_id, "all")).delivered
        for agent in world.agents.all()
    }


# -- once ----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("to_agent", ["ben", None])
async def test_the_same_request_twice_is_one_message_and_another_with_its_key_a_conflict(
    world_of: Running, to_agent: str | None
) -> None:
    async with world_of(routing=True) as world:
        ada, ben, cleo = await world.machine("m", ("ada", "ben", "cleo"))
        await arrive(world, ben)
        first = await send(world, ada, "once", to_agent=to_agent, key=b"k")
        await world.mesh.check_out(cleo)
        again = await send(world, ada, "once", to_agent=to_agent, key=b"k")
        assert (first.duplicate, again.duplicate) == (False, True)
        assert (again.id, again.delivered_to, again.skipped) == (first.id, first.delivered_to, first.skipped)
        assert (await refused(world, ada, "other", to_agent=to_agent, key=b"k")).code == "conflict"
        await send(world, ben, "once", to_agent="ada", key=b"k", require_alive=False)
        await routed(world)
        assert await plain(world, ben) == ["once"]


async def test_a_request_is_the_same_also_when_its_recipient_left_meanwhile(world_of: Running) -> None:
    async with world_of() as world:
        ada, ben = await world.machine("m", ("ada", "ben"))
        await arrive(world, ben)
        first = await send(world, ada, "once", to_agent="ben", key=b"k")
        await world.mesh.check_out(ben)
        again = await send(world, ada, "once", to_agent="ben", key=b"k")
        assert (again.id, again.delivered_to, again.duplicate) == (first.id, ("ben",), True)
        assert (await refused(world, ada, "other", to_agent="ben", key=b"k")).code == "conflict"
        assert (await refused(world, ada, "once", to_agent="ben", key=b"l")).code == "not_found"
        await world.mail.delete_agent("ben")
        assert (await send(world, ada, "once", to_agent="ben", key=b"k")).duplicate


async def test_a_key_used_for_an_agent_is_no_answer_for_a_later_one_of_its_name(world_of: Running) -> None:
    async with world_of() as world:
        ada, ben = await world.machine("m", ("ada", "ben"))
        await arrive(world, ben)
        await send(world, ada, "once", to_agent="ben", key=b"k")
        await world.mail.delete_agent("ben")
        later = await world.agent("ben", "m")
        for there in (False, True):
            if there:
                await arrive(world, later)
            assert (await refused(world, ada, "once", to_agent="ben", key=b"k")).code == "conflict"
        assert not (await send(world, ada, "once", to_agent="ben", key=b"l")).duplicate


# -- what was sent -------------------------------------------------------------------------------------------------
async def test_what_an_agent_has_sent_is_listed_newest_first_and_page_by_page(world_of: Running) -> None:
    async with world_of(routing=True) as world:
        ada, ben, cleo = await world.machine("m", ("ada", "ben", "cleo"))
        sent = [
            (await send(world, ada, str(n), to_agent="ben" if n % 2 else None, require_alive=False)).id
            for n in range(5)
        ]
        await send(world, ben, "of ben", to_agent="cleo", require_alive=False)
        await routed(world)
        newest = sorted(sent, reverse=True)
        lines = await world.mesh.sent(ada, None, 3)
        assert [line.id for line in lines] == newest[:3]
        lines += await world.mesh.sent(ada, lines[-1].id, 3)
        assert [line.id for line in lines] == newest
        names = {line.id: [name for name, _ in line.recipients] for line in lines}
        assert [names[one] for one in sent] == [["ben", "cleo"], ["ben"]] * 2 + [["ben", "cleo"]]
        assert {line.msg_type for line in lines} == {"note"}
        assert len(await world.mesh.sent(ben, None, 9)) == 1
        assert await world.mesh.sent(cleo, None, 9) == []


async def test_a_name_is_compared_with_a_bounded_number_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sending, "COMPARED_NAMES", 2)
    assert sending._near("bem", ["ben", "den", "ten"]) == ["ben"]
