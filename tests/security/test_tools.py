"""What tools find in the code and in its dependencies: nothing, but for exceptions that say why."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.security.audit import Unreachable, holes_in, known_holes, runtime_packages
from tests.test_house import FEWEST_LETTERS_OF_A_REASON, OURS, ROOT, sources

SECONDS = 120.0
"""bandit takes about seven on a quiet machine."""

EXCEPTION = re.compile(r"#\s*nosec\b(?P<tests>.*)$")
TESTS = re.compile(r"(?: B\d{3})+")
BEFORE = re.compile(r"#\s*(?:noqa(?::\s*[A-Z0-9, ]+)?)?(?P<reason>.*)$")


def test_bandit_finds_nothing() -> None:
    command = ["-m", "bandit", "--quiet", "--recursive", *OURS, "hatch_build.py"]
    run = subprocess.run(
        [sys.executable, *command], cwd=ROOT, capture_output=True, text=True, timeout=SECONDS
    )
    assert run.returncode == 0, run.stdout
    assert f"$(BIN)/bandit {' '.join(command[2:])}" in (ROOT / "Makefile").read_text(), (
        "make lint does the same"
    )


def test_bandit_has_no_exceptions_but_those_in_the_code() -> None:
    """None for a whole kind of finding, or for a file, where nobody would meet its reason."""
    assert "[tool.bandit" not in (ROOT / "pyproject.toml").read_text()
    assert not [
        name for name in (".bandit", "bandit.yaml", "bandit.yml", "setup.cfg") if (ROOT / name).exists()
    ]


@pytest.mark.parametrize("path", sources(*OURS), ids=lambda path: str(path.relative_to(ROOT)))
def test_an_exception_for_bandit_names_the_finding_and_has_a_reason_beside_it(path: Path) -> None:
    for number, line in enumerate(path.read_text().splitlines(), 1):
        found = EXCEPTION.search(line)
        if found is None:
            continue
        place = f"{path.name}:{number}: {line.strip()}"
        assert TESTS.fullmatch(found["tests"].rstrip()), f"{place}: of what?"
        beside = BEFORE.search(line[: found.start()].rstrip())
        letters = re.sub(r"[^A-Za-z]", "", beside["reason"] if beside else "")
        assert len(letters) >= FEWEST_LETTERS_OF_A_REASON, f"{place}: say why"


def test_no_hole_is_known_in_what_is_installed_where_somebody_can_be_asked() -> None:
    try:
        assert known_holes(runtime_packages()) == []
    except Unreachable as why:
        pytest.skip(f"pip-audit could not ask: {why}")


def test_all_that_a_server_runs_on_is_asked_about() -> None:
    names = {package.name for package in runtime_packages()}
    assert {"trio", "hypercorn", "h11", "h2", "hpack", "werkzeug", "cryptography", "apsw", "msgspec"} <= names
    assert "pytest" not in names


def test_a_report_is_read_and_one_that_says_nothing_is_not_taken_for_good_news() -> None:
    hole = {"id": "CVE-2000-1", "fix_versions": ["2"], "aliases": [], "description": "x"}
    fine = {"name": "a", "version": "1", "vulns": []}
    holed = {"name": "b", "version": "1", "vulns": [hole]}
    unknown = {"name": "c", "skip_reason": "not found"}
    assert holes_in(json.dumps({"dependencies": [fine]}), "") == []
    assert holes_in(json.dumps({"dependencies": [fine, holed]}), "") == ["b: CVE-2000-1, mended in 2"]
    assert len(holes_in(json.dumps({"dependencies": [fine, unknown]}), "")) == 1
    for report, complaints in (
        (json.dumps({"dependencies": [unknown, unknown]}), "No known vulnerabilities found"),
        ("", "ConnectionError: nobody there"),
        ("", ""),
    ):
        with pytest.raises(Unreachable):
            holes_in(report, complaints)


def test_every_dependency_is_pinned_from_both_sides() -> None:
    """A version that nobody has tried is not installed by itself, nor one that had a hole once."""
    text = (ROOT / "pyproject.toml").read_text()
    listed = re.search(r"^dependencies = \[\n(.*?)^\]", text, re.M | re.S)
    assert listed is not None
    needed = re.findall(r'^\s*"([^"]+)"', listed[1], re.M)
    assert len(needed) > 15
    assert [line for line in needed if not re.match(r"[\w-]+>=[\d.]+,<\d[\d.]*(;|$)", line)] == []
