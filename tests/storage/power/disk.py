"""A disk whose power can be cut: `FaultyDisk` that knows of every file what was synced and what was not.

The real files hold what the page cache would; beside them each has an `Image`. `cut_after(n)` lets so many changes
succeed (writes, syncs, truncations, deletions, new files), or changes of one kind; during the next one the power fails,
and from then on every operation does. `left()` then draws what the disk has, and `power_on` lays that into the
directory. SQLite's index of the log (`-shm`) lives in memory that a power cut empties, so it is never there after one.

What syncs a directory is what SQLite's own VFS does: the first sync of a journal or log that was opened to be created,
and a deletion that asks for it. A sync of a file makes its content durable and not its name. The syncs themselves are
not handed on: no power is cut here, and they would take time.

`storage/lifefile.py` writes its file past SQLite; `Calls` stands for its `os` and takes the same way through the disk.
"""

import errno
import os
import random
from pathlib import Path
from typing import Any

import apsw
import pytest

from storage.lifefile import LIFE_NAME
from storage.lock import DATABASE_NAME
from tests.storage.faulty_vfs import FaultyDisk, FaultyFile, io_error
from tests.storage.power.image import Change, Folder, Image, Renaming

KEPT = (DATABASE_NAME, f"{DATABASE_NAME}-wal", f"{DATABASE_NAME}-journal", LIFE_NAME, f"{LIFE_NAME}.new")
"""The files of a data directory that are worth something."""

SYNC_NAMES = apsw.SQLITE_OPEN_WAL | apsw.SQLITE_OPEN_MAIN_JOURNAL | apsw.SQLITE_OPEN_SUPER_JOURNAL
"""Kinds of file whose first sync also syncs their directory."""


class PowerDisk(FaultyDisk):
    """The disk under one data directory."""

    def __init__(self, directory: Path, seed: int) -> None:
        super().__init__()
        self.directory = directory
        self.folder = Folder()
        self.dead = False
        self.changes = 0
        self.cut_in = ""
        self._rng = random.Random(seed)
        self._until_cut: int | None = None
        self._counted = ""

    # -- the power ----------------------------------------------------------------------------------------------
    def cut_after(self, changes: int | None, kind: str = "") -> None:
        """Cut the power during the change, of one kind or of any, that follows so many more; None: not by itself."""
        self._until_cut, self._counted = changes, kind

    def step(self, what: str, path: str) -> bool:
        """Count a change; True when the power fails during it. Raises `apsw.IOError` without power."""
        if self.dead:
            raise io_error()
        self.changes += 1
        if self._until_cut is None or (self._counted or what) != what:
            return False
        self._until_cut -= 1
        self.dead = self._until_cut < 0
        if self.dead:
            self.cut_in = f"{what} {Path(path).name}"
        return self.dead

    def partly(self) -> bool:
        """Whether the change during which the power fails reached the page cache."""
        return self._rng.random() < 0.5

    def left(self) -> dict[str, bytes]:
        """Cut the power, unless it is, and return what the disk has, by name."""
        self.dead = True
        return self.folder.after_a_cut(self._rng)

    def cached(self) -> dict[str, bytes]:
        """Return what the files hold for whoever asks the system, whether or not it was synced."""
        return {name: self.path(name).read_bytes() for name in KEPT if self.path(name).exists()}

    def power_on(self, files: dict[str, bytes]) -> None:
        """Lay files into the directory, in the same inodes where they are, and let the disk work again."""
        for name in KEPT:
            if name not in files:
                self.path(name).unlink(missing_ok=True)
            else:
                with self.path(name).open("r+b" if self.path(name).exists() else "wb") as file:
                    file.write(files[name])
                    file.truncate()
        self.path(f"{DATABASE_NAME}-shm").unlink(missing_ok=True)
        self.folder.found(files)
        self.heal()
        self.sizes.clear()
        self._until_cut, self.dead, self.cut_in = None, False, ""

    # -- files ----------------------------------------------------------------------------------------------------
    def path(self, name: str) -> Path:
        """Return where a file of the directory is."""
        return self.directory / name

    def image(self, path: str) -> Image | None:
        """Return the image of a file, a new one for a file that came by another way; None: it is not looked after."""
        file = Path(path)
        if file.parent != self.directory or file.name not in KEPT:
            return None
        if file.name not in self.folder.names and file.exists():
            self.folder.change(Renaming(file.name, Image(bytearray(file.read_bytes()))))
        return self.folder.names.get(file.name)

    def create(self, path: str) -> Image | None:
        """Return the image of a file that is about to be opened and made if there is none."""
        image = self.image(path)
        if image is None and Path(path).parent == self.directory and Path(path).name in KEPT:
            if self.step("create", path):
                raise io_error()
            image = Image()
            self.folder.change(Renaming(Path(path).name, image))
        return image

    def xOpen(self, name: Any, flags: list[int]) -> "PowerFile":
        path = str(name.filename()) if isinstance(name, apsw.URIFilename) else str(name)
        if self.dead:
            raise apsw.CantOpenError("no power")
        self.meet("open", path)
        image = self.create(path) if flags[0] & apsw.SQLITE_OPEN_CREATE else self.image(path)
        return PowerFile(self, name, flags, path, image)

    def xDelete(self, filename: str, syncdir: bool) -> None:
        self.meet("delete", filename)
        if self.image(filename) is None:
            super().xDelete(filename, syncdir)
            return
        cut = self.step("delete", filename)
        if not cut or self.partly():
            super().xDelete(filename, syncdir)
            self.folder.change(Renaming(Path(filename).name, None))
        if cut:
            raise io_error()
        if syncdir:
            self.folder.sync()

    def forget(self, image: Image) -> None:
        """Let a sync fail."""
        image.forget(self._rng)


