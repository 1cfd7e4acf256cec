"""A body on its way in: in memory while it is small, then in an unlinked temporary file in the data
directory.

The file has no name, so whatever ends the process also removes it. Nothing here is durable or needs to be: a
body becomes durable when its message is appended.
"""

import io
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Self

MEMORY_BYTES = 256 * 1024
"""A body up to this size stays in memory, a larger one goes to a file (engineering study, S19)."""


class Spool:
    """Implements `web.verify.model.BodySource`. A context manager: leaving it drops the bytes."""

    __slots__ = ("_directory", "_file", "_pieces", "size")

    def __init__(self, directory: Path) -> None:
        """`directory` is where the temporary file goes: the file system that was sized for bodies."""
        self._directory = directory
        self._pieces: list[bytes] = []
        self._file: io.BufferedRandom | None = None
        self.size = 0

    @property
    def on_disk(self) -> bool:
        """Whether the body has outgrown memory, so that reading it whole belongs in a thread."""
        return self._file is not None

    def write(self, data: bytes) -> None:
        """Take the next piece. Raises `OSError` (ENOSPC and its kind) when the temporary file cannot grow.

        Runs in the event loop: at most 64 KiB at a time to the page cache, never synced.
        """
        self.size += len(data)
        if self._file is None:
            self._pieces.append(data)
            if self.size <= MEMORY_BYTES:
                return
            self._file = tempfile.TemporaryFile(dir=self._directory)  # noqa: SIM115 - `close` closes it
            data = b"".join(self._pieces)
            self._pieces.clear()
        self._file.write(data)

    def whole(self) -> bytes:
        """Return all of it. A body that arrived in one piece is returned without a copy."""
        if self._file is not None:
            self._file.seek(0)
            return self._file.read()
        if len(self._pieces) == 1:
            return self._pieces[0]
        return b"".join(self._pieces)

    def open(self) -> io.BufferedIOBase:
        """Return the body as a stream, at its start. It belongs to the spool: read it before `close`."""
        if self._file is None:
            return io.BytesIO(self.whole())
        self._file.seek(0)
        return self._file

    def close(self) -> None:
        """Drop the bytes; a file without a name goes with its descriptor."""
        self._pieces.clear()
        if self._file is not None:
            self._file.close()
            self._file = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
