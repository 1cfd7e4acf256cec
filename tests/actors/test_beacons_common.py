"""Beacons of words that tell no messages apart: whose messages say so, and what narrows such a beacon down."""

from typing import Any, get_args

import pytest

from actors.commands import Refusal
from actors.rules.letters import kind_of
from actors.rules.matching.beacons import Spec, beacon_of
from actors.rules.reach import PUBLISHED_KINDS, Reach, leaves_out
from storage.mail_records import AgentRecord, Routable
from storage.memory import MemoryStore
from storage.records import InboxKind
from tests.actors.conftest import Beacons
from tests.actors.routing import commons, hook, publish, reader
from tests.actors.world import World, running
from web.publish_params import Kind

SECOND_US = 1_000_000
ENOUGH = 50
"""Messages of which one in five makes a word common."""


async def accepted(
    world: World, agent: AgentRecord, spec: Spec, visible: frozenset[str] | None = None
) -> bool:
    """Place a beacon; False when its words are refused as too common."""
    try:
        await world.beacons.place(agent, spec, visible=visible)
    except Refusal as refused:
        if refused.field == "about" and "that most messages hold" in refused.message:
            return False
        raise
    return True


# -- whose messages count --------------------------------------------------------------------------------------------
async def test_a_word_that_is_in_a_fifth_of_what_the_agent_may_read_is_too_common_for_it(
    beacons: Beacons,
) -> None:
    async with beacons() as world:
        ci, ops = await world.inbox("ci"), await world.inbox("ops")
        ada = await reader(world, "ada")
        for number in range(ENOUGH):
            await hook(world, ci, f"kubernetes {number}")
            await hook(world, ops, f"nothing {number}")
        with pytest.raises(Refusal, match="Kubernetes is a word that most messages hold"):
            await world.beacons.place(ada, Spec("b", "kubernetes"), visible=None)
        assert await accepted(world, ada, Spec("b", "kubernetes"), frozenset({"ops"}))
        assert await accepted(world, ada, Spec("b", "kubernetes", inboxes=("ci",)))


async def test_what_an_agent_may_not_read_does_not_make_a_word_common_for_it(beacons: Beacons) -> None:
    """Else a refusal would tell of it, and whoever sends much could keep words from others."""
    async with beacons() as world:
        await commons(world)
        await world.inbox("open")
        closed, ben = await world.inbox("closed", "topic"), await reader(world, "ben")
        ada = await reader(world, "ada", ("open",))
        for number in range(ENOUGH):
            await publish(world, ben, f"kubernetes {number}", to_inbox="closed")
            await publish(
                world, ada, f"kubernetes {number}", to_inbox="commons"
            )  # what it sends, it never hears
        assert closed
        assert await accepted(world, ada, Spec("b", "kubernetes"), frozenset({"open", "commons"}))
        assert not await accepted(world, ben, Spec("b", "kubernetes"))


async def test_what_has_expired_makes_no_word_common() -> None:
    now = [SECOND_US]
    async with running(MemoryStore(clock=lambda: now[0]), lambda: now[0]) as world:
        await commons(world)
        ada, ben = await reader(world, "ada"), await reader(world, "ben")
        for number in range(ENOUGH):
            await publish(world, ben, f"kubernetes {number}", expires_at=2 * SECOND_US)
        assert not await accepted(world, ada, Spec("b", "kubernetes"))
        now[0] = 2 * SECOND_US
        assert await accepted(world, ada, Spec("b", "kubernetes"))


async def test_no_traffic_keeps_an_agent_from_placing_its_beacon_about_the_same_again(
    beacons: Beacons,
) -> None:
    async with beacons() as world:
        ci, ada = await world.inbox("ci"), await reader(world, "ada")
        assert await accepted(world, ada, Spec("b", "kubernetes"))
        for number in range(ENOUGH):
            await hook(world, ci, f"kubernetes cluster {number}")
        assert await accepted(world, ada, Spec("b", "kubernetes", weight=0.9))
        assert not await accepted(world, ada, Spec("b", "kubernetes cluster"))
        assert not await accepted(world, ada, Spec("other", "kubernetes"))
        [shown] = world.beacons.list(ada)
        assert (shown.spec.about, shown.spec.weight) == ("kubernetes", 0.9)
        await world.beacons.remove(ada, "b")
        assert not await accepted(world, ada, Spec("b", "kubernetes"))