class PowerFile(FaultyFile):
    """A file on it; `image` None: one that is not looked after."""

    def __init__(self, disk: PowerDisk, name: Any, flags: list[int], path: str, image: Image | None) -> None:
        asked = flags[0]
        super().__init__(disk, name, flags, path)
        self._power = disk
        self._image = image
        self._syncs_names = bool(asked & apsw.SQLITE_OPEN_CREATE and asked & SYNC_NAMES)

    def xRead(self, amount: int, offset: int) -> bytes:
        if self._power.dead:
            raise io_error()
        return super().xRead(amount, offset)

    def xWrite(self, data: bytes, offset: int) -> None:
        if self._image is not None and self._power.step("write", self._path):
            if self._power.partly():
                self.put(data, offset)
            raise io_error()
        super().xWrite(data, offset)

    def put(self, data: bytes, offset: int) -> None:
        super().put(data, offset)
        if self._image is not None:
            self._image.pending.append(Change(offset, bytes(data)))

    def xTruncate(self, size: int) -> None:
        if self._image is not None and self._power.step("truncate", self._path):
            if self._power.partly():
                self.cut_off(size)
            raise io_error()
        super().xTruncate(size)

    def cut_off(self, size: int) -> None:
        super().cut_off(size)
        if self._image is not None:
            self._image.pending.append(Change(size))

    def xSync(self, flags: int) -> None:
        if self._image is None:
            return
        if self._power.step("sync", self._path):
            raise io_error()
        try:
            self._power.meet("sync", self._path)
        except apsw.Error:
            self._power.forget(self._image)
            raise
        self._image.sync()
        if self._syncs_names:
            self._power.folder.sync()
            self._syncs_names = False


class Calls:
    """`os` for a module that writes a file of the directory past SQLite: the same calls, by way of the disk."""

    def __init__(self, disk: PowerDisk) -> None:
        self._disk = disk
        self._open: dict[int, tuple[str, Image | None]] = {}
        self._at: dict[int, int] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)

    def open(self, path: Path, flags: int, mode: int = 0o777) -> int:
        image = self._disk.create(str(path)) if flags & os.O_CREAT else self._disk.image(str(path))
        fd = os.open(path, flags, mode)
        self._open[fd], self._at[fd] = (str(path), image), 0
        if image is not None and flags & os.O_TRUNC:
            image.pending.append(Change(0))
        return fd

    def close(self, fd: int) -> None:
        del self._open[fd], self._at[fd]
        os.close(fd)

    def write(self, fd: int, data: bytes) -> int:
        self.pwrite(fd, data, self._at[fd])
        self._at[fd] += len(data)
        return len(data)

    def pwrite(self, fd: int, data: bytes, offset: int) -> int:
        path, image = self._open[fd]
        if image is None:
            return os.pwrite(fd, data, offset)
        cut = self._step("write", path)
        if not cut or self._disk.partly():
            os.pwrite(fd, data, offset)
            image.pending.append(Change(offset, bytes(data)))
        if cut:
            raise no_power()
        return len(data)

    def fsync(self, fd: int) -> None:
        path, image = self._open[fd]
        if image is None and Path(path) != self._disk.directory:
            return
        if self._step("sync", path):
            raise no_power()
        if image is None:
            self._disk.folder.sync()
        else:
            image.sync()

    def replace(self, file: Path, target: Path) -> Path:
        """`Path.replace`."""
        image = self._disk.image(str(file))
        if image is None:
            return _replace(file, target)
        cut = self._step("rename", str(file))
        if not cut or self._disk.partly():
            _replace(file, target)
            self._disk.folder.change(Renaming(target.name, image, also_gone=file.name))
        if cut:
            raise no_power()
        return target

    def _step(self, what: str, path: str) -> bool:
        try:
            return self._disk.step(what, path)
        except apsw.IOError as exc:
            raise no_power() from exc


_replace = Path.replace


def no_power() -> OSError:
    """Return the error of a call to a disk without power."""
    return OSError(errno.EIO, os.strerror(errno.EIO))


def lead_through(disk: PowerDisk, patch: pytest.MonkeyPatch) -> None:
    """Let the life file be written by way of the disk."""
    calls = Calls(disk)
    patch.setattr("storage.lifefile.os", calls)
    patch.setattr(Path, "replace", lambda file, target: calls.replace(file, Path(target)))
