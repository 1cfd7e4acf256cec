"""`docs/tutorial.md` works as printed, in its three terminals, and begins with what `make run` does."""

import re
from pathlib import Path

import pytest

from tests.postroom.serverproc import ServerProcess
from tests.postroom.shells import Block, Step, commands_of, play
from tests.postroom.tour import (
    DOCS,
    ROOT,
    SERVER,
    TUTORIAL,
    CheckoutServer,
    as_printed,
    blocks_of,
    differences,
)


def test_the_tutorial_prints_what_the_page_says(tmp_path: Path) -> None:
    with CheckoutServer(tmp_path) as server:
        for command, said, real in differences(TUTORIAL, as_printed, server):
            assert said == real, command


def test_the_server_is_started_as_make_starts_it() -> None:
    [started] = [block for block in blocks_of(TUTORIAL.read_text()) if block.terminal == SERVER]
    assert [step.command for step in started.steps] == ["make run"]
    assert "\trun: $(VENV)/run.stamp" in "\t" + (ROOT / "Makefile").read_text().replace("\n", "\n\t")
    assert "@exec $(BIN)/postroom serve $(ARGS)\n" in (ROOT / "Makefile").read_text()


@pytest.mark.parametrize("page", [TUTORIAL, DOCS / "api.md"], ids=lambda page: page.name)
def test_what_is_pasted_from_the_server_s_terminal_was_printed_there(page: Path) -> None:
    [started] = [block for block in blocks_of(TUTORIAL.read_text()) if block.terminal == SERVER]
    [pasted] = re.findall(r"<!-- printed -->\n```sh\n(.*?)```", page.read_text(), re.S)
    printed = [line.strip() for step in started.steps for line in step.output.splitlines()]
    assert set(pasted.splitlines()) <= set(printed)


def test_a_command_in_another_terminal_goes_on_while_the_first_one_works(tmp_path: Path) -> None:
    said = "$ until [ -e go ]; do :; done; echo went; echo on\n"
    blocks = [
        Block("other", tuple(commands_of("$ echo begun\nbegun\n$ echo $POSTROOM_TOKEN\n\n" + said))),
        Block("", tuple(commands_of("$ touch go\n"))),
        Block("other", tuple(commands_of("went\non\n$ echo end\n"))),
        Block("", tuple(commands_of("$ echo $POSTROOM_TOKEN | cut -c -4\n"))),
    ]
    with ServerProcess(tmp_path / "data") as server:
        begun, go, rest, own = play(blocks, [], server)
    assert [step.output for step in begun] == ["begun\n", "\n", ""]
    assert go == [Step("touch go", "")]
    assert rest == [Step("", "went\non\n"), Step("echo end", "end\n")]
    assert [step.output for step in own] == ["prm_\n"]


def test_output_without_a_command_is_a_step_of_its_own() -> None:
    assert list(commands_of("more\n$ a\n> b\nc\n")) == [Step("", "more\n"), Step("a\nb", "c\n")]
