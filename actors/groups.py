"""Watchers that are to hear of the same thing together: a token, a session, a call that may be cancelled.

A group is there for as long as somebody is in it. All of it is synchronous and owned by the event loop.
"""

from collections.abc import Hashable
from types import TracebackType
from typing import Generic, TypeVar

from actors.watchers import Watcher

K = TypeVar("K", bound=Hashable)


class Groups(Generic[K]):
    """Groups of watchers, by what they hear of."""

    def __init__(self) -> None:
        self._by_key: dict[K, set[Watcher]] = {}

    def __len__(self) -> int:
        """Return how many groups there are."""
        return len(self._by_key)

    def of(self, key: K) -> list[Watcher]:
        """Return who is in a group now, in no order: a list, so that waking may change the group."""
        return list(self._by_key.get(key, ()))

    def member(self, key: K, watcher: Watcher) -> "Member[K]":
        """Put a watcher into a group; leaving what is returned takes it out."""
        self._by_key.setdefault(key, set()).add(watcher)
        return Member(self, key, watcher)

    def _leave(self, key: K, watcher: Watcher) -> None:
        group = self._by_key.get(key)
        if group is not None:
            group.discard(watcher)
            if not group:
                del self._by_key[key]


class Member(Generic[K]):
    """A watcher's place in a group. A context manager without a generator: each of ten thousand waits keeps one."""

    __slots__ = ("_groups", "_key", "_watcher")

    def __init__(self, groups: Groups[K], key: K, watcher: Watcher) -> None:
        self._groups = groups
        self._key = key
        self._watcher = watcher

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._groups._leave(self._key, self._watcher)