# -- what narrows one down -------------------------------------------------------------------------------------------
PUBLISHED = ("note", "decision", "fact", "task", "alert", "question")
WORN = {"about": "messages"}
NARROWED: list[dict[str, Any]] = [
    {"require": ("billing",)},
    {"inboxes": ("ci",)},
    {"inboxes": ("commons",)},
    {"inboxes": ("ci", "elsewhere")},
    {"types": ("push",)},
    {"types": PUBLISHED},
    {"kinds": ("note",)},
    {"kinds": PUBLISHED},
]
AS_WIDE: list[dict[str, Any]] = [
    {},
    {"require": ("message",)},
    {"require": ("the",)},
    {"require": ("a new event",)},
    {"exclude": ("billing",)},
    {"inboxes": ("ci", "commons")},
    {"inboxes": ("ci", "commons", "elsewhere")},
    {"kinds": ("webhook", *PUBLISHED)},
    {"kinds": ("webhook", "message", "system", *PUBLISHED)},
    {"inboxes": ("commons", "ci"), "kinds": ("webhook", *PUBLISHED), "require": ("new",)},
]


@pytest.mark.parametrize("scope", [None, ("ci",)])
@pytest.mark.parametrize("wishes", [*NARROWED, *AS_WIDE], ids=str)
async def test_worn_words_are_refused_unless_something_is_left_out(
    wishes: dict[str, Any], scope: tuple[str, ...] | None
) -> None:
    async with running() as world:
        await commons(world)
        await world.inbox("ci")
        ada = await reader(world, "ada", scope)
        assert await accepted(world, ada, Spec("b", "messages", **wishes)) == (wishes in NARROWED)


async def test_what_is_outside_the_scope_is_not_left_out_by_a_filter() -> None:
    async with running() as world:
        await commons(world)
        for slug in ("ci", "closed"):
            await world.inbox(slug)
        both = {"inboxes": ("ci", "commons")}
        assert not await accepted(
            world, await reader(world, "ada", ("ci", "gone")), Spec("b", "messages", **both)
        )
        assert await accepted(world, await reader(world, "ben"), Spec("b", "messages", **both))
        alone = await reader(world, "cleo", ())
        for wishes in ({"types": PUBLISHED}, {"kinds": PUBLISHED}, {"inboxes": ("commons",)}):
            assert not await accepted(world, alone, Spec("b", "messages", **wishes))
        assert await accepted(world, alone, Spec("b", "messages", types=PUBLISHED[1:]))


async def test_a_required_word_that_traffic_is_full_of_narrows_nothing_down(beacons: Beacons) -> None:
    async with beacons() as world:
        ci, ada = await world.inbox("ci"), await reader(world, "ada")
        for number in range(ENOUGH):
            await hook(world, ci, f"kubernetes {number}")
        assert not await accepted(world, ada, Spec("b", "messages", require=("kubernetes",)))
        assert await accepted(world, ada, Spec("b", "messages", require=("kubernetes billing",)))


@pytest.mark.parametrize(
    ("reach", "wishes", "left_out"),
    [
        (Reach({"commons": "topic"}), {"kinds": PUBLISHED}, False),
        (Reach({"commons": "topic", "ci": "webhook"}), {"kinds": PUBLISHED}, True),
        (Reach({"commons": "topic", "m": "machine"}), {"kinds": ("webhook", *PUBLISHED)}, True),
        (Reach({"commons": "topic", "m": "machine"}), {"kinds": ("message", *PUBLISHED)}, False),
        (Reach({"commons": "topic"}, everything=True), {"kinds": PUBLISHED}, True),
        (Reach({"commons": "topic"}, everything=True), {"types": PUBLISHED}, True),
        (Reach({"commons": "topic", "agent.a": "agent"}), {"kinds": PUBLISHED}, False),
        (Reach({}), {"inboxes": ("ci",)}, False),
    ],
)
def test_what_is_left_out_is_what_the_agent_s_inboxes_can_bring(
    reach: Reach, wishes: dict[str, Any], left_out: bool
) -> None:
    assert leaves_out(beacon_of("a", Spec("b", "messages", **wishes)), reach) == left_out


def test_the_kinds_that_are_known_are_those_of_the_interface() -> None:
    homes: list[tuple[InboxKind, str]] = [("webhook", "push"), ("machine", "push")]
    routed = {kind_of(Routable(1, b"", 1, "s", home, 1, 1, event, 2, 1, None)) for home, event in homes}
    assert {"webhook", "message"} == routed
    # What the server says itself goes to nobody's beacons.
    assert PUBLISHED_KINDS | routed | {"system"} == set(get_args(Kind))
