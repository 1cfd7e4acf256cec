"""Pages of the documentation as lists of steps: commands that a shell runs, with the output printed below each.

A block that is executed is a fenced one of the kind `console` after the comment `<!-- run -->`. Lines that begin with
`$ ` are commands, those with `> ` directly below continue them, what follows is their output. All blocks of a page
are one session: one server, one shell, one empty directory; the pages about the API are one session together.
`<!-- run: NAME -->` stands before what is typed into another terminal of the reader's; a block there that begins with
output shows what the terminal's last command has said meanwhile. `<!-- run: server -->` is the terminal in which the
server itself is started. A fenced block after `<!-- file: NAME -->` is a file in the directory. Ids and times differ
from run to run and are compared by kind; the address is shown as the default one, tokens are cut. The directory has a
`.venv`, as a checkout has; a page that sets the PATH itself gets no other help with finding the program.

`python -m tests.postroom.tour [PAGE …]` starts a server for each session, runs it and writes the real output into its
pages.
"""

import re
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from tests.postroom.layout import laid_out
from tests.postroom.serverproc import ServerProcess
from tests.postroom.shells import SYSTEM_PATH, Block, Step, commands_of, play

__all__ = ["SYSTEM_PATH", "commands_of"]

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
README = ROOT / "README.md"
API = tuple(
    DOCS / f"{name}.md"
    for name in (
        "api",
        "api-sending",
        "api-reading",
        "api-streams",
        "api-agents",
        "api-machines",
        "api-administration",
        "grpc",
        "errors",
    )
)
"""In the order in which they are run, and read."""
MCP = DOCS / "mcp.md"
OPERATIONS = DOCS / "operations.md"
PROVIDERS = DOCS / "providers.md"
AGENTS = DOCS / "agents.md"
OPENAPI = DOCS / "openapi.md"
TUTORIAL = DOCS / "tutorial.md"
CURSORS = DOCS / "cursors.md"
INSTALL = DOCS / "install.md"
DEFAULT_ADDRESS = "127.0.0.1:8025"
SERVER = "server"
"""The terminal in which the reader starts the server."""

Layout = Callable[[str], str]
"""How the output of a command is shown on the page."""


def as_printed(output: str) -> str:
    """Show output as it is."""
    return output


PAGES: tuple[tuple[tuple[Path, ...], Layout], ...] = (
    ((README,), as_printed),
    (API, laid_out),
    ((MCP,), laid_out),
    ((OPERATIONS,), as_printed),
    ((PROVIDERS,), as_printed),
    ((AGENTS,), as_printed),
    ((OPENAPI,), as_printed),
    ((TUTORIAL,), as_printed),
    ((CURSORS,), as_printed),
    ((INSTALL,), as_printed),
)
"""Every session: its pages, and how their output is shown."""

SETTINGS = {PROVIDERS: {"PUBLIC_URL": "https://hooks.example.com"}}
"""Of the server that a page is run against, where it needs some."""

BLOCK = re.compile(r"(<!-- run(?:: [a-z]+)? -->\n```console\n)(.*?)(```\n)", re.S)
_FILE = re.compile(r"<!-- file: ([a-z.]+) -->\n```[a-z]+\n(.*?)```\n", re.S)
_TERMINAL = re.compile(r"<!-- run: ([a-z]+) -->")

_TOKEN = re.compile(r"prm_(admin|agent|machine)_[A-Za-z0-9_-]{43}")
"""Never written into the page, not even one that is worthless: scanners for leaked tokens know no difference."""

_CURL = re.compile(r"\bcurl/\d+(\.\d+)+")
_SHOWN_CURL = "curl/8.5.0"

