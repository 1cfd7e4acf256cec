"""`python -m tests.mutation.trial GROUP OUTCOMES`: try the mutants of one group, in the copy of the tree it runs in.

The tests are collected once. A first process notes which of them reach which function; then each mutant has a process
of its own, forked from the one that has collected, which runs the tests that reach it until one fails. So a mutant
costs milliseconds, and what it breaks dies with it. What is called when the modules are imported, and survives, is
tried again in a process that imports them anew. At the end the outcomes are a JSON list in the file OUTCOMES.
"""

import inspect
import json
import os
import resource
import select
import signal
import subprocess
import sys
import warnings
from collections import defaultdict
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from time import monotonic

import pytest
from mutmut.mutation.trampoline import set_mutant_under_test
from mutmut.state import state

from tests.mutation.mutants import Mutant, mutate
from tests.mutation.table import GROUPS

PYTEST = ("-q", "--tb=no", "-p", "no:xdist", "-p", "no:cacheprovider")
MOST_MEMORY_BYTES = 6 << 30
"""A mutant may be an endless loop that collects something."""
LONGEST_SECONDS = 2.0
LONGEST_START_SECONDS = 30.0
TIMES_AS_LONG = 4.0
"""A mutant may take so many times what its tests take without it, and some seconds more."""
SOURCES = ("actors", "postroom", "storage", "web")
KILLED, SURVIVED, TIMED_OUT, UNREACHED = "killed", "survived", "timed out", "not reached"


class Trial:
    """Runs the collected tests once for each mutant, instead of once."""

    def __init__(self, mutants: list[Mutant], tests: tuple[str, ...], outcomes: Path) -> None:
        self._mutants, self._tests, self._outcomes = mutants, tests, outcomes
        self._imported: set[str] = set()
        self._reaching: dict[str, list[int]] = defaultdict(list)
        self._seconds: list[float] = []
        self._killers: dict[str, list[int]] = defaultdict(list)

    def pytest_configure(self) -> None:
        """Let Hypothesis try the same examples each time, and be content with the first one that fails."""
        from hypothesis import Phase, settings  # pytest wants to be there before it

        phases = (Phase.explicit, Phase.generate)
        settings.register_profile("mutants", phases=phases, database=None, derandomize=True, deadline=None)
        settings.load_profile("mutants")

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Try each mutant; raises an error of pytest's own when the tests fail without one."""
        if session.testsfailed:
            raise session.Interrupted("the tests cannot be collected")
        self._imported = set(state()._stats)
        state()._stats.clear()
        set_mutant_under_test("")
        self._note(session)
        outcomes = []
        for mutant in self._mutants:
            outcome = self._tried(session, mutant)
            if outcome in (SURVIVED, UNREACHED) and mutant.function in self._imported:
                outcome = self._tried_anew(mutant)
            outcomes.append((mutant, outcome))
            self._outcomes.with_suffix(".count").write_text(f"{len(outcomes)} of {len(self._mutants)}")
        said = [{"outcome": outcome} | asdict(mutant.change) for mutant, outcome in outcomes]
        self._outcomes.write_text(json.dumps(said))
        return True

    def _note(self, session: pytest.Session) -> None:
        """See which tests reach which function, and how long each takes."""
        notes = self._outcomes.with_suffix(".notes")

        def look() -> bool:
            set_mutant_under_test("stats")
            noted = []
            for at in range(len(session.items)):
                _forget()
                began = monotonic()
                if _run(session, [at]) is not None:
                    return False
                noted.append((monotonic() - began, sorted(state()._stats)))
                state()._stats.clear()
            notes.write_text(json.dumps(noted))
            return True

        if _forked(look, seconds=600) != SURVIVED:
            raise session.Failed("the tests fail without any mutant, or take too long")
        for at, (seconds, functions) in enumerate(json.loads(notes.read_text())):
            self._seconds.append(seconds)
            for function in functions:
                self._reaching[function].append(at)

    def _tried(self, session: pytest.Session, mutant: Mutant) -> str:
        """Try the tests that have found other mutants of the function first, then the quick ones."""
        reaching, killers = self._reaching[mutant.function], self._killers[mutant.function]
        if not reaching:
            return UNREACHED
        others = sorted(set(reaching) - set(killers), key=lambda at: self._seconds[at])
        killer = self._outcomes.with_suffix(".killer")

        def judge() -> bool:
            set_mutant_under_test(mutant.name)
            failed = _run(session, [*killers, *others])
            if failed is not None:
                killer.write_text(str(failed))
            return failed is None

        killer.unlink(missing_ok=True)
        outcome = _forked(judge, LONGEST_SECONDS + TIMES_AS_LONG * sum(self._seconds[at] for at in reaching))
        if killer.exists():
            at = int(killer.read_text())
            self._killers[mutant.function] = [at, *(other for other in killers if other != at)]
        return outcome

    def _tried_anew(self, mutant: Mutant) -> str:
        """Run all tests in another process, in which the mutant is set before anything is imported."""
        try:
            run = subprocess.run(
                [sys.executable, "-m", "pytest", "-x", *PYTEST, *self._tests],
                env=os.environ | {"MUTANT_UNDER_TEST": mutant.name},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                timeout=LONGEST_START_SECONDS + TIMES_AS_LONG * sum(self._seconds),
                check=False,
            )
        except subprocess.TimeoutExpired:
            return TIMED_OUT
        return KILLED if run.returncode else SURVIVED


