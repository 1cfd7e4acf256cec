"""Seeds of the simulated world: none of them finds anything, and each plays the same run wherever it is played."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.simulation.found import FOUND
from tests.simulation.run import play

AT_ONCE = 20
"""Seeds in one test: enough that the list stays short."""

ROOT = Path(__file__).parent.parent.parent
RICH = 24
"""A seed whose world has crashes, troubles with the disk, and most kinds of people."""

PROCESS_SECONDS = 120.0


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Share the seeds among tests."""
    if "seeds" in metafunc.fixturenames:
        count: int = metafunc.config.getoption("--simulation-seeds")
        parts = [range(first, min(first + AT_ONCE, count)) for first in range(0, count, AT_ONCE)]
        metafunc.parametrize("seeds", parts, ids=lambda part: f"{part.start}:{part.stop}")


def test_no_seed_finds_anything(seeds: range) -> None:
    found = {seed: played.findings for seed in seeds if (played := play(seed)).findings}
    assert not found, f"see `python -m tests.simulation --seeds {min(found)} --log`"


@pytest.mark.parametrize("seed", FOUND, ids=FOUND.get)
def test_what_was_found_once_is_not_found_again(seed: int) -> None:
    assert not play(seed).findings


def test_a_seed_plays_the_same_run_twice() -> None:
    assert play(RICH).lines == play(RICH).lines


def test_a_seed_plays_the_same_run_in_another_process_with_other_hashes() -> None:
    ours = "\n".join(play(RICH).lines)
    for hash_seed in ("1", "2"):
        theirs = subprocess.run(
            [sys.executable, "-m", "tests.simulation", "--seeds", str(RICH), "--log"],
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            timeout=PROCESS_SECONDS,
            check=True,
        )
        assert theirs.stdout.startswith(ours)


def test_seeds_play_different_runs() -> None:
    assert play(RICH).lines != play(RICH + 1).lines
