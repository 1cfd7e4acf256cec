"""The power fails, again and again: what was answered is there, what was refused is not, and the database is whole.

Each test is one world, whose seed decides everything (`tests/storage/power/`); `--power-cuts` asks for more of them.
What a seed has found is kept below as a test of its own.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest

from storage.engine import connect_writer
from storage.lifefile import Life, LifeFile
from tests.storage.power.ledger import Broken
from tests.storage.power.world import World

CUTS_OF_A_WORLD = 10
WORLDS_TO_FIND_A_FAULT = 5
"""A store that syncs too little is found out in the first one, or at the latest in so many."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "seed" in metafunc.fixturenames:
        cuts = metafunc.config.getoption("--power-cuts")
        metafunc.parametrize("seed", range(-(-cuts // CUTS_OF_A_WORLD)))


@pytest.fixture
def make_world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[int], World]]:
    made: list[World] = []

    def make(seed: int) -> World:
        made.append(World(tmp_path / str(seed), seed, monkeypatch))
        return made[-1]

    yield make
    for world in made:
        world.close()


def test_nothing_that_was_answered_is_lost_when_the_power_fails(
    make_world: Callable[[int], World], seed: int, record_property: Callable[[str, object], None]
) -> None:
    world = make_world(seed)
    for _ in range(CUTS_OF_A_WORLD):
        world.cut()
    world.end()
    record_property("power", {**world.tally, **world.figures()})


def test_the_same_seed_is_the_same_world(tmp_path: Path) -> None:
    def live(place: str) -> tuple[Any, ...]:
        with pytest.MonkeyPatch.context() as patch:
            world = World(tmp_path / place, 3, patch)
            try:
                world.cut()
                return world.disk.changes, world.tally, world.figures()
            finally:
                world.close()

    assert live("one") == live("two")


# -- what would be found ------------------------------------------------------------------------------------------
def found_out(make_world: Callable[[int], World]) -> str:
    """Return what the first world that finds something says."""
    for seed in range(WORLDS_TO_FIND_A_FAULT):
        world = make_world(seed)
        try:
            for _ in range(CUTS_OF_A_WORLD):
                world.cut()
        except Broken as broken:
            return str(broken)
    return ""


@pytest.mark.parametrize("level", ["NORMAL", "OFF"])
def test_a_store_that_syncs_less_is_found_to_lose_what_it_has_answered(
    make_world: Callable[[int], World], monkeypatch: pytest.MonkeyPatch, level: str
) -> None:
    def connect(*args: Any, **more: Any) -> apsw.Connection:
        db = connect_writer(*args, **more)
        db.execute(f"PRAGMA synchronous = {level}").fetchall()
        return db

    monkeypatch.setattr("storage.opening.connect_writer", connect)
    assert found_out(make_world)


def test_a_life_file_that_runs_ahead_of_the_database_is_found_to_raise_false_alarms(
    make_world: Callable[[int], World], monkeypatch: pytest.MonkeyPatch
) -> None:
    note = LifeFile.note

    def ahead(file: LifeFile, life: Life, *, sync: bool = False) -> bool:
        return note(file, Life(life.lineage, life.commits + 1, life.place), sync=sync)

    monkeypatch.setattr(LifeFile, "note", ahead)
    assert "a new life" in found_out(make_world)


def test_a_life_file_that_is_replaced_without_a_sync_is_found_to_be_lost(
    make_world: Callable[[int], World], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.storage.power.disk.Calls.fsync", lambda calls, fd: None)
    assert "a new life" in found_out(make_world)
