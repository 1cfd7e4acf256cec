"""Building the packages from a copy of the source tree, so that nothing is written where others are reading."""

import os
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[2]

BUILD_SECONDS = 60
"""For one build, which takes two seconds on a quiet machine."""

NOT_COPIED = shutil.ignore_patterns("node_modules", "__pycache__", "*_pb2.py", "*_pb2.pyi", "postroom-data")


def copy_tree(target: Path) -> Path:
    """Copy the files from which the packages are made, without git and without anything generated; return the copy."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    for name in (
        "pyproject.toml",
        ".gitignore",  # which hatchling adds by itself
        *project["tool"]["hatch"]["build"]["targets"]["sdist"]["include"],
    ):
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, target / name, ignore=NOT_COPIED)
        else:
            target.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target / name)
    return target


def build(tree: Path, kind: str) -> Path:
    """Build a `wheel` or an `sdist` of a tree with what is installed here; return the file."""
    before = set((tree / "dist").glob("*"))
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", kind],
        cwd=tree,
        env=without_git_above(tree),
        check=True,
        capture_output=True,
        timeout=BUILD_SECONDS,
    )
    [made] = set((tree / "dist").glob("*")) - before
    return made


def without_git_above(tree: Path) -> dict[str, str]:
    """Return an environment in which git looks for no repository above a tree."""
    return os.environ | {"GIT_CEILING_DIRECTORIES": str(tree.parent)}


def unpacked(sdist: Path, target: Path) -> Path:
    """Unpack a source package; return its tree."""
    with tarfile.open(sdist) as archive:
        archive.extractall(target, filter="data")
    [tree] = target.iterdir()
    return tree


def contents(wheel: Path) -> dict[str, bytes]:
    """Return the files of a wheel, without those that repeat the others' names."""
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist() if not name.endswith("RECORD")}
