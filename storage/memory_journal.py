"""Changes of the in-memory store that can be taken back.

Every change writes down first how to take it back, so that undoing a unit costs what the unit did and not
what the store holds.
"""

from collections.abc import Callable
from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")


class Journal:
    """What was done, so that `undo` can take it back."""

    def __init__(self) -> None:
        self._journal: list[Callable[[], object]] = []

    def undo(self) -> None:
        """Take everything back, last change first."""
        while self._journal:
            self._journal.pop()()

    def _note(self, back: Callable[[], object]) -> None:
        self._journal.append(back)

    def _set(self, of: object, name: str, value: object) -> None:
        before = getattr(of, name)
        self._journal.append(lambda: setattr(of, name, before))
        setattr(of, name, value)

    def _insert(self, into: dict[K, V], key: K, value: V) -> None:
        if key in into:
            before = into[key]
            self._journal.append(lambda: into.__setitem__(key, before))
        else:
            self._journal.append(lambda: into.pop(key))
        into[key] = value

    def _remove(self, of: dict[K, V], key: K) -> None:
        before = of.pop(key)
        self._journal.append(lambda: of.__setitem__(key, before))
