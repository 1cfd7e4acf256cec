"""The tour in README.md as a list of steps: commands that a shell runs, with the output printed below each.

A block that is executed is a fenced one of the kind `console` after the comment `<!-- run -->`. Lines that begin with
`$ ` are commands, what follows is their output. Ids and times differ from run to run and are
compared by kind; the address is shown as the default one, tokens are cut.

`python -m tests.postroom.tour` starts a server, runs the tour and writes the real output into README.md.
"""

import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests.postroom.serverproc import ServerProcess, clean_environment

README = Path(__file__).parents[2] / "README.md"
SHELL_SECONDS = 60
DEFAULT_ADDRESS = "127.0.0.1:8025"

BLOCK = re.compile(r"(<!-- run -->\n```console\n)(.*?)(```\n)", re.S)
_END = "-- end of output --"

_TOKEN = re.compile(r"prm_(admin|agent)_[A-Za-z0-9_-]{43}")
"""Never written into the page, not even one that is worthless: scanners for leaked tokens know no difference."""

_KINDS = (
    (re.compile(r"\b[0-7][0-9A-HJKMNP-TV-Z]{25}\b"), "<id>"),
    (re.compile(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(\.\d+)?Z"), "<time>"),
    (re.compile(r"(?<=[\" ])[0-9a-f]{16}\b"), "<epoch>"),
)


def commands_of(block: str) -> Iterator[tuple[str, str]]:
    """Give each command of a block with the output printed below it."""
    command, output = "", ""
    for line in block.splitlines(keepends=True):
        if line.startswith("$ "):
            if command:
                yield command, output
            command, output = line.removeprefix("$ ").rstrip("\n"), ""
        else:
            output += line
    if command:
        yield command, output


def by_kind(output: str) -> str:
    """Return output with everything that differs from run to run replaced by what it is."""
    for pattern, kind in _KINDS:
        output = pattern.sub(kind, output)
    return output


def play(blocks: list[str], server: ServerProcess) -> list[list[tuple[str, str]]]:
    """Run the commands of all blocks in one shell and return each with its real output."""
    steps = [[command for command, _ in commands_of(block)] for block in blocks]
    script = "exec 2>&1\n" + "".join(f"{command}\necho '{_END}'\n" for block in steps for command in block)
    path = f"{Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/bin"
    shell = subprocess.run(
        ["bash", "-c", script],
        env=clean_environment(POSTROOM_URL=server.url, POSTROOM_TOKEN=server.token, PATH=path),
        capture_output=True,
        text=True,
        timeout=SHELL_SECONDS,
        check=True,
    )
    printed = shell.stdout.replace(server.url.removeprefix("http://"), DEFAULT_ADDRESS)
    outputs = iter(_TOKEN.sub(r"prm_\1_…", printed).split(f"{_END}\n"))
    return [[(command, next(outputs)) for command in block] for block in steps]


def renewed(text: str, server: ServerProcess) -> str:
    """Return the page with the output of a real run."""
    played = iter(play([block[2] for block in BLOCK.finditer(text)], server))

    def block(old: re.Match[str]) -> str:
        lines = "".join(f"$ {command}\n{_trimmed(output)}" for command, output in next(played))
        return old[1] + lines + old[3]

    return BLOCK.sub(block, text)


def _trimmed(output: str) -> str:
    return "".join(line.rstrip() + "\n" for line in output.splitlines())


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder, ServerProcess(Path(folder) / "data") as running:
        README.write_text(renewed(README.read_text(), running))
