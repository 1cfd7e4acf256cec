"""`docs/security.md` says what it says: every threat has a test, and every test that it names exists."""

import pytest

from tests.docs.named import check_row, exists, first_words, named, rows
from tests.docs.pages import DOCS, ROOT, links

PAGE = DOCS / "security.md"
THREATS = rows(PAGE, "| threat | what is done | the test that shows it |")
TESTS = named(PAGE)
FEWEST_THREATS = 50


def test_the_page_has_its_threats() -> None:
    assert len(THREATS) >= FEWEST_THREATS
    assert "security.md" in set(links(DOCS / "index.md"))


@pytest.mark.parametrize("row", THREATS, ids=first_words)
def test_every_threat_has_a_test(row: str) -> None:
    check_row(row)


@pytest.mark.parametrize(("path", "name"), TESTS, ids=[name for _, name in TESTS])
def test_a_test_that_is_named_exists(path: str, name: str) -> None:
    assert exists(path, name)


def test_every_test_of_this_directory_stands_for_a_threat() -> None:
    """But for those of the page itself, and those that show that nobody honest is turned away."""
    shown = {path for path, _ in TESTS}
    there = {str(path.relative_to(ROOT)) for path in (ROOT / "tests" / "security").glob("test_*.py")}
    assert there - shown == {"tests/security/test_threat_model.py"}