_KINDS = (
    (re.compile(r"\b[0-7][0-9A-HJKMNP-TV-Z]{25}\b|\b[0-7][0-9a-hjkmnp-tv-z]{25}\b"), "<id>"),
    (re.compile(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(\.\d+)?Z"), "<time>"),
    (re.compile(r"\b[A-Z][a-z]{2}, \d\d [A-Z][a-z]{2} \d{4} \d\d:\d\d:\d\d GMT"), "<date>"),
    (re.compile(r"(?<=[\" ])[0-9a-f]{16}\b"), "<epoch>"),
    (re.compile(r"(?<=\.db, )[\d,]+(?= bytes)"), "<size>"),
    (re.compile(r"(?<=sha256=)[0-9a-f]{64}\b"), "<signature>"),
    (re.compile(r"\b[a-km-np-z2-9]{20}\b"), "<slug>"),
    (re.compile(r"(?<=retry-after: )\d+|(?<=\"status_age_s\": )\d+"), "<seconds>"),
)


def api_text() -> str:
    """Return the pages about the API as one text."""
    return "\n".join(page.read_text() for page in API)


def by_kind(output: str) -> str:
    """Return output with everything that differs from run to run replaced by what it is."""
    for pattern, kind in _KINDS:
        output = pattern.sub(kind, output)
    return output


def blocks_of(text: str) -> list[Block]:
    """Return the blocks of a page that are run."""
    named = [(_TERMINAL.match(opening), body) for opening, body, _ in BLOCK.findall(text)]
    return [Block(name[1] if name else "", tuple(commands_of(body))) for name, body in named]


def renewed(texts: Sequence[str], server: ServerProcess, layout: Layout = as_printed) -> list[str]:
    """Return the pages of a session with the output of a real run."""
    blocks = [block for text in texts for block in blocks_of(text)]
    typed = [block for block in blocks if block.terminal != SERVER]
    files = [file for text in texts for file in _FILE.findall(text)]
    played = iter(play(typed, files, server))
    real = iter([_started(block, server) if block.terminal == SERVER else next(played) for block in blocks])

    def block(old: re.Match[str]) -> str:
        lines = (
            ("$ " + step.command.replace("\n", "\n> ") + "\n" if step.command else "")
            + _trimmed(layout(_shown(step.output, server)))
            for step in next(real)
        )
        return old[1] + "".join(lines) + old[3]

    return [BLOCK.sub(block, text) for text in texts]


def differences(
    pages: Path | tuple[Path, ...], layout: Layout, server: ServerProcess
) -> Iterator[tuple[str, str, str]]:
    """Run a session; give each command whose output is another one, with what its page says and what is real."""
    written = [page.read_text() for page in ((pages,) if isinstance(pages, Path) else pages)]
    for said, real in zip(written, renewed(written, server, layout), strict=True):
        for old, new in zip(blocks_of(said), blocks_of(real), strict=True):
            steps = dict(enumerate(new.steps))
            for number, step in enumerate(old.steps):
                output = steps[number].output if number in steps else ""
                if by_kind(step.output) != by_kind(output):
                    yield step.command, by_kind(step.output), by_kind(output)


def _started(block: Block, server: ServerProcess) -> list[Step]:
    """Return the one command of the server's terminal with what the server has said."""
    [step] = block.steps
    return [Step(step.command, "".join(f"{line}\n" for line in server.said))]


def _shown(output: str, server: ServerProcess) -> str:
    output = output.replace(server.url.removeprefix("http://"), DEFAULT_ADDRESS)
    return _TOKEN.sub(r"prm_\1_…", _CURL.sub(_SHOWN_CURL, output))


def _trimmed(output: str) -> str:
    return "".join(line.rstrip() + "\n" for line in output.splitlines())


class CheckoutServer(ServerProcess):
    """A server as `make run` starts it: in a checkout, by the program in `.venv/bin`, with its data beside it."""

    def __init__(self, checkout: Path) -> None:
        super().__init__(checkout / "postroom-data")
        self._command = [".venv/bin/postroom", "serve"]
        self._environment |= {"POSTROOM_BIND": "127.0.0.1:0", "PATH": SYSTEM_PATH}
        self._directory = checkout
        (checkout / ".venv").symlink_to(sys.prefix)


def serving(pages: tuple[Path, ...], folder: Path) -> ServerProcess:
    """Return a server for a session, to be entered. `folder` is an empty one."""
    if any(block.terminal == SERVER for page in pages for block in blocks_of(page.read_text())):
        return CheckoutServer(folder)
    return ServerProcess(folder / "data", **SETTINGS.get(pages[0], {}))


if __name__ == "__main__":
    wanted = {Path(name).resolve() for name in sys.argv[1:]}
    for pages, layout in PAGES:
        if wanted and wanted.isdisjoint(pages):
            continue
        with tempfile.TemporaryDirectory() as folder, serving(pages, Path(folder)) as running:
            texts = renewed([page.read_text() for page in pages], running, layout)
            for page, text in zip(pages, texts, strict=True):
                page.write_text(text)
