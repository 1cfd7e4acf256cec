"""Both stores find the same, whatever was appended, indexed, erased, dropped, swept and switched before."""

import itertools
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from storage import search, search_index, sweep
from storage.memory import MemoryStore
from storage.options import StorageOptions
from storage.protocols import Log, Tx
from storage.records import InboxSettings
from storage.search_records import IndexRow, Phrase, SearchQuery
from storage.sqlite import open_store
from tests.contract.builders import Do, See, create, entry, erase, head, put, sweep_all
from tests.contract.test_search import SEARCHED

WORDS = ("a", "ab", "abc", "b", "ba", "c")
INBOXES = 2

_examples = itertools.count()

texts = st.lists(st.sampled_from(WORDS), max_size=5).map(" ".join)
phrase = st.builds(
    Phrase, st.lists(st.sampled_from(WORDS), min_size=1, max_size=3).map(tuple), prefix=st.booleans()
)
questions = st.tuples(
    st.lists(phrase, min_size=1, max_size=3).map(tuple),
    st.lists(phrase, max_size=2).map(tuple),
    st.one_of(st.none(), st.integers(1, 30)),
    st.integers(1, 5),
)
steps = st.tuples(
    st.sampled_from(("append", "append", "index", "index", "erase", "drop", "sweep", "switch", "merge")),
    st.integers(0, INBOXES - 1),
    st.integers(1, 25),
    st.lists(texts, min_size=1, max_size=6),
)


class World:
    """One store under test, with some inboxes, the words of whose entries are decided when they are appended."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._inboxes: list[int] = []
        self._texts: dict[tuple[int, int], str] = {}

    async def begin(self) -> None:
        for n in range(INBOXES):
            self._inboxes.append((await create(self._log, f"inbox-{n}", settings=SEARCHED)).inbox_id)

    async def step(self, name: str, which: int, n: int, said: list[str]) -> Any:
        return await getattr(self, f"_{name}")(self._inboxes[which], n, said)

    async def ask(self, which: int, wanted: Any, unwanted: Any, before: Any, limit: int) -> Any:
        """Return every page of a question: the seqs found, and the cursor; a look may end early with either store."""
        seqs: list[int] = []
        while True:
            query = SearchQuery(self._inboxes[which], wanted, unwanted, before, limit)
            page = await self._log.read(See(lambda snapshot, query=query: snapshot.search(query)))
            seqs += [row.seq for row in page.rows]
            assert len(page.rows) <= limit
            if page.resume is None:
                return seqs, page.indexed_seq
            assert before is None or page.resume < before, "it goes nowhere"
            before = page.resume

    async def _append(self, inbox_id: int, n: int, said: list[str]) -> None:
        latest = (await head(self._log, inbox_id)).latest_seq
        entries = [entry(seq) for seq, _ in enumerate(said, latest + 1)]
        self._texts.update({(inbox_id, latest + at): text for at, text in enumerate(said, 1)})
        await self._log.commit(Do(lambda tx: put(tx, inbox_id, entries)))

    async def _index(self, inbox_id: int, n: int, said: list[str]) -> Any:
        found = await self._log.read(See(lambda snapshot: snapshot.unindexed(inbox_id, n, 0, 1 << 20)))
        if found is None:
            return None
        rows = [IndexRow(row.seq, self._texts[inbox_id, row.seq]) for row in found.rows]
        unit = Do(lambda tx: tx.index(inbox_id, found.after, rows, found.through))
        return found, await self._log.commit(unit)

    async def _erase(self, inbox_id: int, n: int, said: list[str]) -> Any:
        return await erase(self._log, inbox_id, n)

    async def _drop(self, inbox_id: int, n: int, said: list[str]) -> None:
        def run(tx: Tx) -> None:
            before = tx.head(inbox_id)
            seq = max(before.first_seq, min(n, before.latest_seq + 1))
            tx.drop_before(inbox_id, seq)
            tx.advance(inbox_id, before, type(before)(before.epoch, before.latest_seq, seq, before.last_at))

        await self._log.commit(Do(run))

    async def _sweep(self, inbox_id: int, n: int, said: list[str]) -> None:
        await sweep_all(self._log, max_rows=n)

    async def _switch(self, inbox_id: int, n: int, said: list[str]) -> None:
        kept = InboxSettings(search=n % 3 > 0)
        await self._log.commit(Do(lambda tx: tx.change_inbox(inbox_id, "", kept)))

    async def _merge(self, inbox_id: int, n: int, said: list[str]) -> None:
        while await self._log.commit(Do(lambda tx: tx.merge_index())):
            pass


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    done=st.lists(steps, min_size=3, max_size=25),
    asked=st.lists(questions, min_size=1, max_size=8),
    bits=st.integers(0, 4),
)
async def test_both_stores_find_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, done: list[Any], asked: list[Any], bits: int
) -> None:
    monkeypatch.setattr(sweep, "SLICE_SECONDS", 60)
    for module in (search, search_index):
        monkeypatch.setattr(module, "BLOCK_BITS", bits)  # inboxes here are small
    async with AsyncExitStack() as stack:
        options = StorageOptions(data_dir=tmp_path / str(next(_examples)))
        sqlite = await stack.enter_async_context(open_store(options))
        twins = [World(MemoryStore()), World(sqlite)]
        for twin in twins:
            await twin.begin()
        for step in [("append", 0, 1, ["a", "ab c"]), ("index", 0, 9, []), *done]:
            one, other = [await twin.step(*step) for twin in twins]
            assert one == other, step
        for question in asked:
            for which in range(INBOXES):
                one, other = [await twin.ask(which, *question) for twin in twins]
                assert one == other, question
