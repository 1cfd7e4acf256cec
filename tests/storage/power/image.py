"""What of a file is on the disk for certain, and what may be: pure values that know neither SQLite nor any file.

A write or truncation stands in the page cache until the next sync that succeeds. When the power fails before that, the
disk may have none of them, all of them, or parts: each sector that a write touched by itself, whatever the order of the
writes was. A sector is never half old and half new where a write did not touch it (SQLite assumes as much, and calls it
powersafe overwrite); what lies between the old end of a file and a part that arrived is zeros or rubbish.
"""

import random
from dataclasses import dataclass, field
from typing import Literal

Fate = Literal["lost", "kept", "torn"]
"""What becomes of what was not synced: none of it arrives, all of it does, or some sectors do."""

FATES: tuple[Fate, ...] = ("lost", "kept", "torn", "torn")
"""From which a file's is drawn: torn ones find the most."""

SECTORS = (512, 4_096)
"""Sizes of sectors in bytes, old and new."""


@dataclass(frozen=True)
class Change:
    """One write (`data` at `offset`), or, without data, one truncation to `offset` bytes."""

    offset: int
    data: bytes | None = None

    def sectors(self, size: int) -> list["Change"]:
        """Return the write as one for each sector that it touches; a truncation as it is."""
        if self.data is None:
            return [self]
        parts, start, end = [], self.offset, self.offset + len(self.data)
        while start < end:
            stop = min(end, (start // size + 1) * size)
            parts.append(Change(start, self.data[start - self.offset : stop - self.offset]))
            start = stop
        return parts

    def apply(self, content: bytearray, rubbish: random.Random | None = None) -> None:
        """Carry it out; a gap before it is filled with zeros, or with rubbish."""
        if self.data is None:
            del content[self.offset :]
            return
        gap = self.offset - len(content)
        if gap > 0:
            content += rubbish.randbytes(gap) if rubbish else bytes(gap)
        content[self.offset : self.offset + len(self.data)] = self.data


@dataclass
class Image:
    """A file: what a sync has made durable, and what has changed since, in order."""

    durable: bytearray = field(default_factory=bytearray)
    pending: list[Change] = field(default_factory=list)

    def sync(self) -> None:
        """Make everything durable."""
        for change in self.pending:
            change.apply(self.durable)
        self.pending.clear()

    def forget(self, rng: random.Random) -> None:
        """Let a sync fail as some kernels do: part of what it should have written counts as written from now on, and
        no later sync writes it.
        """
        kept = [change for change in self.pending if change.data is None or rng.random() < 0.5]
        self.pending[:] = kept

    def after_a_cut(self, rng: random.Random, fate: Fate, sector: int) -> bytes:
        """Return what the disk has when the power fails now."""
        content = bytearray(self.durable)
        likelihood = {"lost": 0.0, "kept": 1.0, "torn": rng.choice((0.1, 0.5, 0.9))}[fate]
        rubbish = rng if fate == "torn" and rng.random() < 0.5 else None
        for change in self.pending:
            for part in change.sectors(sector):
                if rng.random() < likelihood:
                    part.apply(content, rubbish)
        return bytes(content)


@dataclass(frozen=True)
class Renaming:
    """One change of a directory: `name` stands for `image` from now on, for nothing when that is None.

    `also_gone`: the name that the file had before.
    """

    name: str
    image: Image | None
    also_gone: str | None = None

    def apply(self, names: dict[str, Image]) -> None:
        """Carry it out."""
        if self.also_gone is not None:
            names.pop(self.also_gone, None)
        if self.image is None:
            names.pop(self.name, None)
        else:
            names[self.name] = self.image


class Folder:
    """A directory: which names a sync of it has made durable, and which have come, gone or moved since."""

    def __init__(self) -> None:
        self.names: dict[str, Image] = {}
        self._durable: dict[str, Image] = {}
        self._pending: list[Renaming] = []

    def change(self, renaming: Renaming) -> None:
        """Carry out a change, which is not durable yet."""
        renaming.apply(self.names)
        self._pending.append(renaming)

    def sync(self) -> None:
        """Make the names durable."""
        self._durable = dict(self.names)
        self._pending.clear()

    def after_a_cut(self, rng: random.Random) -> dict[str, bytes]:
        """Return what the disk has when the power fails now, by name: names and files each have a fate of their own."""
        names = dict(self._durable)
        likelihood = rng.choice((0.0, 0.5, 1.0))
        for renaming in self._pending:
            if rng.random() < likelihood:
                renaming.apply(names)
        sector = rng.choice(SECTORS)
        return {name: image.after_a_cut(rng, rng.choice(FATES), sector) for name, image in names.items()}

    def found(self, files: dict[str, bytes]) -> None:
        """Begin anew with these files, all durable."""
        self.names = {name: Image(bytearray(content)) for name, content in files.items()}
        self.sync()
