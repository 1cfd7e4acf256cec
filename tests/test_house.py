"""The rules of the house as tests: style, types, import directions, and what may not be in the repository."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
TOOL_SECONDS = 300
"""mypy without a cache takes about 40 s on two cores; a hung tool must not hang the suite."""

TESTS_THAT_SLEEP = re.compile(
    r"\b(?:time|trio|asyncio|anyio)\.sleep(?:_until)?\(|\bfrom (?:time|trio|asyncio|anyio) import .*\bsleep\b"
)  # sleep_forever only parks a task
UNFINISHED = re.compile(r"\bTODO\b|\bFIXME\b|\bXXX\b")
STUB = re.compile(r"raise NotImplementedError")
EXCUSES = re.compile(r"#\s*(?:type: ignore(?:\[[^]]*\])?|noqa(?::\s*[A-Z0-9, ]+)?)(?P<reason>.*)$")
FEWEST_LETTERS_OF_A_REASON = 8
MAX_MODULE_LINES = 400


def sources(*packages: str) -> list[Path]:
    return sorted(
        path
        for package in packages
        for path in (ROOT / package).rglob("*.py")
        if "node_modules" not in path.parts and not path.name.endswith("_pb2.py")  # made by the build
    )


OURS = ("postroom", "web", "actors", "storage")


@pytest.mark.parametrize(
    "command",
    [
        ["-m", "ruff", "check", "."],
        ["-m", "ruff", "format", "--check", "."],
        ["-m", "mypy"],
    ],
    ids=lambda command: " ".join(command[1:3]),
)
def test_the_code_is_clean(command: list[str]) -> None:
    run = subprocess.run(
        [sys.executable, *command], cwd=ROOT, capture_output=True, text=True, timeout=TOOL_SECONDS
    )
    assert run.returncode == 0, run.stdout + run.stderr


def test_imports_point_down() -> None:
    tool = Path(sys.executable).with_name("lint-imports")
    run = subprocess.run([tool], cwd=ROOT, capture_output=True, text=True, timeout=TOOL_SECONDS)
    assert run.returncode == 0, run.stdout + run.stderr


@pytest.mark.parametrize("path", sources(*OURS), ids=lambda path: str(path.relative_to(ROOT)))
def test_a_module_says_what_it_owns_and_stays_readable(path: Path) -> None:
    text = path.read_text()
    assert len(text.splitlines()) <= MAX_MODULE_LINES
    assert not text.strip() or text.startswith(('"""', "#!")) or path.name == "__init__.py"


@pytest.mark.parametrize("path", sources(*OURS, "tests"), ids=lambda path: str(path.relative_to(ROOT)))
def test_no_stub_and_no_unexplained_exception_from_a_rule(path: Path) -> None:
    if path == Path(__file__):
        return
    for number, line in enumerate(path.read_text().splitlines(), 1):
        assert not UNFINISHED.search(line), f"{path.name}:{number}: {line.strip()}"
        assert not STUB.search(line) or "tests" in path.relative_to(ROOT).parts, (
            f"{path.name}:{number}: a stub"
        )
        excuse = EXCUSES.search(line)
        if excuse is not None:
            letters = re.sub(r"[^A-Za-z]", "", excuse["reason"])
            assert len(letters) >= FEWEST_LETTERS_OF_A_REASON, f"{path.name}:{number}: say why"


def measures_real_time(path: Path) -> bool:
    """Whether the module is part of the benchmarks, which measure real time; their own tests do not."""
    return path.is_relative_to(ROOT / "tests" / "bench") and not path.name.startswith("test_")


@pytest.mark.parametrize("path", sources("tests"), ids=lambda path: str(path.relative_to(ROOT)))
def test_no_test_sleeps(path: Path) -> None:
    if path == Path(__file__) or measures_real_time(path):
        return
    sleeping = [line.strip() for line in path.read_text().splitlines() if TESTS_THAT_SLEEP.search(line)]
    assert not sleeping


def test_the_lock_file_names_no_registry() -> None:
    assert "resolved" not in (ROOT / "tests" / "package-lock.json").read_text()


@pytest.mark.parametrize("path", sources(*OURS), ids=lambda path: str(path.relative_to(ROOT)))
def test_no_exception_is_raised_twice(path: Path) -> None:
    """An exception made once and raised again collects the frames of every raise, and with them what they hold."""
    raised = re.findall(r"^\s*raise [A-Z][A-Z0-9_]*$", path.read_text(), re.MULTILINE)
    assert not raised
