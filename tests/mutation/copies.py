"""Copies of the tree, in which mutants are tried: nobody who works in the tree itself ever sees one."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.mutation.mutants import Change
from tests.mutation.table import ROOT, Group

COPIED = ("actors", "docs", "postroom", "storage", "tests", "web", "README.md")
LEFT_OUT = shutil.ignore_patterns("node_modules", "__pycache__", ".hypothesis")
SETTINGS = '\n[tool.mutmut]\nsource_paths = ["actors", "postroom", "storage", "web"]\n'
LAST_LINES = 60


@contextmanager
def copied() -> Iterator[Path]:
    """Yield a copy of what the tests need, as long as it is needed."""
    with TemporaryDirectory(prefix="mutants-") as name:
        tree = Path(name)
        for part in COPIED:
            if (ROOT / part).is_dir():
                shutil.copytree(ROOT / part, tree / part, ignore=LEFT_OUT)
            else:
                shutil.copy2(ROOT / part, tree / part)
        (tree / "pyproject.toml").write_text((ROOT / "pyproject.toml").read_text() + SETTINGS)
        yield tree


def outcomes(group: Group) -> list[tuple[Change, str]]:
    """Try the mutants of one group; raises RuntimeError with the end of the output when that could not be done."""
    with copied() as tree:
        run = subprocess.run(
            [sys.executable, "-m", "tests.mutation.trial", group.name, str(tree / "outcomes.json")],
            cwd=tree,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            text=True,
            env=os.environ | {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONHASHSEED": "0"},
            check=False,
        )
        if not (tree / "outcomes.json").exists():
            raise RuntimeError(f"{group.name}:\n" + "\n".join(run.stdout.splitlines()[-LAST_LINES:]))
        said = json.loads((tree / "outcomes.json").read_text())
    return [(Change(**one), outcome) for one in said if (outcome := one.pop("outcome"))]
