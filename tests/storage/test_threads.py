"""The store with its threads: cancellation, batching, closing; traps 6 to 9 of the field notes."""

import gc
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

from storage.engine import Job, JobQueue
from storage.errors import DataDirectoryError, StorageClosed, StorageError, UnitFailed
from storage.options import StorageOptions
from storage.protocols import Snapshot, Tx
from storage.readers import STUCK_SECONDS
from storage.sqlite import SqliteStore, open_store
from tests.contract.builders import Do, See, append, create, entry, fill, seqs

BOUND_SECONDS = 5.0


class Gate:
    """A unit or look that tells when it runs and then stands on its thread until it is let go."""

    def __init__(self) -> None:
        self.running = trio.Event()
        self._token = trio.lowlevel.current_trio_token()
        self._open = threading.Event()

    def stand(self, _: Tx | Snapshot) -> str:
        self._token.run_sync_soon(self.running.set)
        assert self._open.wait(BOUND_SECONDS)
        return "let go"

    def open(self) -> None:
        self._open.set()


@contextmanager
def gate() -> Iterator[Gate]:
    """Yield a gate that is open at the end in any case, so that no thread outlives the test."""
    made = Gate()
    try:
        yield made
    finally:
        made.open()


def options(tmp_path: Path, **fields: int) -> StorageOptions:
    return StorageOptions(data_dir=tmp_path, reserve_bytes=0, **fields)


def our_threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("postroom-")]


async def test_a_commit_cancelled_in_the_queue_does_not_run(tmp_path: Path) -> None:
    ran: list[object] = []
    with trio.fail_after(BOUND_SECONDS), gate() as held:
        async with open_store(options(tmp_path)) as store, trio.open_nursery() as nursery:
            nursery.start_soon(store.commit, Do(held.stand))
            await held.running.wait()
            with trio.CancelScope() as scope:
                scope.cancel()
                await store.commit(Do(ran.append))
            with trio.move_on_after(0.01) as scope:
                await store.commit(Do(ran.append))
            assert scope.cancelled_caught
            held.open()
            assert await store.commit(Do(lambda tx: len(ran))) == 0


async def test_a_commit_cancelled_while_it_runs_leaves_no_transaction_open(tmp_path: Path) -> None:
    """Trap 6: after a cancelled unit, later "committed" writes must not vanish at close."""
    with trio.fail_after(BOUND_SECONDS), gate() as held:
        async with open_store(options(tmp_path)) as store:
            inbox = await create(store)

            def slow(tx: Tx) -> None:
                head = tx.head(inbox.inbox_id)
                tx.append(inbox.inbox_id, head.epoch, [entry(1)])
                held.stand(tx)
                raise ValueError("undone")

            async with trio.open_nursery() as nursery:
                nursery.start_soon(store.commit, Do(slow))
                await held.running.wait()
                nursery.cancel_scope.cancel()
            held.open()
            await fill(store, inbox.inbox_id, 3)
        async with open_store(options(tmp_path)) as store:
            assert await seqs(store, inbox.inbox_id) == [1, 2, 3]


async def test_what_queued_during_a_commit_is_one_transaction(tmp_path: Path) -> None:
    with trio.fail_after(BOUND_SECONDS), gate() as held:
        async with open_store(options(tmp_path)) as store, trio.open_nursery() as nursery:
            nursery.start_soon(store.commit, Do(held.stand))
            await held.running.wait()
            commits = store.health.commits
            async with trio.open_nursery() as senders:
                for _ in range(20):
                    senders.start_soon(store.commit, Do(lambda tx: None))
                await trio.testing.wait_all_tasks_blocked()
                held.open()
            assert store.health.commits == commits + 2
            assert store.health.batch_units_max == 20


