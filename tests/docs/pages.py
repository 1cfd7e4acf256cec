"""The pages of the documentation as their authors write them."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = (ROOT / "README.md", *sorted(DOCS.glob("*.md")))

CODE_INDENT = 4
"""Spaces that make a line code."""

_FENCE = re.compile(r"^(?:<!-- ([^>\n]*) -->\n)?```([\w{}-]*)\n(.*?)^```$", re.M | re.S)
_ITEM = re.compile(r"(?:[-*+]|\d+[.)]) +")
_LINK = re.compile(r"\[[^\]]+\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#{1,6} (.+)$", re.M)


class Fence(NamedTuple):
    """A fenced block: the page and line where it begins, the comment right above it ("" without one), its language."""

    page: Path
    line: int
    mark: str
    language: str
    text: str

    @property
    def place(self) -> str:
        """Where to look."""
        return f"{self.page.name}:{self.line}"


def fences(page: Path) -> Iterator[Fence]:
    """Give the fenced blocks of a page."""
    text = page.read_text()
    for found in _FENCE.finditer(text):
        yield Fence(page, text.count("\n", 0, found.start()) + 1, found[1] or "", found[2], found[3])


def indented(page: Path) -> Iterator[tuple[int, str]]:
    """Give line number and text of the code blocks that are made by indentation, by their first lines.

    A line that goes on with an item of a list is no code; it stands no deeper than the item's own text.
    """
    depth, before = 0, ""
    for number, line in enumerate(_FENCE.sub(_blank, page.read_text()).splitlines(), 1):
        text = line.lstrip(" ")
        indent = len(line) - len(text)
        if not text:
            before = ""
            continue
        item = _ITEM.match(text)
        if indent >= depth + CODE_INDENT and not before:
            yield number, line
            continue
        if item is not None:
            depth = indent + len(item[0])
        elif indent < depth and not before:
            depth = 0
        before = line


def _blank(fence: re.Match[str]) -> str:
    return "\n" * fence[0].count("\n")


def prose(page: Path) -> str:
    """Return a page without its fenced blocks."""
    return _FENCE.sub("", page.read_text())


def links(page: Path) -> Iterator[str]:
    """Give what a page links to, as it is written."""
    yield from _LINK.findall(prose(page))


def anchors(page: Path) -> set[str]:
    """Return the names by which a code host lets the headings of a page be linked."""
    names: dict[str, int] = {}
    for heading in _HEADING.findall(prose(page)):
        plain = re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")
        names[plain] = names.get(plain, -1) + 1
        if names[plain]:
            names[f"{plain}-{names[plain]}"] = 0
    return set(names)


def sentences(page: Path) -> str:
    """Return the text of a page on one line, for looking up words that may stand on two."""
    return " ".join(page.read_text().split())