def _forget() -> None:
    """Empty the caches of functions: what one test has had computed, another one reaches as well."""
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] in SOURCES:
            for one in vars(module).values():
                if hasattr(one, "cache_clear"):
                    one.cache_clear()


def _run(session: pytest.Session, tests: list[int]) -> int | None:
    """Run these of the collected tests, until one fails; return which."""
    warnings.simplefilter("error")  # as our configuration says
    items = [session.items[at] for at in tests]
    for at, item, following in zip(tests, items, [*items[1:], None], strict=True):
        if _is_plain(item):
            if not _passes(item):
                return at
            continue
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        if session.testsfailed:
            return at
    return None


def _is_plain(item: pytest.Item) -> bool:
    """Whether a test is a function of its parameters alone: then it is called, which takes a tenth of the time."""
    if not isinstance(item, pytest.Function) or inspect.iscoroutinefunction(item.function):
        return False
    marks = list(item.iter_markers())
    if any(
        mark.name != "parametrize" or mark.kwargs.get("indirect")
        for mark in marks
        if mark.name != "hypothesis"
    ):
        return False
    return set(item.fixturenames) <= set(_parameters(item))


def _parameters(item: pytest.Function) -> dict[str, object]:
    return item.callspec.params if hasattr(item, "callspec") else {}


def _passes(item: pytest.Function) -> bool:
    try:
        item.obj(**_parameters(item))
    except pytest.skip.Exception:
        return True
    except BaseException:
        return False
    return True


def _forked(judge: Callable[[], bool], seconds: float) -> str:
    """Do something in a process of its own, which says nothing and may take so many seconds."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            silence = os.open(os.devnull, os.O_WRONLY)
            os.dup2(silence, 1)
            os.dup2(silence, 2)
            resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY_BYTES, MOST_MEMORY_BYTES))
            code = 0 if judge() else 1
        finally:
            os._exit(code)
    watched = os.pidfd_open(child)
    try:
        ended, _, _ = select.select([watched], [], [], seconds)
        if not ended:
            os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
    finally:
        os.close(watched)
    if not ended:
        return TIMED_OUT
    return SURVIVED if status == 0 else KILLED


def main(name: str, outcomes: str) -> int:
    """Mutate the group's modules where they stand, and try the mutants."""
    group = next(group for group in GROUPS if group.name == name)
    mutants = [mutant for path in group.paths() for mutant in mutate(path)]
    set_mutant_under_test("stats")  # what is imported is noted from the first conftest on
    return int(pytest.main([*PYTEST, *group.tests], plugins=[Trial(mutants, group.tests, Path(outcomes))]))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
