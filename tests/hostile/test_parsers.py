"""Parsers take whatever comes: every input that has found something, and new ones that coverage leads to."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.pages import ROOT
from tests.hostile.targets import CORPUS, TARGETS

GRACE_SECONDS = 120
"""For a start with instrumentation, and the end; an ordinary run takes a tenth of it."""

FEWEST_EXECUTIONS = 1_000

INPUTS = sorted(path.relative_to(CORPUS) for name in TARGETS for path in (CORPUS / name).iterdir())
_RAISED = re.compile(r"Uncaught Python exception.*?(?=\n\n|\Z)", re.DOTALL)
_EXECUTED = re.compile(r"stat::number_of_executed_units:\s*(\d+)")


@pytest.mark.parametrize("path", INPUTS, ids=str)
def test_a_kept_input_is_taken_or_refused_as_documented(path: Path) -> None:
    TARGETS[path.parent.name]((CORPUS / path).read_bytes())


def test_every_target_has_first_inputs_and_all_that_is_kept_is_used() -> None:
    assert {path.parent.name for path in INPUTS} == set(TARGETS)
    assert {path.name for path in CORPUS.iterdir()} == {*TARGETS, "mcp", "openapi"}


def fuzz(seconds: int, directory: Path, *names: str) -> tuple[list[int], str]:
    """Run targets, all when none is named; return how many inputs each has executed, and what was found as text, empty
    for nothing.

    With 0 seconds it is an ordinary run.
    """
    done = subprocess.run(
        [sys.executable, "-m", "tests.hostile.parsers", str(seconds), str(directory), *names],
        cwd=ROOT,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=seconds + GRACE_SECONDS,
    )
    executed = [int(number) for number in _EXECUTED.findall(done.stderr)]
    found = [f"{path.parent.name}: {path.read_bytes()!r}" for path in directory.glob("*/found-*")]
    raised = _RAISED.findall(done.stdout)
    if not found and not done.returncode:
        return executed, ""
    return executed, "\n".join([*found, *raised]) or done.stderr[-3_000:]


def test_nothing_is_found_where_coverage_leads(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    minutes = request.config.getoption("--fuzz-minutes")
    executed, found = fuzz(0 if minutes is None else int(minutes * 60), tmp_path)
    print(f"parsers: {sum(executed):,} executions in {len(executed)} targets")
    assert not found, found
    assert len(executed) == len(TARGETS)
    assert min(executed) >= FEWEST_EXECUTIONS
