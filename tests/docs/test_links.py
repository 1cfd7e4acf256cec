"""On a code host, which shows the Markdown itself, every link of a page leads somewhere."""

from pathlib import Path

import pytest

from tests.docs.pages import DOCS, PAGES, ROOT, anchors, links


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_link_leads_to_a_file_of_the_repository_and_a_heading_in_it(page: Path) -> None:
    for link in links(page):
        if link.startswith(("https://", "http://")):
            continue
        name, _, place = link.partition("#")
        target = (page.parent / name).resolve() if name else page
        assert target.is_relative_to(ROOT), link
        assert target.is_file(), link
        assert not place or place in anchors(target), link


def test_the_front_page_and_the_index_link_every_page() -> None:
    every = {page.name for page in DOCS.glob("*.md")}
    index = {link for link in links(DOCS / "index.md") if "#" not in link}
    assert every - {"index.md"} - index == set()
    readme = {link.removeprefix("docs/").partition("#")[0] for link in links(ROOT / "README.md")}
    assert {"index.md", "tutorial.md"} <= readme
