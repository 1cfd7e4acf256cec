"""All targets as one, for short runs: the first byte of an input says which."""

from pathlib import Path

from tests.hostile.targets import CORPUS, TARGETS

EVERYTHING = "everything"
_NAMES = sorted(TARGETS)


def everything(data: bytes) -> None:
    """Hand an input on."""
    if data:
        TARGETS[_NAMES[data[0] % len(_NAMES)]](data[1:])


def lay_out(directory: Path) -> None:
    """Copy the first inputs of all targets there, each with its first byte."""
    for path in CORPUS.glob("*/*"):
        name = path.parent.name
        (directory / f"{name}-{path.name}").write_bytes(bytes((_NAMES.index(name),)) + path.read_bytes())
