"""When `postroom watch` runs its command: debounced, one run at a time, for news only, not for ever in vain."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from itertools import pairwise
from typing import Any, TypeVar

import pytest
import trio
import trio.testing

from postroom.client import Refused, Unreachable
from postroom.following import Lost
from postroom.news import HOW_TO_PULL, HOW_TO_READ, Look, Terms, Told, prompt
from postroom.watching import Happening, Ran, Running, Watch, ring_at_events, ring_at_intervals
from tests.virtual import pass_time

DEBOUNCE_SECONDS = 5.0
RUN_SECONDS = 30.0
DAY_SECONDS = 86_400.0

T = TypeVar("T")


def look(*ids: str, unread: int | None = None) -> Look:
    return Look(len(ids) if unread is None else unread, frozenset(ids))


# -- what is news ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("told", "seen", "news"),
    [
        (look(), look(), False),
        (look(), look("a"), True),
        (look("a"), look("a"), False),
        (look("a"), look(), False),
        (look("a"), look("a", "b"), True),
        (look("a"), look("b"), True),
        (look("a", unread=150), look("a", unread=150), False),
        (look("a", unread=150), look("a", unread=151), True),
        (look("a", unread=150), look("a", unread=149), False),
    ],
)
def test_news_is_what_the_command_was_not_told_of(told: Look, seen: Look, news: bool) -> None:
    assert Told(told.ids, told.unread).seen(seen).is_news(seen) is news


def test_what_is_read_and_followed_by_as_much_is_news() -> None:
    told = Told(frozenset("ab"), 2).seen(look("b"))
    assert told.is_news(look("b", "c"))
    assert told.is_news(look("a"))  # by a server that was restored from a backup
    beyond_the_page = Told(frozenset("ab"), 150).seen(look("a", "b", unread=140))
    assert beyond_the_page.is_news(look("a", "b", unread=141))


@pytest.mark.parametrize(
    ("seen", "how", "begins"),
    [
        (look("a"), HOW_TO_READ, "You have 1 unread message in your Postroom inbox. Read them with `postroom inbox`"),
        (look(unread=1200), HOW_TO_READ, "You have 1,200 unread messages in your Postroom inbox."),
        (Look(100, is_all=False), HOW_TO_PULL, "You have at least 100 unread messages in your Postroom inbox."),
    ],
)  # fmt: skip
def test_the_prompt_is_a_fixed_text_with_a_number(seen: Look, how: str, begins: str) -> None:
    text = prompt(seen, how)
    assert text.startswith(begins)
    assert how in text
    assert "\n" not in text


# -- a watch -----------------------------------------------------------------------------------------------------


class Agent:
    """An inbox, and the command that reads it. `runs`: when each began and how much it was told of.

    `reads`: whether a run reads everything, at its end. `codes`: how the runs end, 0 unless it says otherwise.
    """

    def __init__(self, *, reads: bool = True) -> None:
        self.unread: set[str] = set()
        self.runs: list[tuple[float, int]] = []
        self.codes: list[int | None] = []
        self.looks = 0
        self.happened: list[Happening] = []
        self.faults: list[Exception] = []
        self.during: Callable[[], object] = lambda: None
        self._reads = reads
        self._running = 0

    async def look(self) -> Look:
        self.looks += 1
        await trio.lowlevel.checkpoint()
        if self.faults:
            raise self.faults.pop(0)
        return look(*self.unread)

    async def run(self, seen: Look) -> int | None:
        assert self._running == 0, "one run at a time"
        self._running += 1
        try:
            self.runs.append((trio.current_time(), seen.unread))
            self.during()
            await pass_time(RUN_SECONDS)
            code = self.codes.pop(0) if self.codes else 0
            if self._reads and code == 0:
                self.unread.clear()
            return code
        finally:
            self._running -= 1

    def told(self, kind: type[T]) -> list[T]:
        return [one for one in self.happened if isinstance(one, kind)]


def watch_of(agent: Agent, **terms: Any) -> Watch:
    made = Terms(debounce_seconds=DEBOUNCE_SECONDS, **terms)
    return Watch(agent.look, agent.run, agent.happened.append, made, jitter=lambda: 1.0)


@asynccontextmanager
async def watching(agent: Agent) -> AsyncIterator[Callable[[str], None]]:
    """Run a watch; gives what delivers a message and rings."""
    watch = watch_of(agent)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(watch.run)
        await trio.testing.wait_all_tasks_blocked()

        def deliver(message_id: str) -> None:
            agent.unread.add(message_id)
            watch.bell.ring()

        yield deliver
        nursery.cancel_scope.cancel()


Clock = trio.testing.MockClock


async def test_a_hundred_messages_are_one_run(autojump_clock: Clock) -> None:
    agent = Agent()
    async with watching(agent) as deliver:
        began = trio.current_time()
        for n in range(100):
            deliver(str(n))
            await pass_time(0.04)
        await pass_time(DAY_SECONDS)
        assert agent.runs == [(pytest.approx(began + DEBOUNCE_SECONDS), 100)]
        assert agent.looks < 10


async def test_what_was_there_before_the_watch_is_a_reason_to_run(autojump_clock: Clock) -> None:
    agent = Agent()
    agent.unread.add("old")
    async with watching(agent):
        await pass_time(DAY_SECONDS)
        assert [unread for _, unread in agent.runs] == [1]


async def test_what_is_read_before_the_run_makes_none(autojump_clock: Clock) -> None:
    agent = Agent()
    async with watching(agent) as deliver:
        deliver("a")
        await pass_time(DEBOUNCE_SECONDS / 2)
        agent.unread.clear()
        await pass_time(DAY_SECONDS)
        assert agent.runs == []


async def test_what_comes_during_a_run_makes_one_more_after_it(autojump_clock: Clock) -> None:
    agent = Agent(reads=False)
    async with watching(agent) as deliver:
        agent.during = lambda: deliver("during") if len(agent.runs) == 1 else None
        deliver("first")
        await pass_time(DAY_SECONDS)
        assert [unread for _, unread in agent.runs] == [1, 2]
        first, second = (began for began, _ in agent.runs)
        assert second == pytest.approx(first + RUN_SECONDS + DEBOUNCE_SECONDS)


async def test_what_comes_during_a_run_and_is_read_by_it_makes_none(autojump_clock: Clock) -> None:
    agent = Agent()
    async with watching(agent) as deliver:
        agent.during = lambda: deliver("during")
        deliver("first")
        await pass_time(DAY_SECONDS)
        assert len(agent.runs) == 1


async def test_mail_that_the_agent_leaves_alone_does_not_wake_it_again(autojump_clock: Clock) -> None:
    agent = Agent(reads=False)
    async with watching(agent) as deliver:
        deliver("a")
        await pass_time(DAY_SECONDS)
        assert len(agent.runs) == 1
        deliver("b")
        await pass_time(DAY_SECONDS)
        assert [unread for _, unread in agent.runs] == [1, 2]


async def test_a_server_that_is_away_is_waited_for_and_told_of(autojump_clock: Clock) -> None:
    agent = Agent()
    busy = Refused(503, "busy", "Later.", None, retry_after_seconds=7)
    async with watching(agent) as deliver:
        agent.faults = [Unreachable("away"), busy]
        began = trio.current_time()
        deliver("a")
        await pass_time(DAY_SECONDS)
        assert [one.seconds for one in agent.told(Lost)] == [2.0, 7.0]
        assert agent.runs == [(pytest.approx(began + 9 + DEBOUNCE_SECONDS), 1)]


async def test_a_refusal_for_good_ends_the_watch(autojump_clock: Clock) -> None:
    agent = Agent()
    agent.faults = [Refused(401, "unauthenticated", "No.", None)]
    with pytest.raises(Refused), trio.fail_after(DAY_SECONDS):
        await watch_of(agent).run()


async def test_a_failed_run_is_repeated_later_and_later_and_then_given_up(autojump_clock: Clock) -> None:
    agent = Agent()
    agent.unread.add("a")
    agent.codes = [1, None, 7]
    with trio.fail_after(DAY_SECONDS):
        said = await watch_of(agent, max_failures=3).run()
    assert said == "the command has failed 3 times in a row (exit code 7); it is not run again."
    began = [began for began, _ in agent.runs]
    pauses = [later - earlier - RUN_SECONDS for earlier, later in pairwise(began)]
    assert pauses == [pytest.approx(10), pytest.approx(20)]
    ran = [(one.exit_code, one.again_seconds) for one in agent.told(Ran)]
    assert ran == [(1, 10.0), (None, 20.0), (7, None)]


async def test_only_failures_in_a_row_count(autojump_clock: Clock) -> None:
    agent = Agent()
    async with watching(agent) as deliver:
        for n in range(4):
            agent.codes = [1, 1, 0]
            deliver(str(n))
            await pass_time(DAY_SECONDS)
        assert len(agent.runs) == 12


async def test_a_failed_run_that_has_read_everything_is_not_repeated(autojump_clock: Clock) -> None:
    agent = Agent()
    async with watching(agent) as deliver:
        agent.codes = [1]
        agent.during = agent.unread.clear
        deliver("a")
        await pass_time(DAY_SECONDS)
        assert len(agent.runs) == 1


@pytest.mark.parametrize(
    ("code", "said"), [(0, None), (None, "the command has failed once (it took too long)")]
)
async def test_once_is_once(code: int | None, said: str | None, autojump_clock: Clock) -> None:
    agent = Agent()
    agent.unread.add("a")
    agent.codes = [code]
    with trio.fail_after(DAY_SECONDS):
        ended = await watch_of(agent, once=True).run()
    assert ended is None if said is None else str(ended).startswith(said)
    assert len(agent.told(Running)) == len(agent.runs) == 1


async def test_without_a_stream_a_clock_rings(autojump_clock: Clock) -> None:
    agent = Agent()
    watch = watch_of(agent)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(watch.run)
        nursery.start_soon(ring_at_intervals, watch.bell, 10.0)
        await pass_time(100.5)
        assert agent.looks == 11
        nursery.cancel_scope.cancel()


async def test_a_stream_that_breaks_is_opened_again_and_rings_each_time(autojump_clock: Clock) -> None:
    watch = watch_of(Agent())
    told: list[Lost] = []
    endings: list[Exception | None] = [None, Unreachable("broken"), Refused(404, "not_found", "Gone.", None)]
    rung: list[bool] = []

    def listen(ring: Callable[[], object]) -> None:
        ring()
        rung.append(True)
        ending = endings.pop(0)
        if ending is not None:
            raise ending

    with pytest.raises(Refused, match="Gone"):  # bounded by its endings; a clock would jump over the threads
        await ring_at_events(watch.bell, listen, told.append, lambda: 1.0)
    assert len(rung) == 3
    assert [(one.reason, one.seconds) for one in told] == [("The stream ended.", 2.0), ("broken", 2.0)]
