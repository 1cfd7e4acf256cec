"""Every example of the documentation is run or checked by a test, or says in the source that it is not, and why."""

import re

import pytest

from tests.docs.pages import PAGES, ROOT, Fence, fences
from tests.postroom.tour import PAGES as SESSIONS

PLAIN = {"", "text"}
"""Languages of blocks that are drawings, or what a program above them prints."""

CHECKED = {
    "run": "tests/postroom/tour.py",
    "file": "tests/postroom/tour.py",
    "hook": "tests/postroom/test_agent_docs.py",
    "drainer": "tests/postroom/test_agent_docs.py",
    "wake": "tests/postroom/test_waking_docs.py",
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

MOST_THAT_ARE_NOT_RUN = 4

EVERY = [fence for page in PAGES for fence in fences(page)]


@pytest.mark.parametrize("fence", EVERY, ids=lambda fence: fence.place)
def test_a_block_is_checked_or_says_why_not(fence: Fence) -> None:
    if fence.language in PLAIN:
        assert not re.match(r"\$ ", fence.text), "a console"
        return
    kind = re.split(r"[ :]", fence.mark)[0]
    assert kind in CHECKED or NOT_RUN.fullmatch(fence.mark), fence.mark


def test_few_blocks_are_not_run() -> None:
    assert len([fence for fence in EVERY if fence.mark.startswith("not run")]) <= MOST_THAT_ARE_NOT_RUN


@pytest.mark.parametrize(("kind", "module"), CHECKED.items())
def test_what_checks_a_kind_of_block_looks_for_it(kind: str, module: str) -> None:
    assert f"<!-- {kind}" in (ROOT / module).read_text()


def test_a_page_whose_commands_are_run_is_part_of_a_session() -> None:
    played = {page for pages, _ in SESSIONS for page in pages}
    for fence in EVERY:
        if fence.mark.startswith(("run", "file")):
            assert fence.page in played, fence.place
