"""SQLite alone has readers to wait for; the twin in memory never refuses a read."""

import threading
from pathlib import Path

import pytest
import trio

from storage.errors import ReadersBusy
from storage.options import StorageOptions
from storage.protocols import Snapshot
from storage.sqlite import open_store
from tests.contract.builders import See

BOUND_SECONDS = 5.0


async def test_a_read_that_gets_no_slot_in_time_is_refused_and_the_next_goes_on(tmp_path: Path) -> None:
    options = StorageOptions(data_dir=tmp_path, max_concurrent_reads=1, read_slot_timeout_seconds=0.05)
    holding = trio.Event()
    token = trio.lowlevel.current_trio_token()
    release = threading.Event()

    def hold(snapshot: Snapshot) -> None:
        token.run_sync_soon(holding.set)
        assert release.wait(BOUND_SECONDS)

    def look(snapshot: Snapshot) -> int:
        return len(snapshot.tokens())

    with trio.fail_after(BOUND_SECONDS):
        async with open_store(options) as store:
            try:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(store.read, See(hold, slow=True))
                    await holding.wait()
                    for slow in (False, True):
                        with pytest.raises(ReadersBusy):
                            await store.read(See(look, slow=slow))
                    release.set()
            finally:
                release.set()
            assert await store.read(See(look)) == 0
