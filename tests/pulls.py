"""Conversations with `pull_inbox`, call by call: what each must answer, whatever carries it (MCP, REST, gRPC).

Items are given by their seq. Every row is seeded with its score; those that are not `shown` lie outside the reader's
scope.
"""

from typing import Any, NamedTuple

MAX_BATCH = 4
"""The cap of the server in all of them."""


class Seed(NamedTuple):
    """A row of the inbox."""

    seq: int
    score: float
    shown: bool = True


class Step(NamedTuple):
    """A call with its arguments, and its answer."""

    call: dict[str, int]
    items: tuple[int, ...]
    cursor: int
    window_high: int
    has_more: bool

    @property
    def answer(self) -> dict[str, Any]:
        """The answer with the items by seq."""
        return {
            "items": list(self.items),
            "cursor": self.cursor,
            "window_high": self.window_high,
            "has_more": self.has_more,
        }


class Conversation(NamedTuple):
    """One inbox and the calls on it. `acked`: seqs that were acknowledged by id before."""

    name: str
    rows: tuple[Seed, ...]
    steps: tuple[Step, ...]
    acked: tuple[int, ...] = ()


CONVERSATIONS = (
    Conversation(
        "drain with two rows outside the read scope",
        (
            Seed(1, 0.1),
            Seed(2, 0.2),
            Seed(3, 0.3),
            Seed(4, 0.4, False),
            Seed(5, 0.5),
            Seed(6, 0.6),
            Seed(7, 0.7),
            Seed(8, 0.8, False),
            Seed(9, 0.9),
        ),
        (
            Step({}, (3, 2, 1), 0, 4, True),
            Step({"ack": 4}, (7, 6, 5), 4, 8, True),
            Step({"ack": 8}, (9,), 8, 9, False),
            Step({"ack": 9}, (), 9, 9, False),
            Step({"since": 0}, (3, 2, 1), 9, 4, True),
            Step({"ack": 2}, (), 9, 9, False),
        ),
    ),
    Conversation(
        "a runaway ack advances one window a call",
        (
            Seed(1, 0.1),
            Seed(2, 0.2),
            Seed(3, 0.3),
            Seed(4, 0.4, False),
            Seed(5, 0.5),
            Seed(6, 0.6),
            Seed(7, 0.7),
            Seed(8, 0.8, False),
            Seed(9, 0.9),
        ),
        (
            Step({"ack": 1000000000}, (7, 6, 5), 4, 8, True),
            Step({"ack": 1000000000}, (9,), 8, 9, False),
            Step({"ack": 1000000000}, (), 9, 9, False),
        ),
    ),
    Conversation(
        "acknowledging the newest item instead of window_high leaves the filtered row to be scanned again",
        (
            Seed(1, 0.1),
            Seed(2, 0.2),
            Seed(3, 0.3),
            Seed(4, 0.4, False),
            Seed(5, 0.5),
            Seed(6, 0.6),
            Seed(7, 0.7),
            Seed(8, 0.8, False),
            Seed(9, 0.9),
        ),
        (
            Step({}, (3, 2, 1), 0, 4, True),
            Step({"ack": 3}, (7, 6, 5), 3, 7, True),
            Step({}, (7, 6, 5), 3, 7, True),
        ),
    ),
    Conversation(
        "an honest client that shrinks its limit is not clamped",
        (
            Seed(1, 0.1),
            Seed(2, 0.2),
            Seed(3, 0.3),
            Seed(4, 0.4),
            Seed(5, 0.5),
            Seed(6, 0.6),
            Seed(7, 0.7),
            Seed(8, 0.8),
            Seed(9, 0.9),
        ),
        (
            Step({}, (4, 3, 2, 1), 0, 4, True),
            Step({"ack": 4, "limit": 1}, (5,), 4, 5, True),
            Step({"ack": 5, "limit": 1}, (6,), 5, 6, True),
            Step({"ack": 6}, (9, 8, 7), 6, 9, False),
        ),
    ),
    Conversation(
        "a whole window outside the scope: empty page, more waiting",
        (
            Seed(1, 0.1, False),
            Seed(2, 0.2, False),
            Seed(3, 0.3, False),
            Seed(4, 0.4, False),
            Seed(5, 0.5),
            Seed(6, 0.6),
            Seed(7, 0.7),
            Seed(8, 0.8),
            Seed(9, 0.9),
        ),
        (
            Step({}, (), 0, 4, True),
            Step({"ack": 4}, (8, 7, 6, 5), 4, 8, True),
            Step({"ack": 8}, (9,), 8, 9, False),
            Step({"ack": 9}, (), 9, 9, False),
        ),
    ),
    Conversation(
        "acked by id: left out of pages, shown again by since",
        (
            Seed(1, 0.1),
            Seed(2, 0.2),
            Seed(3, 0.3),
            Seed(4, 0.4),
        ),
        (
            Step({}, (4, 1), 0, 4, False),
            Step({"since": 0}, (4, 3, 2, 1), 0, 4, False),
            Step({"ack": 4}, (), 4, 4, False),
        ),
        acked=(2, 3),
    ),
    Conversation(
        "an empty inbox",
        (),
        (
            Step({}, (), 0, 0, False),
            Step({"ack": 7}, (), 0, 0, False),
            Step({"since": 5}, (), 0, 0, False),
        ),
    ),
    Conversation(
        "limit above the cap is clamped down",
        (
            Seed(1, 0.1),
            Seed(2, 0.2),
            Seed(3, 0.3),
            Seed(4, 0.4),
            Seed(5, 0.5),
            Seed(6, 0.6),
            Seed(7, 0.7),
            Seed(8, 0.8),
            Seed(9, 0.9),
        ),
        (Step({"limit": 1000}, (4, 3, 2, 1), 0, 4, True),),
    ),
    Conversation(
        "a high since cannot bury what was never examined",
        (
            Seed(1, 0.1),
            Seed(2, 0.2),
            Seed(3, 0.3),
            Seed(4, 0.4),
            Seed(5, 0.5),
            Seed(6, 0.6),
            Seed(7, 0.7),
            Seed(8, 0.8),
            Seed(9, 0.9),
        ),
        (
            Step({"since": 5}, (9, 8, 7, 6), 0, 9, False),
            Step({"ack": 9}, (8, 7, 6, 5), 4, 8, True),
            Step({}, (8, 7, 6, 5), 4, 8, True),
        ),
    ),
    Conversation(
        "re-reading from zero does not lower what was served",
        (
            Seed(1, 0.1),
            Seed(2, 0.2),
            Seed(3, 0.3),
            Seed(4, 0.4),
            Seed(5, 0.5),
            Seed(6, 0.6),
            Seed(7, 0.7),
            Seed(8, 0.8),
            Seed(9, 0.9),
        ),
        (
            Step({}, (4, 3, 2, 1), 0, 4, True),
            Step({"ack": 4}, (8, 7, 6, 5), 4, 8, True),
            Step({"since": 0}, (4, 3, 2, 1), 4, 4, True),
            Step({"ack": 8}, (9,), 8, 9, False),
        ),
    ),
    Conversation(
        "equal scores keep sequence order",
        (
            Seed(1, 0.5),
            Seed(2, 0.5),
            Seed(3, 0.5),
            Seed(4, 0.5),
        ),
        (Step({}, (1, 2, 3, 4), 0, 4, False),),
    ),
)
