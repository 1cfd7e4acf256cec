"""The tour in README.md works as printed, and its first screen is two commands."""

import re
from pathlib import Path

from tests.postroom.serverproc import ServerProcess
from tests.postroom.tour import BLOCK, PAGES, README, ROOT, as_printed, commands_of, differences

FIRST_SCREEN_LINES = 26


def test_the_tour_prints_what_the_page_says(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "data") as server:
        for command, said, real in differences(README, as_printed, server):
            assert said == real, command


def test_the_tour_begins_with_the_line_that_lets_the_shell_find_the_program() -> None:
    [(first, _)] = commands_of(BLOCK.findall(README.read_text())[0][1])
    assert first == 'export PATH="$PWD/.venv/bin:$PATH"'


def test_no_inbox_is_created_in_two_sessions() -> None:
    """A reader may follow one page after the other, on one server."""
    made: dict[str, set[str]] = {}
    for pages, _ in PAGES:
        for block in (block for page in pages for block in BLOCK.findall(page.read_text())):
            for command, _ in commands_of(block[1]):
                for slugs in re.findall(r'inbox create ([a-z]\S*)|"slug": "([a-z]\S*)"', command):
                    made.setdefault("".join(slugs), set()).add(pages[0].name)
    assert {"repo", "orders", "builds", "news"} <= set(made)
    assert not {slug: pages for slug, pages in made.items() if len(pages) > 1}


def test_the_first_screen_has_exactly_two_commands() -> None:
    first_screen = "\n".join(README.read_text().splitlines()[:FIRST_SCREEN_LINES])
    [block] = re.findall(r"<!-- make -->\n```sh\n(.*?)```", first_screen, re.S)
    targets = re.findall(r"^make (\S+) +# ", block, re.M)
    assert targets == ["run", "test"]
    assert len(block.splitlines()) == len(targets)
    for target in targets:
        assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(), re.M)


def test_the_pages_that_the_readme_links_exist() -> None:
    for link in re.findall(r"\]\(([^)#:]+)\)", README.read_text()):
        assert (README.parent / link).is_file(), link
