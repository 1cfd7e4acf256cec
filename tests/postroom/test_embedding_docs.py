"""`docs/embedding.md`: its programs print what the page says, and the page knows every method and every name."""

import inspect
import re
import subprocess
import sys
from pathlib import Path

import postroom
from tests.postroom.serverproc import clean_environment

PAGE = Path(__file__).parents[2] / "docs" / "embedding.md"
PROGRAM = re.compile(r"<!-- program: (\w+\.py) -->\n```python\n(.*?)```\n.*?```text\n(.*?)```", re.S)
PROGRAM_SECONDS = 60


def test_the_programs_print_what_the_page_says(tmp_path: Path) -> None:
    found = PROGRAM.findall(PAGE.read_text())
    assert len(found) == 2
    for name, text, said in found:
        (tmp_path / name).write_text(text)
        done = subprocess.run(
            [sys.executable, name],
            cwd=tmp_path,
            env=clean_environment(POSTROOM_BIND="nonsense"),
            capture_output=True,
            text=True,
            timeout=PROGRAM_SECONDS,
        )
        assert (done.stdout, done.stderr, done.returncode) == (said, "", 0), name


def test_the_page_tells_of_every_method_and_every_name() -> None:
    text = PAGE.read_text()
    methods = [name for name, _ in inspect.getmembers(postroom.Server, inspect.iscoroutinefunction)]
    assert "append" in methods
    for name in methods:
        if not name.startswith("_") and name != "until_quiet":
            assert f"`await {name}(" in text, name
    for name in postroom.__all__:
        assert name in text or name == "Server", name


PROGRAM_THAT_LOGS = """
import logging, trio, postroom
logging.basicConfig(level=logging.INFO, format="%(name)s %(levelname)s %(message)s")
async def main():
    async with postroom.open(postroom.configure(data_dir="data"), http=False):
        pass
trio.run(main)
"""


def test_the_server_logs_where_its_program_has_logging_go(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM_THAT_LOGS],
        cwd=tmp_path,
        env=clean_environment(),
        capture_output=True,
        text=True,
        timeout=PROGRAM_SECONDS,
    )
    assert done.stdout == ""
    lines = done.stderr.splitlines()
    assert [line.split()[:3] for line in lines] == [
        ["postroom", "INFO", "ready"],
        ["postroom", "INFO", "stopped"],
    ]
