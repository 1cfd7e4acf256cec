"""The tour in README.md works as printed, and its first screen is two commands."""

import re
from pathlib import Path

from tests.postroom.serverproc import ServerProcess
from tests.postroom.tour import BLOCK, README, by_kind, commands_of, renewed

FIRST_SCREEN_LINES = 24


def test_the_tour_prints_what_the_page_says(tmp_path: Path) -> None:
    page = README.read_text()
    with ServerProcess(tmp_path / "data") as server:
        played = renewed(page, server)
    for written, real in zip(BLOCK.findall(page), BLOCK.findall(played), strict=True):
        for (command, expected), (_, output) in zip(
            commands_of(written[1]), commands_of(real[1]), strict=True
        ):
            assert by_kind(expected) == by_kind(output), command


def test_the_first_screen_has_exactly_two_commands() -> None:
    first_screen = "\n".join(README.read_text().splitlines()[:FIRST_SCREEN_LINES])
    assert re.findall(r"^    (\S.*?) +#", first_screen, re.M) == ["make run", "make test"]


def test_the_pages_that_the_readme_links_exist() -> None:
    for link in re.findall(r"\]\(([^)#:]+)\)", README.read_text()):
        assert (README.parent / link).is_file(), link
