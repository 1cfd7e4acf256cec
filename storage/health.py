"""How the store is: plain attributes, written by its threads one by one, read from anywhere without a lock."""

from typing import Literal

StoreState = Literal["open", "full", "degraded", "closed"]


class StoreHealth:
    """State for `/readyz` and counters for metrics; `storage.protocols.Health` plus what SQLite can tell.

    Counters count from the start of the process. `batch_units` / `commits` is the mean size of a transaction,
    `read_looks` / `read_batches` that of a drained batch of reads.
    """

    __slots__ = (
        "batch_units",
        "batch_units_max",
        "checkpoint_errors",
        "checkpoints",
        "commits",
        "database_bytes",
        "lost_transactions",
        "read_batches",
        "read_looks",
        "readers_reopened",
        "reason",
        "refused_full",
        "reopened",
        "state",
        "unknown_commits",
        "wal_bytes",
    )

    def __init__(self) -> None:
        self.state: str = "open"
        self.reason = ""
        self.commits = 0
        self.database_bytes = 0
        self.wal_bytes = 0
        self.batch_units = 0
        self.batch_units_max = 0
        self.lost_transactions = 0
        self.unknown_commits = 0
        self.reopened = 0
        self.refused_full = 0
        self.checkpoints = 0
        self.checkpoint_errors = 0
        self.read_batches = 0
        self.read_looks = 0
        self.readers_reopened = 0

    def become(self, state: StoreState, reason: str = "") -> None:
        """Change the state; `reason` is one sentence without paths."""
        self.reason = reason
        self.state = state
