"""`make docs` builds the site without a warning; nothing in it leads nowhere, nothing comes from other hosts."""

import re
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import msgspec
import pytest
import trio

from tests.docs.pages import DOCS, ROOT
from tests.postroom.fronts import front
from tests.postroom.serverproc import clean_environment

BUILD_SECONDS = 180
"""Some 20 s on a quiet machine."""

OPTIONS = ["-b", "html", "-W", "--keep-going", "-n", "-q"]
"""Of Sphinx, in `make docs` as here: with every warning, and every one an error."""

LOADED = {"link": "href", "script": "src", "img": "src", "source": "src", "iframe": "src", "object": "data"}
"""What a browser loads by itself, by element."""


class Page(HTMLParser):
    """What a page of the site loads, links to, and can be linked by."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.loads: set[str] = set()
        self.links: set[str] = set()
        self.names: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        self.names.add(values.get("id") or "")
        if tag == "a" and values.get("href"):
            self.links.add(values["href"] or "")
        if tag in LOADED and values.get(LOADED[tag]):
            self.loads.add(values[LOADED[tag]] or "")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "sphinx", *OPTIONS, "-d", folder / "trees", DOCS, folder / "html"],
        cwd=ROOT,
        env=clean_environment(),
        capture_output=True,
        text=True,
        timeout=BUILD_SECONDS,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    return folder / "html"


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[str, Page]:
    return {str(file.relative_to(site)): Page(file.read_text()) for file in site.rglob("*.html")}


def within(references: set[str]) -> Iterator[tuple[str, str]]:
    """Give file and place of the references that stay on the site."""
    for reference in references:
        if not re.match(r"[a-z]+:", reference):
            path, _, place = reference.partition("#")
            yield unquote(path.partition("?")[0]), unquote(place)


def test_the_site_is_built_without_a_warning_and_has_every_page(site: Path) -> None:
    built = {file.stem for file in site.glob("*.html")}
    assert {page.stem for page in DOCS.glob("*.md")} <= built


def test_every_link_of_the_site_leads_to_a_page_and_a_place(site: Path, pages: dict[str, Page]) -> None:
    for name, page in pages.items():
        for path, place in within(page.links):
            target = (site / name).parent / path if path else site / name
            assert target.is_file(), (name, path)
            if place and target.suffix == ".html":
                assert place in pages[str(target.resolve().relative_to(site.resolve()))].names, (
                    name,
                    path,
                    place,
                )


def test_what_a_page_loads_comes_from_the_site_itself(site: Path, pages: dict[str, Page]) -> None:
    for name, page in pages.items():
        assert len(list(within(page.loads))) == len(page.loads), name
        for path, _ in within(page.loads):
            assert not path or ((site / name).parent / path).is_file(), (name, path)
    for style in site.rglob("*.css"):
        assert not re.search(r"@import|url\(\s*[\"']?(?!data:)[a-z]*:?//", style.read_text()), style


def test_every_page_is_in_the_table_of_contents_of_every_other(pages: dict[str, Page]) -> None:
    names = {f"{page.stem}.html" for page in DOCS.glob("*.md")} - {"index.html"}
    for name in names:
        assert names - {name} <= {path for path, _ in within(pages[name].links)}, name


def test_the_page_of_routes_has_every_route_and_object(site: Path) -> None:
    text = re.sub(r"</?span[^>]*>", "", (site / "routes.html").read_text())
    document = msgspec.json.decode(trio.run(front).document.encoded)
    for path, methods in document["paths"].items():
        for method in methods:
            assert f"<h3>{method.upper()} {path}<" in re.sub(r"</?code[^>]*>", "", text), (method, path)
    for name in document["components"]["schemas"]:
        assert f'id="{name.lower()}"' in text, name
    assert text.count("dedupe_window_seconds") > 2  # of an inbox as it is made, changed and shown


def test_make_builds_it_with_the_same_options() -> None:
    makefile = (ROOT / "Makefile").read_text()
    assert f"-m sphinx {' '.join(OPTIONS)} docs build/docs" in makefile
