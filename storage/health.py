"""How the store is: plain attributes, written by its threads one by one, read from anywhere without a lock."""

from typing import Literal

from storage.histogram import Histogram

TRANSACTION_UNITS = (1, 2, 4, 8, 16, 32, 64, 128, 256)
"""Bounds of the sizes of transactions, in units; `storage.lanes` puts at most 256 into one."""

TRANSACTION_SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0)
"""Bounds of what a transaction takes, and of the sync at its end: from a fast SSD to a disk that hangs."""

READ_SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 10.0)
"""Bounds of what a read takes, from asking for a slot; after 10 s by default it is refused."""

StoreState = Literal["open", "full", "degraded", "closed"]


class StoreHealth:
    """State for `/readyz` and counters for metrics; `storage.protocols.Health` plus what SQLite can tell.

    Counters count from the start of the process; `read_looks` / `read_batches` is the mean size of a drained batch of
    reads.
    """

    __slots__ = (
        "batch_units_max",
        "checkpoint_errors",
        "checkpoints",
        "commit_seconds",
        "database_bytes",
        "lost_transactions",
        "read_batches",
        "read_looks",
        "read_seconds",
        "readers_reopened",
        "reads_refused",
        "reason",
        "refused_full",
        "reopened",
        "state",
        "transaction_seconds",
        "transaction_units",
        "unknown_commits",
        "wal_bytes",
    )

    def __init__(self) -> None:
        self.state: str = "open"
        self.reason = ""
        self.database_bytes = 0
        self.wal_bytes = 0
        self.transaction_units = Histogram(TRANSACTION_UNITS)
        self.transaction_seconds = Histogram(TRANSACTION_SECONDS)
        self.commit_seconds = Histogram(TRANSACTION_SECONDS)
        self.read_seconds = Histogram(READ_SECONDS)
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
        self.reads_refused = 0

    @property
    def commits(self) -> int:
        """Transactions committed."""
        return self.transaction_units.count

    @property
    def batch_units(self) -> int:
        """Units in them."""
        return int(self.transaction_units.total)

    def committed(self, units: int, *, seconds: float, commit_seconds: float) -> None:
        """Count a transaction that took so long, of which its COMMIT took `commit_seconds`."""
        self.transaction_units.add(units)
        self.transaction_seconds.add(seconds)
        self.commit_seconds.add(commit_seconds)
        self.batch_units_max = max(self.batch_units_max, units)

    def become(self, state: StoreState, reason: str = "") -> None:
        """Change the state; `reason` is one sentence without paths."""
        self.reason = reason
        self.state = state
