"""The table of contents of the site, from the lists of `docs/index.md`.

A code host shows that page as it is, so it has no directives: every list below a heading is a part of the table, and
each item that begins with a link to a page is an entry. Links to a place within a page are for readers alone.
"""

import re
from collections.abc import Iterator

_PART = re.compile(r"^## ([^\n]+)\n(.*?)(?=^## |\Z)", re.M | re.S)
_ENTRY = re.compile(r"^- \[[^\]]+\]\((\w[\w-]*)\.md\)", re.M)


def parts(index: str) -> Iterator[tuple[str, list[str]]]:
    """Give each part's heading and its pages, without their `.md`."""
    for heading, text in _PART.findall(index):
        yield heading, _ENTRY.findall(text)


def with_contents(index: str) -> str:
    """Return the page with the directives that make the table."""
    tables = (
        "\n".join(("```{toctree}", ":hidden:", f":caption: {heading}", "", *pages, "```", ""))
        for heading, pages in parts(index)
        if pages
    )
    return index + "\n" + "\n".join(tables)
