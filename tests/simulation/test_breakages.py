"""The simulation finds what it is for: a server that is broken on purpose, each time in another way."""

import pytest

from tests.simulation.breakages import BREAKAGES
from tests.simulation.run import play

SEEDS = 60
"""Played at most, beginning with the one that has shown it: a seed plays another run when the server changes."""


@pytest.mark.parametrize("name", BREAKAGES)
def test_a_broken_server_is_found_out(name: str) -> None:
    broken, first, words = BREAKAGES[name]
    for seed in range(first, first + SEEDS):
        findings = play(seed, broken=broken).findings
        if findings:
            break
    assert any(words in finding for finding in findings), findings
