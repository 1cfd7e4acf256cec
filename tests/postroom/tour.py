"""Pages of the documentation as lists of steps: commands that a shell runs, with the output printed below each.

A block that is executed is a fenced one of the kind `console` after the comment `<!-- run -->`. Lines that begin with
`$ ` are commands, those with `> ` directly below continue them, what follows is their output. All blocks of a page
are one session: one server, one shell, one empty directory. A fenced block after `<!-- file: NAME -->` is a
file in that directory. Ids and times differ from run to run and are compared by kind; the address is
shown as the default one, tokens are cut. The directory has a `.venv`, as a checkout has; a page that sets the
PATH itself gets no other help with finding the program.

`python -m tests.postroom.tour` starts a server for each page, runs it and writes the real output into the page.
"""

import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.postroom.layout import laid_out
from tests.postroom.serverproc import ServerProcess, clean_environment

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
API = ROOT / "docs" / "api.md"
MCP = ROOT / "docs" / "mcp.md"
OPERATIONS = ROOT / "docs" / "operations.md"
PROVIDERS = ROOT / "docs" / "providers.md"
AGENTS = ROOT / "docs" / "agents.md"
OPENAPI = ROOT / "docs" / "openapi.md"
SHELL_SECONDS = 180
"""For a whole page, on a busy machine."""
DEFAULT_ADDRESS = "127.0.0.1:8025"
SYSTEM_PATH = "/usr/local/bin:/usr/bin:/bin"

Layout = Callable[[str], str]
"""How the output of a command is shown on the page."""


def as_printed(output: str) -> str:
    """Show output as it is."""
    return output


PAGES: tuple[tuple[Path, Layout], ...] = (
    (README, as_printed),
    (API, laid_out),
    (MCP, laid_out),
    (OPERATIONS, as_printed),
    (PROVIDERS, as_printed),
    (AGENTS, as_printed),
    (OPENAPI, as_printed),
)

SETTINGS = {PROVIDERS: {"PUBLIC_URL": "https://hooks.example.com"}}
"""Of the server that a page is run against, where it needs some."""

BLOCK = re.compile(r"(<!-- run -->\n```console\n)(.*?)(```\n)", re.S)
_FILE = re.compile(r"<!-- file: ([a-z.]+) -->\n```[a-z]+\n(.*?)```\n", re.S)
_END = "-- end of output --"

_TOKEN = re.compile(r"prm_(admin|agent|machine)_[A-Za-z0-9_-]{43}")
"""Never written into the page, not even one that is worthless: scanners for leaked tokens know no difference."""

_CURL = re.compile(r"\bcurl/\d+(\.\d+)+")
_SHOWN_CURL = "curl/8.5.0"

_KINDS = (
    (re.compile(r"\b[0-7][0-9A-HJKMNP-TV-Z]{25}\b|\b[0-7][0-9a-hjkmnp-tv-z]{25}\b"), "<id>"),
    (re.compile(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(\.\d+)?Z"), "<time>"),
    (re.compile(r"\b[A-Z][a-z]{2}, \d\d [A-Z][a-z]{2} \d{4} \d\d:\d\d:\d\d GMT"), "<date>"),
    (re.compile(r"(?<=[\" ])[0-9a-f]{16}\b"), "<epoch>"),
    (re.compile(r"\b[a-km-np-z2-9]{20}\b"), "<slug>"),
    (re.compile(r"(?<=retry-after: )\d+|(?<=\"status_age_s\": )\d+"), "<seconds>"),
)


def commands_of(block: str) -> Iterator[tuple[str, str]]:
    """Give each command of a block, which may have several lines, with the output printed below it."""
    command, output = "", ""
    for line in block.splitlines(keepends=True):
        if line.startswith("$ "):
            if command:
                yield command, output
            command, output = line.removeprefix("$ ").rstrip("\n"), ""
        elif line.startswith("> ") and command and not output:
            command += "\n" + line.removeprefix("> ").rstrip("\n")
        else:
            output += line
    if command:
        yield command, output


def by_kind(output: str) -> str:
    """Return output with everything that differs from run to run replaced by what it is."""
    for pattern, kind in _KINDS:
        output = pattern.sub(kind, output)
    return output


def play(
    blocks: list[str], files: list[tuple[str, str]], server: ServerProcess
) -> list[list[tuple[str, str]]]:
    """Run the commands of all blocks in one shell and return each with its real output."""
    steps = [[command for command, _ in commands_of(block)] for block in blocks]
    script = "exec 2>&1\n" + "".join(f"{command}\necho '{_END}'\n" for block in steps for command in block)
    helped = "export PATH=" not in script
    path = f"{Path(sys.executable).parent}:{SYSTEM_PATH}" if helped else SYSTEM_PATH
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / ".venv").symlink_to(sys.prefix)
        for name, content in files:
            (Path(folder) / name).write_text(content)
        shell = subprocess.run(
            ["bash", "-c", script],
            cwd=folder,
            env=clean_environment(
                POSTROOM_URL=server.url,
                POSTROOM_TOKEN=server.token,
                XDG_STATE_HOME=f"{folder}/.state",
                PATH=path,
            ),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=SHELL_SECONDS,
            check=True,
        )
    printed = shell.stdout.replace(server.url.removeprefix("http://"), DEFAULT_ADDRESS)
    printed = _CURL.sub(_SHOWN_CURL, printed)
    outputs = iter(_TOKEN.sub(r"prm_\1_…", printed).split(f"{_END}\n"))
    return [[(command, next(outputs)) for command in block] for block in steps]


def renewed(text: str, server: ServerProcess, layout: Layout = as_printed) -> str:
    """Return the page with the output of a real run."""
    played = iter(play([block[2] for block in BLOCK.finditer(text)], _FILE.findall(text), server))

    def block(old: re.Match[str]) -> str:
        lines = (
            "$ " + command.replace("\n", "\n> ") + "\n" + _trimmed(layout(output))
            for command, output in next(played)
        )
        return old[1] + "".join(lines) + old[3]

    return BLOCK.sub(block, text)


def differences(page: Path, layout: Layout, server: ServerProcess) -> Iterator[tuple[str, str, str]]:
    """Run a page; give each command whose output is another one, with what the page says and what is real."""
    written = page.read_text()
    for old, new in zip(BLOCK.findall(written), BLOCK.findall(renewed(written, server, layout)), strict=True):
        for (command, said), (_, real) in zip(commands_of(old[1]), commands_of(new[1]), strict=True):
            if by_kind(said) != by_kind(real):
                yield command, by_kind(said), by_kind(real)


def _trimmed(output: str) -> str:
    return "".join(line.rstrip() + "\n" for line in output.splitlines())


if __name__ == "__main__":
    for page, layout in PAGES:
        settings = SETTINGS.get(page, {})
        with (
            tempfile.TemporaryDirectory() as folder,
            ServerProcess(Path(folder) / "data", **settings) as running,
        ):
            page.write_text(renewed(page.read_text(), running, layout))
