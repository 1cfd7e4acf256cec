"""Shell completion, asked as the shells ask."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from postroom.cli.completion import SHELLS
from tests.postroom.conftest import run
from tests.postroom.serverproc import clean_environment

SHELL_SECONDS = 30


@pytest.mark.parametrize("shell", SHELLS)
def test_the_script_asks_this_program(shell: str) -> None:
    result = run("completion", shell)
    assert result.exit_code == 0
    assert f"_POSTROOM_COMPLETE={shell}_complete" in result.stdout


def test_a_shell_that_is_unknown_is_refused() -> None:
    assert run("completion", "csh").exit_code == 2


LINES = {
    "postroom inb": "inbox",
    "postroom inbox create x --verifier stan": "standard-webhooks",
}


def test_bash_completes_commands_and_names(tmp_path: Path) -> None:
    """By the function of the script, called as readline calls it."""
    (tmp_path / "postroom").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m postroom "$@"\n')
    (tmp_path / "postroom").chmod(0o755)
    asked = "".join(
        f"COMPREPLY=(); COMP_WORDS=({line}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))\n"
        '_postroom_completion postroom; printf "%s\\n" "${COMPREPLY[*]}"\n'
        for line in LINES
    )
    done = subprocess.run(
        ["bash", "--norc", "-c", f'eval "$(postroom completion bash)"\n{asked}'],
        env=clean_environment(PATH=f"{tmp_path}:{os.environ['PATH']}"),
        capture_output=True,
        text=True,
        timeout=SHELL_SECONDS,
        stdin=subprocess.DEVNULL,
    )
    assert done.stdout.splitlines() == list(LINES.values()), done.stderr