async def test_closing_in_a_cancelled_scope_ends_every_thread(
    tmp_path: Path,
) -> None:
    """Trap 7: an asynchronous close would not run here, and the process would never end."""
    with trio.fail_after(BOUND_SECONDS):
        with trio.CancelScope() as scope:
            async with open_store(options(tmp_path)) as store:
                inbox = await create(store)
                assert len(our_threads()) == 4
                scope.cancel()
                await trio.lowlevel.checkpoint()
        assert our_threads() == []
        assert store.health.state == "closed"
        with pytest.raises(StorageClosed):
            await create(store, "late")
        async with open_store(options(tmp_path)) as again:
            await append(again, inbox.inbox_id, [entry(1)])


async def test_queued_commits_are_stored_and_answered_when_the_store_closes(tmp_path: Path) -> None:
    with trio.fail_after(BOUND_SECONDS), gate() as held:
        async with open_store(options(tmp_path)) as store:
            inbox = await create(store)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(store.commit, Do(held.stand))
                await held.running.wait()
                nursery.start_soon(append, store, inbox.inbox_id, [entry(1)])
                await trio.testing.wait_all_tasks_blocked()
                held.open()
                store.close()
        async with open_store(options(tmp_path)) as again:
            assert await seqs(again, inbox.inbox_id) == [1]


async def test_reads_beyond_the_limit_wait_outside_the_queue(tmp_path: Path) -> None:
    """Trap 9: a queue to a thread has no bound of its own."""
    with trio.fail_after(BOUND_SECONDS), gate() as held:
        limited = options(tmp_path, max_concurrent_reads=3)
        async with open_store(limited) as store, trio.open_nursery() as nursery:
            for _ in range(10):
                nursery.start_soon(store.read, See(held.stand, slow=True))
            await trio.testing.wait_all_tasks_blocked()
            assert store._readers._slow.queue._queue.qsize() <= 3
            held.open()


async def test_a_cancelled_read_frees_its_slot(tmp_path: Path) -> None:
    with trio.fail_after(BOUND_SECONDS), gate() as held:
        async with open_store(options(tmp_path, max_concurrent_reads=1)) as store:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(store.read, See(held.stand, slow=True))
                await held.running.wait()
                nursery.cancel_scope.cancel()
            assert await store.read(See(lambda snapshot: snapshot.tokens())) == []


async def test_a_page_does_not_stand_behind_a_slow_read(tmp_path: Path) -> None:
    with trio.fail_after(BOUND_SECONDS), gate() as held:
        async with open_store(options(tmp_path)) as store, trio.open_nursery() as nursery:
            nursery.start_soon(store.read, See(held.stand, slow=True))
            await held.running.wait()
            assert await store.read(See(lambda snapshot: snapshot.tokens())) == []
            held.open()


async def test_an_exception_of_one_look_concerns_that_look_alone(tmp_path: Path) -> None:
    outcomes: dict[str, object] = {}

    async def read(store: SqliteStore, name: str, look: See[Any]) -> None:
        try:
            outcomes[name] = await store.read(look)
        except Exception as exc:
            outcomes[name] = exc

    def broken(snapshot: Snapshot) -> None:
        raise ValueError("mine")

    def sql(snapshot: Snapshot) -> None:
        snapshot.sql.rows("SELECT * FROM nowhere")  # type: ignore[attr-defined]  # no protocol for this

    with trio.fail_after(BOUND_SECONDS), gate() as held:
        async with open_store(options(tmp_path)) as store, trio.open_nursery() as nursery:
            nursery.start_soon(store.read, See(held.stand))
            await held.running.wait()
            nursery.start_soon(read, store, "broken", See(broken))
            nursery.start_soon(read, store, "sql", See(sql))
            nursery.start_soon(read, store, "good", See(lambda snapshot: snapshot.tokens()))
            await trio.testing.wait_all_tasks_blocked()
            held.open()
    assert isinstance(outcomes["broken"], ValueError)
    assert type(outcomes["sql"]) is StorageError
    assert outcomes["good"] == []


async def test_a_reader_cannot_write(tmp_path: Path) -> None:
    with trio.fail_after(BOUND_SECONDS):
        async with open_store(options(tmp_path)) as store:
            with pytest.raises(StorageError):
                await store.read(
                    See(lambda snapshot: snapshot.sql.rows("DELETE FROM inbox"))  # type: ignore[attr-defined]  # no protocol
                )


