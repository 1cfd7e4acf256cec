"""A disk that fails when told: a SQLite VFS in Python over the real one.

Faults are armed by a test and name the operation (`open`, `read`, `write`, `sync`, `truncate`), the file by the end of
its name (`""` any, `.db` the database, `-wal` the log), how many such operations still succeed and how many fail then.
A write may fail after half of it was written (`short_write`, `short_and_full`). A `capacity` makes writes beyond so
many bytes of all files fail as a full disk does. What is left after a power cut is `tests/storage/power/`.
"""

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import apsw

ALWAYS = 1 << 30

_names = itertools.count(1)


def full() -> apsw.Error:
    """Return the error of a full disk."""
    return apsw.FullError("no room")


def io_error() -> apsw.Error:
    """Return the error of a disk that cannot write."""
    error = apsw.IOError("broken disk")
    error.extendedresult = apsw.SQLITE_IOERR_WRITE  # type: ignore[attr-defined]  # set by name, read by apsw
    return error


class ShortWrite(apsw.IOError):
    """A write that the disk broke off: half of it is in the file."""

    extendedresult = apsw.SQLITE_IOERR_WRITE


class ShortAndFull(apsw.FullError):
    """A write that the disk had room for half of."""


def short_write() -> apsw.Error:
    """Return the error of a write that was broken off."""
    return ShortWrite("broken off")


def short_and_full() -> apsw.Error:
    """Return the error of a write that filled the disk."""
    return ShortAndFull("no room for all of it")


@dataclass
class Fault:
    """One armed fault."""

    operation: str
    file: str
    error: Callable[[], apsw.Error]
    after: int = 0
    times: int = 1


class FaultyDisk(apsw.VFS):
    """The VFS. Its `name` is what a connection's `vfs` takes; `done` lists the operations that succeeded."""

    def __init__(self) -> None:
        self.name = f"faulty-{next(_names)}"
        self.faults: list[Fault] = []
        self.done: list[tuple[str, str]] = []
        self.capacity: int | None = None
        self.sizes: dict[str, int] = {}
        self.bytes_read = 0
        self.reserve: Path | None = None
        super().__init__(self.name, "")

    def fail(
        self, operation: str, file: str = "", error: Any = io_error, *, after: int = 0, times: int = 1
    ) -> None:
        """Arm a fault: `after` more operations succeed, then `times` fail."""
        self.faults.append(Fault(operation, file, error, after, times))

    def heal(self) -> None:
        """Disarm every fault and forget what was done."""
        self.faults.clear()
        self.done.clear()

    def used(self) -> int:
        """Return the bytes of all files together, those of the reserve included, which no VFS writes."""
        reserve = self.reserve.stat().st_size if self.reserve is not None and self.reserve.exists() else 0
        return sum(self.sizes.values()) + reserve

    def free(self, _: Path) -> int:
        """Return what is left of the capacity, as `open_store(free_bytes=…)` asks for it."""
        return (self.capacity if self.capacity is not None else 1 << 40) - self.used()

    def meet(self, operation: str, path: str) -> None:
        """Let an operation succeed or raise."""
        for fault in self.faults:
            if fault.operation == operation and path.endswith(fault.file) and fault.times:
                if fault.after:
                    fault.after -= 1
                else:
                    fault.times -= 1
                    raise fault.error()
        self.done.append((operation, Path(path).suffix))

    def xOpen(self, name: Any, flags: list[int]) -> "FaultyFile":
        path = str(name.filename()) if isinstance(name, apsw.URIFilename) else str(name)
        self.meet("open", path)
        return FaultyFile(self, name, flags, path)


class FaultyFile(apsw.VFSFile):
    """A file on the disk that fails when told."""

    def __init__(self, disk: FaultyDisk, name: Any, flags: list[int], path: str) -> None:
        self._disk = disk
        self._path = path
        super().__init__("", name, flags)
        disk.sizes[path] = super().xFileSize()

    def xRead(self, amount: int, offset: int) -> bytes:
        self._disk.bytes_read += amount
        self._disk.meet("read", self._path)
        return super().xRead(amount, offset)

    def xWrite(self, data: bytes, offset: int) -> None:
        try:
            self._disk.meet("write", self._path)
        except (ShortWrite, ShortAndFull):
            self.put(data[: len(data) // 2], offset)
            raise
        end = offset + len(data)
        grown = max(0, end - self._disk.sizes[self._path])
        if self._disk.capacity is not None and grown and self._disk.used() + grown > self._disk.capacity:
            raise full()
        self.put(data, offset)

    def put(self, data: bytes, offset: int) -> None:
        """Write, whatever is armed."""
        super().xWrite(data, offset)
        self._disk.sizes[self._path] = max(self._disk.sizes[self._path], offset + len(data))

    def xTruncate(self, size: int) -> None:
        self._disk.meet("truncate", self._path)
        self.cut_off(size)

    def cut_off(self, size: int) -> None:
        """Truncate, whatever is armed."""
        super().xTruncate(size)
        self._disk.sizes[self._path] = min(size, self._disk.sizes[self._path])

    def xSync(self, flags: int) -> None:
        self._disk.meet("sync", self._path)
        super().xSync(flags)
