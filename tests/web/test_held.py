"""What a wait holds: kept after a good end, let go of after a bad one, all of it and once."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import trio
import trio.testing

from web.held import Held
from web.limits import ClientGone
from web.waiting import unless_gone


class Client:
    """Somebody who may leave."""

    def __init__(self) -> None:
        self.gone = False
        self._tell: object = None

    def when_gone(self, tell: object) -> bool:
        """As a connection does."""
        self._tell = tell
        return self.gone

    def leave(self) -> None:
        """Hang up."""
        self.gone = True
        if callable(self._tell):
            self._tell()

    @property
    def is_listened_to(self) -> bool:
        """Whether somebody would hear of it."""
        return self._tell is not None


@contextmanager
def noting(name: str, left: list[str], *, fails: bool = False) -> Iterator[str]:
    yield name
    left.append(name)
    if fails:
        raise OSError(name)


def test_what_is_held_is_let_go_of_once_and_backwards() -> None:
    left: list[str] = []
    with Held() as held:
        assert [held.enter(noting(name, left)) for name in "abc"] == ["a", "b", "c"]
    assert left == []
    held.close()
    held.close()
    assert left == ["c", "b", "a"]


def test_an_exception_lets_go_of_everything_and_passes() -> None:
    left: list[str] = []
    with pytest.raises(ValueError, match="invalid literal"), Held() as held:
        int(held.enter(noting("a", left)))
    assert left == ["a"]


def test_one_that_fails_to_let_go_does_not_keep_the_others() -> None:
    left: list[str] = []
    with Held() as held:
        held.enter(noting("a", left))
        held.enter(noting("b", left, fails=True))
    with pytest.raises(OSError, match="b"):
        held.close()
    assert left == ["b", "a"]


async def test_work_that_is_done_before_its_client_leaves_has_its_result() -> None:
    client = Client()

    async def work() -> int:
        assert client.is_listened_to
        await trio.lowlevel.checkpoint()
        return 7

    assert await unless_gone(client.when_gone, work) == 7
    assert not client.is_listened_to


async def test_a_client_that_leaves_ends_the_work_at_once(autojump_clock: trio.testing.MockClock) -> None:
    client = Client()
    async with trio.open_nursery() as nursery:

        async def leaving() -> None:
            await trio.testing.wait_all_tasks_blocked()
            client.leave()

        nursery.start_soon(leaving)
        with pytest.raises(ClientGone):
            await unless_gone(client.when_gone, trio.sleep_forever)
    assert trio.current_time() == 0
    assert not client.is_listened_to


async def test_a_client_that_has_left_before_is_heard_of_too() -> None:
    client = Client()
    client.leave()
    with pytest.raises(ClientGone):
        await unless_gone(client.when_gone, trio.sleep_forever)


async def test_what_the_work_raises_is_what_the_caller_gets() -> None:
    async def work() -> None:
        raise KeyError("seq")

    with pytest.raises(KeyError, match="seq"):
        await unless_gone(Client().when_gone, work)
