"""The settings that storage needs, already parsed. `postroom.config` fills this in; names carry their unit."""

from pathlib import Path
from typing import Literal

import msgspec

from storage.secret import SecretBytes


class StorageOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Where and how to keep the database.

    `reserve_bytes`: size of the file that is given up when the disk is full (S3), twice the WAL limit.
    `max_data_bytes`: refuse growth beyond this size of the database, None for no limit.
    `detect_copies`: `counter` passes over device and inode, for file systems that change them (`storage.life`).
    `secret_key`: seals the secrets of inboxes (`storage.sealing`); None keeps them plain.
    """

    data_dir: Path
    wal_limit_bytes: int = 16 * 1024 * 1024
    reserve_bytes: int = 32 * 1024 * 1024
    max_data_bytes: int | None = None
    max_concurrent_reads: int = 16
    read_slot_timeout_seconds: float = 10.0
    detect_copies: Literal["full", "counter"] = "full"
    secret_key: SecretBytes | None = None
