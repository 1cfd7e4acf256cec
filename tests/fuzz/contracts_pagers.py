"""Readers that keep their cursors themselves, beside the writers: they page through inboxes, forward and backward, by
numbers and by times, and see everything once.
"""

from collections.abc import Sequence

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import rule

from tests.fuzz.contracts_house import Token
from tests.fuzz.contracts_ledger import Pager
from tests.fuzz.contracts_model import Box
from tests.fuzz.contracts_writers import PULLERS, Writers, places
from web.errors import ApiError

PAGERS = (
    ("a", "agent.a"),
    ("a too", "agent.a"),
    ("admin", "agent.a"),
    ("b", "agent.b"),
    ("m all", "agent.a"),
    ("a too", "hooks"),
    ("b", "news"),
    ("m all", "machine.m"),
    ("admin", "commons"),
)
"""Who pages through which inbox."""
SMALL_PAGE = 900
"""Bytes, of a page of one or two messages."""

pullers, limits = st.sampled_from(PULLERS), st.integers(1, 6)
kinds = st.sampled_from([(), (), ("push",), ("note", "ping")])


class Pagers(Writers):
    """Clients of the first contract, and of the third way to read of the second."""

    def __init__(self) -> None:
        super().__init__()
        self.pagers = [Pager(token, slug) for token, slug in PAGERS]

    def begun(self) -> None:
        """Have everybody somewhere in the middle."""
        for pager in self.pagers:
            self._page(pager, 1, (), None, None)

    @rule(
        which=st.sets(st.integers(0, len(PAGERS) - 1), min_size=1),
        limit=limits,
        kinds=kinds,
        wait=st.sampled_from([None, 0]),
        page_bytes=st.sampled_from([None, None, SMALL_PAGE]),
    )
    def page(
        self, which: set[int], limit: int, kinds: tuple[str, ...], wait: int | None, page_bytes: int | None
    ) -> None:
        for place in sorted(which):
            self._page(self.pagers[place], limit, kinds, wait, page_bytes)

    def _page(
        self, pager: Pager, limit: int, kinds: Sequence[str], wait: int | None, page_bytes: int | None
    ) -> None:
        box, token = self.house.boxes[pager.slug], self.house.tokens.get(pager.token)
        args = (pager.token, pager.slug, pager.after, limit, kinds, pager.epoch)
        how = {"wait": wait, "page_bytes": page_bytes}
        if token is not None and not token.reads(pager.slug):
            with pytest.raises(ApiError, match="no such inbox"):
                self.scene.do(self.scene.query, *args, **how)
            return
        if pager.epoch is not None and pager.life is not box:
            with pytest.raises(ApiError, match="new life"):
                self.scene.do(self.scene.query, *args, **how)
            pager.begin_anew()
            return
        expected = [seq for seq in kept(box, token, kinds) if seq > pager.after]
        told = self.scene.do(self.scene.query, *args, **how)
        shown = len(told.seqs)
        assert told.seqs == expected[:shown]
        assert told.ids == [box.message(seq).id for seq in told.seqs]
        full = min(limit, len(expected))
        assert shown == full or (shown and (page_bytes is not None or box.owner is not None))
        ends = {told.seqs[-1]} if shown else set()
        if shown == len(expected):
            ends = {box.latest} if box.owner is None or not shown else {*ends, box.latest}
        assert told.next_after in ends, "what it skips, nobody may miss"
        assert told.latest == box.latest
        assert told.gap is (0 < pager.after < box.first - 1)
        pager.page(told.ids, told.seqs, told.next_after, told.epoch)
        pager.life = box

    @rule(which=st.integers(0, len(PAGERS) - 1), limit=limits, kinds=kinds)
    def page_backward(self, which: int, limit: int, kinds: tuple[str, ...]) -> None:
        """Whoever goes back from the newest to the end sees everything once."""
        pager = self.pagers[which]
        box, token = self.house.boxes[pager.slug], self.house.tokens.get(pager.token)
        if token is not None and not token.reads(pager.slug):
            return
        seen: list[int] = []
        before = None
        for _ in range(len(box.rows) + 1):
            page, before = self.scene.do(self.scene.query_back, pager.token, pager.slug, before, limit, kinds)
            seen += page
            if before is None:
                break
        assert before is None
        assert seen == kept(box, token, kinds)[::-1]

    @rule(reader=pullers, which=places, limit=limits)
    def replay(self, reader: tuple[str, str], which: int, limit: int) -> None:
        """Whoever asks for what came after a time, and goes on from there, sees everything once."""
        token, agent = reader
        box, visible = self.house.of(agent), self.visible(token)
        times = [0, *(box.rows[seq].delivered_at for seq in sorted(box.rows))]
        after_us = times[which % len(times)]
        wanted = [seq for seq in sorted(box.rows) if box.rows[seq].delivered_at > after_us]
        seen: list[int] = []
        more = True
        while more:
            found = self.scene.do(self.scene.since, agent, visible, after_us, limit)
            rows = [row.seq for row in found.rows]
            assert (rows, found.truncated) == box.after_moment(visible, self.house.now, after_us, limit)
            assert found.last_us > after_us or not found.truncated
            seen, after_us, more = [*seen, *rows], found.last_us, found.truncated
        assert seen == [seq for seq in wanted if box.seen(seq, visible, self.house.now)]


def kept(box: Box, token: Token | None, kinds: Sequence[str]) -> list[int]:
    """Return what may be paged through; an administrator sees everything."""
    seqs = sorted(box.rows) if token is None else box.kept(token.visible)
    return [seq for seq in seqs if not kinds or box.message(seq).kind in kinds]
