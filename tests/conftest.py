"""What the whole suite shares: the options of its long runs, and its time budgets.

The time of every test (set-up and tear-down included) is added up by the first directory below `tests/`;
the sums are printed at the end and a part that exceeds its budget fails the run. See `tests/budgets.py`.
"""

import logging
import signal
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog
from structlog.testing import capture_logs

from tests.budgets import BUDGETS_SECONDS, DEFAULT_SECONDS

HERE = Path(__file__).parent
DEFAULT_KILL_ROUNDS = 5
"""How often each of the two durability tests kills the server in an ordinary run; `make soak` asks for more."""
LONG_FILES = (
    "tests/postroom/test_agent_docs.py",
    "tests/packages/test_packages.py",
    "tests/simulation/test_seeds.py",
    "tests/live/test_restore.py",
    "tests/live/test_durability.py",
    "tests/live/test_mesh_kills.py",
    "tests/live/test_mail_kills.py",
    "tests/postroom/test_follow.py",
    "tests/live/test_secrets_at_rest.py",
    "tests/live/test_full_disk.py",
    "tests/postroom/test_provider_docs.py",
    "tests/postroom/test_tutorial.py",
    "tests/postroom/test_api_docs.py",
)
"""Files of few and long tests, which begin first: at the end, one process would have nothing to do beside them."""
DEFAULT_MACHINE_RUNS = 40
DEFAULT_POWER_CUTS = 100
DEFAULT_SIMULATION_SEEDS = 200

_spent: pytest.StashKey[dict[str, float]] = pytest.StashKey()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of the long runs."""
    parser.addoption(
        "--kill-rounds",
        type=int,
        default=DEFAULT_KILL_ROUNDS,
        metavar="N",
        help=f"rounds of kill -9 in each durability test (default {DEFAULT_KILL_ROUNDS})",
    )
    parser.addoption(
        "--machine-runs",
        type=int,
        default=DEFAULT_MACHINE_RUNS,
        metavar="N",
        help=f"runs of the state machines against a real server (default {DEFAULT_MACHINE_RUNS})",
    )
    parser.addoption(
        "--power-cuts",
        type=int,
        default=DEFAULT_POWER_CUTS,
        metavar="N",
        help=f"power cuts under the real storage, in worlds of ten (default {DEFAULT_POWER_CUTS})",
    )
    parser.addoption(
        "--simulation-seeds",
        type=int,
        default=DEFAULT_SIMULATION_SEEDS,
        metavar="N",
        help=f"seeds of the simulated world (default {DEFAULT_SIMULATION_SEEDS})",
    )
    parser.addoption(
        "--floods",
        choices=("small", "full"),
        default="small",
        help="how many connections, bytes and seconds the floods have (default small)",
    )
    parser.addoption(
        "--fuzz-minutes",
        type=float,
        default=None,
        metavar="N",
        help="how long each kind of hostile input is tried (default: some seconds)",
    )
    parser.addoption(
        "--every-case",
        action="store_true",
        help="run every case of the benchmarks in small, those that take long as well",
    )
    parser.addoption(
        "--whole-wheel",
        action="store_true",
        help="let the installed wheel pass all live tests instead of some",
    )


@pytest.fixture
def kill_rounds(request: pytest.FixtureRequest) -> int:
    """How many rounds of `kill -9` a durability test plays."""
    rounds: int = request.config.getoption("--kill-rounds")
    return rounds


@pytest.fixture
def machine_runs(request: pytest.FixtureRequest) -> int:
    """How many runs a state machine plays."""
    runs: int = request.config.getoption("--machine-runs")
    return runs


def part_of(path: Path) -> str:
    """Return the part of the suite that a test file belongs to."""
    inside = path.relative_to(HERE) if path.is_relative_to(HERE) else path
    return inside.parts[0] if len(inside.parts) > 1 else "house"


def pytest_configure(config: pytest.Config) -> None:
    """Start with nothing spent, and hear what ends programs: those under test inherit the signals that whoever started
    this run had it ignore, as a shell does for what it leaves in the background.
    """
    config.stash[_spent] = defaultdict(float)
    for number in (signal.SIGINT, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)
    config.pluginmanager.register(Spending(config))


class Spending:
    """Adds each phase of each test to the part that it belongs to, whichever process has run it."""

    def __init__(self, config: pytest.Config) -> None:
        self._root, self._spent = config.rootpath, config.stash[_spent]

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Take the report of one phase."""
        self._spent[part_of(self._root / report.location[0])] += report.duration


def exceeded(spent: dict[str, float]) -> list[str]:
    """Return the parts that took longer than they may."""
    return [part for part, seconds in spent.items() if seconds > BUDGETS_SECONDS.get(part, DEFAULT_SECONDS)]


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the tests of the long files in front; xdist gives out files in this order (`--no-loadscope-reorder`)."""
    places = {path: place for place, path in enumerate(LONG_FILES)}
    items.sort(key=lambda item: places.get(item.nodeid.partition("::")[0], len(places)))


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail a run that passed but took too long; one of many rounds, or of all live tests twice, is long on purpose."""
    option = session.config.getoption
    ordinary = (
        option("--kill-rounds") <= DEFAULT_KILL_ROUNDS
        and option("--machine-runs") <= DEFAULT_MACHINE_RUNS
        and option("--simulation-seeds") <= DEFAULT_SIMULATION_SEEDS
        and option("--power-cuts") <= DEFAULT_POWER_CUTS
        and option("--floods") == "small"
        and option("--fuzz-minutes") is None
        and not option("--whole-wheel")
    )
    if ordinary and session.exitstatus == pytest.ExitCode.OK and exceeded(session.config.stash[_spent]):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Print what each part took against its budget."""
    spent = config.stash[_spent]
    if not spent:
        return
    over = exceeded(spent)
    terminalreporter.section("time by part of the suite")
    for part in sorted(spent):
        budget = BUDGETS_SECONDS.get(part, DEFAULT_SECONDS)
        verdict = "OVER BUDGET" if part in over else "ok"
        terminalreporter.line(f"{part:<12}{spent[part]:>8.1f} s of {budget:>5.0f} s  {verdict}")


@pytest.fixture
def restored_logging() -> Iterator[None]:
    """Put the process's logging back as it was."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    structlog.reset_defaults()


@pytest.fixture
def nothing_logged(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Fail when a line is logged: strangers must not be able to fill a disk."""
    with capture_logs() as lines, caplog.at_level(logging.INFO):
        yield
    assert [line for line in lines if line["log_level"] != "debug"] == []
    assert [record.getMessage() for record in caplog.records] == []
