"""`docs/postroom.1`: what the program says of itself, in a form that `man` shows without complaint."""

import shutil
import subprocess
from pathlib import Path

import pytest

from postroom.cli.commands import program
from postroom.cli.manual import page
from postroom.settings import SETTINGS
from tests.postroom.test_docs import commands

PAGE = Path(__file__).parents[2] / "docs" / "postroom.1"
MAN_SECONDS = 30


def test_the_page_is_that_of_these_commands() -> None:
    assert PAGE.read_text() == page(), "renew it with: make man"


def test_every_command_and_every_setting_is_on_the_page() -> None:
    text = page()
    for name, _ in commands(program):
        assert f'.SS "{name.replace("-", chr(92) + "-")}' in text
    for setting in SETTINGS:
        assert f"\\fB{setting.name}\\fR" in text


def test_man_shows_it_without_a_warning() -> None:
    if shutil.which("man") is None or shutil.which("groff") is None:
        pytest.skip("no man(1) here")
    shown = subprocess.run(
        ["man", "--warnings", "-E", "UTF-8", "-l", str(PAGE)],
        capture_output=True,
        text=True,
        timeout=MAN_SECONDS,
        env={"PATH": "/usr/bin:/bin", "MANWIDTH": "80", "LC_ALL": "C.UTF-8"},
    )
    assert (shown.returncode, shown.stderr) == (0, "")
    for words in ("postroom inbox create", "MAX_BODY_BYTES", "EXIT STATUS"):
        assert words in shown.stdout, words
