"""The stores that keep the contract. Every test of this directory runs against each of them."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import pytest

from storage.memory import MemoryStore
from storage.options import StorageOptions
from storage.protocols import Log
from storage.sqlite import open_store

OpenLog = Callable[[], AbstractAsyncContextManager[Log]]
"""Opens the store of this test; once more, after it was closed, is its next start on the same data."""


def _memory() -> OpenLog:
    store = MemoryStore()

    @asynccontextmanager
    async def start() -> AsyncIterator[Log]:
        store.reopen()
        try:
            yield store
        finally:
            store.close()

    return start


def _sqlite(data_dir: Path) -> OpenLog:
    return lambda: open_store(StorageOptions(data_dir=data_dir))


@pytest.fixture(params=["memory", "sqlite"])
def open_log(request: pytest.FixtureRequest, tmp_path: Path) -> OpenLog:
    """Return how to open one store."""
    return _memory() if request.param == "memory" else _sqlite(tmp_path)


@pytest.fixture
async def store(open_log: OpenLog) -> AsyncIterator[Log]:
    """Yield an open, empty store."""
    async with open_log() as log:
        yield log
