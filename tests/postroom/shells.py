"""The commands of a page, run as its reader runs them: in one shell, and in further terminals where the page says so.

A terminal beside the first is a shell of its own that reads its commands from a pipe, so what it runs may last while
the first one goes on. It begins with the server's address and no token. After a block of such a terminal the
first one waits until as much was printed there as the block shows.
"""

import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from tests.postroom.serverproc import ServerProcess, clean_environment

SHELL_SECONDS = 180
"""For the commands of one session, on a busy machine."""

PATIENCE_TENTHS = 300
"""How long the first terminal waits for another one, in tenths of a second."""

SYSTEM_PATH = "/usr/local/bin:/usr/bin:/bin"

_END = "-- end of output --"

_MARK = f"echo '{_END}'\n"

_PREAMBLE = f"""exec 2>&1
printed() {{ for _ in {{1..{PATIENCE_TENTHS}}}; do [ "$(wc -l < ".$1.out")" -ge "$2" ] && return; sleep 0.1; done; }}
"""


class Step(NamedTuple):
    """A command with what is printed below it. Without one, it is what its terminal's last command goes on to say."""

    command: str
    output: str


class Block(NamedTuple):
    """A block of commands, and the terminal that they are typed into: "" is the first one."""

    terminal: str
    steps: Sequence[Step]


def commands_of(text: str) -> Iterator[Step]:
    """Give each command of a block, which may have several lines, with the output printed below it."""
    command, output = "", ""
    for line in text.splitlines(keepends=True):
        if line.startswith("$ "):
            if command or output:
                yield Step(command, output)
            command, output = line.removeprefix("$ ").rstrip("\n"), ""
        elif line.startswith("> ") and command and not output:
            command += "\n" + line.removeprefix("> ").rstrip("\n")
        else:
            output += line
    if command or output:
        yield Step(command, output)


def play(blocks: Sequence[Block], files: list[tuple[str, str]], server: ServerProcess) -> list[list[Step]]:
    """Run the commands of all blocks, beside some files, and return each block's with what they really print."""
    script = _PREAMBLE + "".join(_script(blocks))
    helped = not any("export PATH=" in step.command for block in blocks for step in block.steps)
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
        outputs = {"": shell.stdout}
        for name in {block.terminal for block in blocks} - {""}:
            outputs[name] = (Path(folder) / f".{name}.out").read_text()
    played: list[list[Step]] = [[] for _ in blocks]
    for name, output in outputs.items():
        mine = [number for number, block in enumerate(blocks) if block.terminal == name]
        for number, steps in zip(mine, _told([blocks[n].steps for n in mine], output), strict=True):
            played[number] = steps
    return played


def _script(blocks: Sequence[Block]) -> Iterator[str]:
    lines: dict[str, int] = {}
    for block in blocks:
        if not block.terminal:
            yield from (f"{step.command}\n{_MARK}" for step in block.steps)
            continue
        name = block.terminal
        if name not in lines:
            lines[name] = -1  # the mark of the last command comes only when that has ended
            yield f"mkfifo .{name}.in; env -u POSTROOM_TOKEN setsid bash .{name}.in </dev/null >.{name}.out 2>&1 &\n"
            yield f"disown; {name}_terminal=$!; exec {{to_{name}}}>.{name}.in\n"
        for step in block.steps:
            lines[name] += len(step.output.splitlines()) + bool(step.command)
            if step.command:
                yield f"cat >&$to_{name} <<'{_END}'\n{step.command}\n{_MARK}{_END}\n"
        yield f"printed {name} {lines[name]}\n"
    for name in lines:
        yield f"exec {{to_{name}}}>&-\n"
        ended = f"timeout {PATIENCE_TENTHS // 10} tail -s 0.1 --pid=${name}_terminal -f /dev/null"
        yield f"{ended} || kill -- -${name}_terminal\n"
    yield "exit 0\n"


def _told(blocks: Sequence[Sequence[Step]], output: str) -> Iterator[list[Step]]:
    """Give the blocks of one terminal with its real output; what a command says later is of the block that goes on."""
    outputs = iter(output.split(f"{_END}\n"))
    steps = [step for block in blocks for step in block]
    rest: list[str] = []
    told = []
    for number, step in enumerate(steps):
        if step.command:
            rest = next(outputs).splitlines(keepends=True)
        goes_on = number + 1 < len(steps) and not steps[number + 1].command
        shown = len(step.output.splitlines()) if goes_on else len(rest)
        told.append(Step(step.command, "".join(rest[:shown])))
        rest = rest[shown:]
    real = iter(told)
    return (list(islice(real, len(block))) for block in blocks)
