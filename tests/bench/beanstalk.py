"""beanstalkd as Debian has it: a durable queue in C as the yardstick, unpacked by `make`, started by nothing else."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.bench.processes import Server, listening

PROGRAM = Path(__file__).parents[2] / "build" / "queue" / "usr" / "bin" / "beanstalkd"


def is_there() -> bool:
    """Return whether it was unpacked: only where there is apt-get."""
    return PROGRAM.exists()


@contextmanager
def beanstalkd(directory: Path) -> Iterator[Server]:
    """Run it with a log below `directory` that is synced before every answer (`-f0`)."""
    log = directory / "beanstalkd"
    log.mkdir()
    command = [str(PROGRAM), "-l", "127.0.0.1", "-p", "0", "-b", str(log), "-f0"]
    with listening("beanstalkd-log", command, directory) as server:
        yield server
