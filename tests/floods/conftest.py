"""How large the floods are, the servers for them, and the descriptors that they need."""

import resource
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path

import pytest

from tests.bench.crowds import need_descriptors
from tests.bench.harness import LoadFailed
from tests.floods.scene import MOMENT_MS, Scene, scene

MOST_CONNECTIONS = {"small": 250, "full": 2_500}
"""Open at a time, in one flood."""

IMPATIENT = {"head_timeout_seconds": 1, "body_timeout_seconds": 2, "stalled_reader_seconds": 1}
"""What the one server of the small floods has, so that they need not last long."""

Flooded = Callable[..., AbstractContextManager[Scene]]


@pytest.fixture(scope="session")
def size(request: pytest.FixtureRequest) -> str:
    """How large the floods are: `small` or `full`."""
    return str(request.config.getoption("--floods"))


@pytest.fixture(scope="session")
def descriptors(size: str) -> Iterator[None]:
    """Raise this process's limit of open files, which the server has from it, for the largest flood; then lower it."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        need_descriptors(MOST_CONNECTIONS[size])
    except LoadFailed as failed:
        pytest.skip(str(failed))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, limits)


@pytest.fixture(scope="session")
def impatient(tmp_path_factory: pytest.TempPathFactory, descriptors: None) -> Iterator[Scene]:
    """The server of all small floods."""
    with scene(tmp_path_factory.mktemp("floods") / "data", allowed_ms=MOMENT_MS, **IMPATIENT) as here:
        yield here


@pytest.fixture
def flooded(request: pytest.FixtureRequest, size: str, tmp_path: Path, descriptors: None) -> Flooded:
    """Return what gives a server and the honest client: for a full flood its own, with the default settings but for
    those that are named; for a small one that of all.
    """
    if size == "full":
        return partial(scene, tmp_path / "data")
    here: Scene = request.getfixturevalue("impatient")
    return lambda **_: nullcontext(here)
