"""`docs/security.md` says what it says: every threat has a test, and every test that it names exists."""

import re

import pytest

from tests.docs.pages import DOCS, ROOT, links

PAGE = DOCS / "security.md"
HEAD = "| threat | what is done | the test that shows it |"
NAMED = re.compile(r"`(tests/[\w/]+\.py)::(test_\w+)`")
FEWEST_THREATS = 50

TABLES = [table.split("\n\n")[0].splitlines()[2:] for table in PAGE.read_text().split(HEAD)[1:]]
THREATS = [row for table in TABLES for row in table]
TESTS = sorted(set(NAMED.findall(PAGE.read_text())))


def test_the_page_has_its_threats() -> None:
    assert len(THREATS) >= FEWEST_THREATS
    assert "security.md" in set(links(DOCS / "index.md"))


@pytest.mark.parametrize("row", THREATS, ids=lambda row: row.split("|")[1].strip()[:60])
def test_every_threat_has_a_test(row: str) -> None:
    cells = re.split(r"(?<!\\)\|", row.strip("|"))
    assert len(cells) == 3, row
    assert cells[1].strip(), row
    named = NAMED.findall(cells[2])
    assert named, row
    assert ", ".join(f"`{path}::{name}`" for path, name in named) == cells[2].strip(), row


@pytest.mark.parametrize(("path", "name"), TESTS, ids=[name for _, name in TESTS])
def test_a_test_that_is_named_exists(path: str, name: str) -> None:
    assert re.search(rf"^(?:async )?def {name}\(", (ROOT / path).read_text(), re.M)


def test_every_test_of_this_directory_stands_for_a_threat() -> None:
    """But for those of the page itself, and those that show that nobody honest is turned away."""
    named = {path for path, _ in TESTS}
    there = {str(path.relative_to(ROOT)) for path in (ROOT / "tests" / "security").glob("test_*.py")}
    assert there - named == {"tests/security/test_threat_model.py"}
