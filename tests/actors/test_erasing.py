"""Erasing a message where it is at home takes it out of every inbox that it was delivered to; a refusal out of none."""

from pathlib import Path

import pytest

from actors.commands import ChangeInbox, Purge, Refusal
from storage.records import InboxSettings, Retention
from tests.actors.routing import hook, mail, place, reader, routed
from tests.actors.world import running
from tests.contract.conftest import opens


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
@pytest.mark.parametrize("how", ["purged", "dropped"])
async def test_what_its_home_has_let_go_of_is_refused_and_stays_where_it_was_delivered_to(
    kind: str, how: str, tmp_path: Path
) -> None:
    async with opens(kind, tmp_path)() as store, running(store, routing=True) as world:
        ci, ada = await world.inbox("ci"), await reader(world, "ada")
        await place(world, ada, "all")
        for n in range(2):
            await hook(world, ci, f"hook {n}")
        await routed(world)
        kept = InboxSettings(retention=Retention(max_messages=1))
        letting_go = Purge() if how == "purged" else ChangeInbox(lambda _: ("", kept))
        await world.registry.ask(ci, letting_go)
        with pytest.raises(Refusal):
            await world.service.erase(ci, 1)
        assert await mail(world, ada) == ["hook 0", "hook 1"]
