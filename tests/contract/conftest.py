"""The stores that keep the contract. Every test of this directory runs against each of them."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import pytest

from storage.memory import MemoryStore
from storage.options import StorageOptions
from storage.protocols import Log
from storage.secret import SecretBytes
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


def opens(kind: str, data_dir: Path) -> OpenLog:
    """Return how to open a store of a kind: `memory`, `sqlite`, or `sealed`, which is SQLite with a key for secrets."""
    if kind == "memory":
        return _memory()
    key = SecretBytes(b"k" * 32) if kind == "sealed" else None
    return lambda: open_store(StorageOptions(data_dir=data_dir, secret_key=key))


@pytest.fixture(params=["memory", "sqlite"])
def open_log(request: pytest.FixtureRequest, tmp_path: Path) -> OpenLog:
    """Return how to open one store."""
    return opens(request.param, tmp_path)


@pytest.fixture
async def store(open_log: OpenLog) -> AsyncIterator[Log]:
    """Yield an open, empty store."""
    async with open_log() as log:
        yield log
