"""Tables of the documents whose last column names tests, as `path::function` between backticks."""

import re
from pathlib import Path

from tests.docs.pages import ROOT

NAMED = re.compile(r"`(tests/[\w/]+\.py)::(test_\w+)`")
CELLS = 3


def rows(page: Path, head: str) -> list[str]:
    """Return the rows of all tables of a page that have this head."""
    tables = page.read_text().split(head)[1:]
    return [row for table in tables for row in table.split("\n\n")[0].splitlines()[2:]]


def named(page: Path) -> list[tuple[str, str]]:
    """Return every test that a page names, each once."""
    return sorted(set(NAMED.findall(page.read_text())))


def first_words(row: str) -> str:
    """Return what stands for a row in the name of its test."""
    return row.split("|")[1].strip()[:60]


def check_row(row: str) -> None:
    """Raise `AssertionError` unless a row has three cells, and the last is a list of tests and nothing else."""
    cells = re.split(r"(?<!\\)\|", row.strip("|"))
    assert len(cells) == CELLS, row
    assert cells[1].strip(), row
    tests = NAMED.findall(cells[2])
    assert tests, row
    assert ", ".join(f"`{path}::{name}`" for path, name in tests) == cells[2].strip(), row


def exists(path: str, name: str) -> bool:
    """Whether there is such a test."""
    return re.search(rf"^(?:async )?def {name}\(", (ROOT / path).read_text(), re.M) is not None
