"""The tour in README.md works as printed, and its first screen is two commands."""

import re
from pathlib import Path

from tests.postroom.serverproc import ServerProcess
from tests.postroom.tour import README, as_printed, differences

FIRST_SCREEN_LINES = 24


def test_the_tour_prints_what_the_page_says(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "data") as server:
        for command, said, real in differences(README, as_printed, server):
            assert said == real, command


def test_the_first_screen_has_exactly_two_commands() -> None:
    first_screen = "\n".join(README.read_text().splitlines()[:FIRST_SCREEN_LINES])
    assert re.findall(r"^    (\S.*?) +#", first_screen, re.M) == ["make run", "make test"]


def test_the_pages_that_the_readme_links_exist() -> None:
    for link in re.findall(r"\]\(([^)#:]+)\)", README.read_text()):
        assert (README.parent / link).is_file(), link
