"""What the tests of beacons run on: both stores, one after the other."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.actors.world import World, running
from tests.contract.conftest import opens

Beacons = Callable[..., AbstractAsyncContextManager[World]]


@pytest.fixture(params=["memory", "sqlite"])
def beacons(request: pytest.FixtureRequest, tmp_path: Path) -> Beacons:
    """Return how to run a world over one store; each time anew over the same data."""
    opened = opens(request.param, tmp_path)

    @asynccontextmanager
    async def run(**options: Any) -> AsyncIterator[World]:
        async with opened() as store, running(store, **options) as world:
            yield world

    return run
