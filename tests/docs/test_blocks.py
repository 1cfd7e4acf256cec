"""Every example of the documentation is run or checked by a test, or says in the source that it is not, and why."""

import re
from pathlib import Path

import pytest

from tests.docs.pages import PAGES, ROOT, Fence, fences, indented
from tests.postroom.tour import PAGES as SESSIONS

PLAIN = {"", "text"}
"""Languages of blocks that are drawings, or what a program above them prints."""

CHECKED = {
    "run": "tests/postroom/tour.py",
    "file": "tests/postroom/tour.py",
    "hook": "tests/postroom/test_agent_docs.py",
    "drainer": "tests/postroom/test_agent_docs.py",
    "wake": "tests/postroom/test_waking_docs.py",
    "usage": "tests/docs/test_commands.py",
    "settings": "tests/postroom/test_docs.py",
    "stopped": "tests/postroom/test_operations.py",
    "printed": "tests/postroom/test_tutorial.py",
    "make": "tests/postroom/test_readme.py",
    "checkout": "tests/postroom/test_openapi_page.py",
    "loop": "tests/postroom/test_follow.py",
    "connect": "tests/postroom/test_connect.py",
    "program": "tests/postroom/test_embedding_docs.py",
    "prometheus": "tests/postroom/test_metrics_docs.py",
    "proto": "tests/web/test_grpc_docs.py",
    "install": "tests/packages/test_packages.py",
    "deploy": "tests/packages/test_deploying.py",
}
"""By the first word of the comment above a block: what runs or checks it."""

NOT_RUN = re.compile(r"not run: \w.{7,}")

MOST_THAT_ARE_NOT_RUN = 11

_SECRET_FILE = re.compile(r"> ?\S*(?:token|key|secret|\.env)\b")

EVERY = [fence for page in PAGES for fence in fences(page)]


@pytest.mark.parametrize("fence", EVERY, ids=lambda fence: fence.place)
def test_a_block_is_checked_or_says_why_not(fence: Fence) -> None:
    if fence.language in PLAIN:
        assert not re.match(r"\$ ", fence.text), "a console"
        return
    kind = re.split(r"[ :]", fence.mark)[0]
    assert kind in CHECKED or NOT_RUN.fullmatch(fence.mark), fence.mark


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_no_block_is_made_by_indentation_alone(page: Path) -> None:
    """It could say neither what checks it nor why nothing does."""
    assert list(indented(page)) == []


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Say:\n\n    $ rm x\n", [3]),
        ("    first\n\nthen\n", [1]),
        ("- item\n  goes on\n\n  and on\n", []),
        ("- item\n\n      code\n", [3]),
        ("1. item\n\n   and on\n\n       code\n\nafter\n\n    code\n", [5, 9]),
        ("text\n    goes on\n", []),
        ("```text\n    inside\n```\n\n    outside\n", [5]),
    ],
)
def test_a_block_that_is_made_by_indentation_is_seen(text: str, found: list[int], tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(text)
    assert [line for line, _ in indented(page)] == found


def test_few_blocks_are_not_run() -> None:
    assert len([fence for fence in EVERY if fence.mark.startswith("not run")]) <= MOST_THAT_ARE_NOT_RUN


@pytest.mark.parametrize(("kind", "module"), CHECKED.items())
def test_what_checks_a_kind_of_block_looks_for_it(kind: str, module: str) -> None:
    text = (ROOT / module).read_text()
    assert f"<!-- {kind}" in text or f'"{kind}"' in text


def test_a_page_whose_commands_are_run_is_part_of_a_session() -> None:
    played = {page for pages, _ in SESSIONS for page in pages}
    for fence in EVERY:
        if fence.mark.startswith(("run", "file")):
            assert fence.page in played, fence.place


def test_a_secret_is_written_into_a_file_that_its_owner_alone_can_read() -> None:
    lines = [line for fence in EVERY for line in fence.text.splitlines() if _SECRET_FILE.search(line)]
    assert len(lines) >= 4
    assert [line for line in lines if "umask 077;" not in line] == []
