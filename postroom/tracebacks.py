"""Tracebacks for the log: which exceptions, raised where, and not a word of what they say.

The message of an exception often repeats what was being handled (`int(b"…")`, a key that is missing, a text that is no
UTF-8), and that may be somebody's message or secret. So there are types, places and lines of source; of the locals of
frames, nothing either. What the operating system says is kept, without the name of the file.
"""

import traceback
from collections.abc import Iterator
from types import TracebackType
from typing import Any

import msgspec

ExceptionInfo = tuple[type[BaseException], BaseException, TracebackType | None]

HEAD = "Traceback (most recent call last):\n"
BETWEEN = {
    True: "\nThe above exception was the direct cause of the following exception:\n\n",
    False: "\nDuring handling of the above exception, another exception occurred:\n\n",
}
INDENT = "  | "


class Frame(msgspec.Struct, frozen=True):
    """One frame of a traceback: where it was, and the line of source."""

    filename: str
    lineno: int
    name: str
    line: str


class Raised(msgspec.Struct, frozen=True):
    """One exception. `is_cause`: of the next one, that was raised from it; else that was raised while it was handled.
    `exceptions`: those of a group, each with what led to it.
    """

    exc_type: str
    exc_value: str
    frames: list[Frame]
    is_cause: bool = False
    exceptions: list[list["Raised"]] = []


def raised(error: BaseException) -> list[Raised]:
    """Return an exception with those that led to it, the first one first."""
    chain = list(_chain(error))
    return [
        _one(one, is_cause=place + 1 < len(chain) and chain[place + 1].__cause__ is one)
        for place, one in enumerate(chain)
    ]


def as_json(exc_info: ExceptionInfo) -> Any:
    """Return a traceback as JSON can carry it. A formatter of structlog's."""
    return msgspec.to_builtins(raised(exc_info[1]))


def as_text(exc_info: ExceptionInfo) -> str:
    """Return a traceback as Python prints one. A formatter of structlog's."""
    return _text(raised(exc_info[1])).rstrip("\n")


def _chain(error: BaseException) -> Iterator[BaseException]:
    found: list[BaseException] = []
    at: BaseException | None = error
    while at is not None and at not in found:
        found.append(at)
        at = at.__cause__ if at.__cause__ is not None or at.__suppress_context__ else at.__context__
    return reversed(found)


def _one(error: BaseException, *, is_cause: bool) -> Raised:
    summary = traceback.extract_tb(error.__traceback__)
    return Raised(
        type(error).__qualname__,
        (error.strerror or "") if isinstance(error, OSError) else "",
        [Frame(frame.filename, frame.lineno or 0, frame.name, frame.line or "") for frame in summary],
        is_cause,
        [raised(inner) for inner in error.exceptions] if isinstance(error, BaseExceptionGroup) else [],
    )


def _text(chain: list[Raised]) -> str:
    parts: list[str] = []
    for one in chain:
        frames = "".join(
            f'  File "{frame.filename}", line {frame.lineno}, in {frame.name}\n'
            + (f"    {frame.line}\n" if frame.line else "")
            for frame in one.frames
        )
        parts += [HEAD, frames, one.exc_type, f": {one.exc_value}" if one.exc_value else "", "\n"]
        for inner in one.exceptions:
            parts += [INDENT + line + "\n" for line in _text(inner).splitlines()]
        if one is not chain[-1]:
            parts.append(BETWEEN[one.is_cause])
    return "".join(parts)
