"""Parsers take whatever comes: every input that has found something, and new ones that coverage leads to."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.pages import ROOT
from tests.hostile.everything import EVERYTHING, lay_out
from tests.hostile.targets import CORPUS, TARGETS

GRACE_SECONDS = 120
"""For a start with instrumentation, and the end; an ordinary run takes a tenth of it."""

FEWEST_EXECUTIONS = 1_000

INPUTS = sorted(path.relative_to(CORPUS) for path in CORPUS.glob("*/*"))
_EXECUTED = re.compile(r"stat::number_of_executed_units:\s*(\d+)")


@pytest.mark.parametrize("path", INPUTS, ids=str)
def test_a_kept_input_is_taken_or_refused_as_documented(path: Path) -> None:
    TARGETS[path.parent.name]((CORPUS / path).read_bytes())


def test_every_target_has_first_inputs() -> None:
    assert {path.parent.name for path in INPUTS} == set(TARGETS)


def fuzz(name: str, seconds: int, directory: Path) -> tuple[int, str]:
    """Run one target; return how many inputs were executed, and what was found as text, empty for nothing.

    With 0 seconds it is an ordinary run.
    """
    done = subprocess.run(
        [sys.executable, "-m", "tests.hostile.parsers", name, str(seconds), str(directory)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=seconds + GRACE_SECONDS,
    )
    executed = _EXECUTED.search(done.stderr)
    found = [f"{path.name}: {path.read_bytes()!r}" for path in directory.glob("found-*")]
    said = "\n".join([*found, done.stdout[-3_000:], done.stderr[-3_000:]]) if found or done.returncode else ""
    return int(executed[1]) if executed else 0, said


def test_nothing_is_found_where_coverage_leads(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    minutes = request.config.getoption("--fuzz-minutes")
    seconds = 0 if minutes is None else int(minutes * 60)
    lay_out(tmp_path)
    executed, found = fuzz(EVERYTHING, seconds, tmp_path)
    print(f"parsers: {executed:,} executions")
    assert not found, found
    assert executed >= FEWEST_EXECUTIONS
