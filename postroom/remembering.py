"""What `postroom drain` has shown and not acknowledged yet, in a small file between one call and the next.

One file for each server and token, below `$XDG_STATE_HOME` (`~/.local/state`), which nobody else may read. It is
replaced as a whole. Losing it costs nothing but seeing a message once more: what is not in it has not been shown.
"""

import contextlib
import hashlib
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path

import msgspec

Pairs = list[tuple[int, str]]
"""`delivery_seq` and `diff_id` of each item that was shown."""


class _File(msgspec.Struct):
    shown: Pairs


def state_file(url: str, token: str, environment: Mapping[str, str]) -> Path:
    """Return the file for a server and a token, which belongs to one agent; its name gives neither away.

    Raises `OSError` when the user has no home.
    """
    named = environment.get("XDG_STATE_HOME", "")
    try:
        base = Path(named) if Path(named).is_absolute() else Path.home() / ".local" / "state"
    except RuntimeError as error:
        raise OSError(str(error)) from error
    key = hashlib.sha256(f"{url}\n{token}".encode()).hexdigest()
    return base / "postroom" / "drain" / f"{key[:32]}.json"


def load(file: Path) -> Pairs:
    """Return what was shown; nothing when there is no file, or it is not one of ours. Raises `OSError`."""
    try:
        return msgspec.json.decode(file.read_bytes(), type=_File).shown
    except (FileNotFoundError, msgspec.DecodeError):
        return []


def save(file: Path, shown: Pairs) -> None:
    """Replace the file: what a reader finds is the old one or the new one, whole. Raises `OSError`."""
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}.")  # 0600
    try:
        with os.fdopen(descriptor, "wb") as out:
            out.write(msgspec.json.encode(_File(shown)))
        os.replace(name, file)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(name)
        raise
