"""`docs/reliability.md` says what it says: every promise has a test, and every test that it names exists."""

import pytest

from tests.docs.named import check_row, exists, first_words, named, rows
from tests.docs.pages import DOCS, links

PAGE = DOCS / "reliability.md"
PROMISES = rows(PAGE, "| promise | how it is kept | the test that would fail |")
TESTS = named(PAGE)
FEWEST_PROMISES = 20


def test_the_page_has_its_promises() -> None:
    assert len(PROMISES) >= FEWEST_PROMISES
    assert "reliability.md" in set(links(DOCS / "index.md"))


@pytest.mark.parametrize("row", PROMISES, ids=first_words)
def test_every_promise_has_a_test(row: str) -> None:
    check_row(row)


@pytest.mark.parametrize(("path", "name"), TESTS, ids=[name for _, name in TESTS])
def test_a_test_that_is_named_exists(path: str, name: str) -> None:
    assert exists(path, name)
