"""What a wait or a stream holds until its answer has been sent: a slot, its place in a crowd, the ears of its token.

`contextlib.ExitStack` for those who stay: its deque and the closure around each callback are a kilobyte for every one
of ten thousand waits.
"""

from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any, Self, TypeVar

T = TypeVar("T")


class Held:
    """Context managers that have been entered, in order. Left by an exception it lets go of them all; else they are
    held until `close`.
    """

    __slots__ = ("_entered",)

    def __init__(self) -> None:
        self._entered: list[AbstractContextManager[Any]] = []

    def enter(self, manager: AbstractContextManager[T]) -> T:
        """Enter a context manager and return what it gives."""
        entered = manager.__enter__()
        self._entered.append(manager)
        return entered

    def close(self) -> None:
        """Leave them, the last one first. The second time does nothing."""
        try:
            while self._entered:
                self._entered.pop().__exit__(None, None, None)
        finally:
            if self._entered:  # one of them has raised
                self.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            self.close()