def test_an_outcome_that_comes_after_the_end_of_the_loop_is_nobodys() -> None:
    queues: list[JobQueue] = []

    async def main() -> None:
        queues.append(JobQueue())

    trio.run(main)
    queues[0].deliver([Job(None)])


async def test_a_failed_commit_leaves_no_reference_cycle(tmp_path: Path) -> None:
    class Payload:
        pass

    async def fail(store: SqliteStore) -> "weakref.ref[Payload]":
        payload = Payload()

        def run(tx: Tx) -> None:
            raise ValueError(payload)

        try:
            await store.commit(Do(run))
        except UnitFailed:
            return weakref.ref(payload)
        raise AssertionError

    with trio.fail_after(BOUND_SECONDS):
        async with open_store(options(tmp_path)) as store:
            gc.collect()
            gc.disable()
            try:
                left = await fail(store)
                await store.commit(Do(lambda tx: None))  # the thread has let go of the batch before
                assert left() is None
            finally:
                gc.enable()


async def test_a_second_server_on_the_same_directory_is_told_who_has_it(tmp_path: Path) -> None:
    with trio.fail_after(BOUND_SECONDS):
        async with open_store(options(tmp_path)) as store:
            store.note_address("127.0.0.1:8025")
            with pytest.raises(
                DataDirectoryError, match=r"in use by another Postroom \(process \d+ at 127.0.0.1:8025\)"
            ):
                async with open_store(options(tmp_path)):
                    pass
        async with open_store(options(tmp_path)):
            pass


async def test_a_writer_that_dies_of_a_bug_refuses_everybody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    died = threading.Event()
    monkeypatch.setattr(threading, "excepthook", lambda args: died.set())
    with trio.fail_after(BOUND_SECONDS), gate() as held:
        async with open_store(options(tmp_path)) as store:
            outcomes: list[BaseException] = []

            async def send() -> None:
                with pytest.raises(StorageClosed) as caught:
                    await store.commit(Do(lambda tx: None))
                outcomes.append(caught.value)

            def broken(now: float) -> list[Job]:
                monkeypatch.undo()
                monkeypatch.setattr(threading, "excepthook", lambda args: died.set())
                raise RuntimeError("bug")

            async with trio.open_nursery() as nursery:
                nursery.start_soon(store.commit, Do(held.stand))
                await held.running.wait()
                monkeypatch.setattr(store._writer._lanes, "choose", broken)
                for _ in range(3):
                    nursery.start_soon(send)
                await trio.testing.wait_all_tasks_blocked()
                held.open()
            assert died.wait(BOUND_SECONDS)
            await send()
            assert len(outcomes) == 4
            assert store.health.state == "closed"
            assert await store.read(See(lambda snapshot: snapshot.tokens())) == [], "reads go on"


async def test_an_ill_made_unit_is_refused_before_it_reaches_the_writer(tmp_path: Path) -> None:
    with trio.fail_after(BOUND_SECONDS):
        async with open_store(options(tmp_path)) as store:
            with pytest.raises(ValueError, match="lane"):
                await store.commit(Do(lambda tx: None, lane="answers"))  # type: ignore[arg-type]  # the point
            assert await store.commit(Do(lambda tx: 1)) == 1


async def test_a_page_is_read_while_another_is_held_up(tmp_path: Path) -> None:
    """As by a disk that does not answer. What was queued behind it before that was noticed waits with it."""
    with trio.fail_after(BOUND_SECONDS), gate() as held:
        async with open_store(options(tmp_path)) as store, trio.open_nursery() as nursery:
            nursery.start_soon(store.read, See(held.stand))
            await held.running.wait()
            answers: list[str] = []
            while not answers:
                with trio.move_on_after(STUCK_SECONDS):
                    answers.append(await store.read(See(lambda _: "answered")))
            held.open()
