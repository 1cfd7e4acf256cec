"""`docs/agents.md`: its hooks say what a harness is to run, and what they run does it; its links lead somewhere."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from postroom.cli.digest import LEAST_BYTES
from postroom.client import Client
from postroom.draining import BYTES_PER_TOKEN, Item
from tests.postroom.drained import Letter, item, page
from tests.postroom.scriptedserver import ScriptedServer, answer
from tests.postroom.serverproc import ServerProcess, clean_environment
from tests.postroom.test_api_docs import anchor
from tests.postroom.tour import AGENTS, SYSTEM_PATH, as_printed, differences

PAGE = AGENTS.read_text()
HOOK = re.compile(r"<!-- hook: ([a-z-]+) -->\n```json\n(.*?)```", re.S)

HOOK_SECONDS = 20
"""For a shell, the interpreter and a busy machine."""

WHOLE_CHARACTERS = 10_000
"""What a harness takes from a hook whole, as the page says."""


def commands(value: Any) -> Iterator[str]:
    """Give every command in a hook's configuration, wherever it stands."""
    if isinstance(value, dict):
        if isinstance(value.get("command"), str):
            yield value["command"]
        for member in value.values():
            yield from commands(member)
    elif isinstance(value, list):
        for member in value:
            yield from commands(member)


HOOKS = [(name, command) for name, text in HOOK.findall(PAGE) for command in commands(json.loads(text))]


def test_the_examples_print_what_the_page_says(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "data") as server:
        for command, said, real in differences(AGENTS, as_printed, server):
            assert said == real, command


def test_three_harnesses_have_a_hook_two_of_them_before_each_prompt() -> None:
    events = {name: set(json.loads(text)["hooks"]) for name, text in HOOK.findall(PAGE)}
    each_time = {"SessionStart", "UserPromptSubmit"}
    assert events == {"claude-code": each_time, "codex": each_time, "cursor": {"sessionStart"}}


@pytest.mark.parametrize(("name", "command"), HOOKS)
def test_what_a_hook_runs_hands_the_digest_over(name: str, command: str, tmp_path: Path) -> None:
    new = page([item(Letter(1, "id-1", 0.9, text='"quoted" \\ and\nmore'))], 0, 1)
    with ScriptedServer(answer(new)) as server:
        environment = clean_environment(
            POSTROOM_URL=server.url,
            POSTROOM_TOKEN="token",
            XDG_STATE_HOME=str(tmp_path),
            PATH=f"{Path(sys.executable).parent}:{SYSTEM_PATH}",
        )
        hook = subprocess.run(
            ["/bin/sh", "-c", command],
            env=environment,
            input='{"prompt": "not for us"}',
            capture_output=True,
            text=True,
            timeout=HOOK_SECONDS,
            check=True,
        )
    text = json.loads(hook.stdout)["additional_context"] if name == "cursor" else hook.stdout
    assert text.startswith("Postroom: 1 new message in your inbox.")
    assert '| "quoted" \\ and\n| more\n' in text
    assert hook.stderr == ""


@pytest.mark.parametrize(("name", "command"), HOOKS)
def test_a_hook_s_budget_is_one_that_its_harness_takes(name: str, command: str) -> None:
    [budget] = re.findall(r"--budget-tokens (\d+)", command)
    assert LEAST_BYTES <= int(budget) * BYTES_PER_TOKEN <= WHOLE_CHARACTERS


def test_the_program_that_drains_for_ever_hands_over_what_comes(tmp_path: Path) -> None:
    [program] = re.findall(r"<!-- drainer -->\n```python\n(.*?)```", PAGE, re.S)

    class Enough(Exception):
        """Ends it."""

    def handle(item: Item) -> None:
        raise Enough(item.untrusted)

    letter = page([item(Letter(1, "id-1", 0.9, text="Hello"))], 0, 1)
    with (
        ScriptedServer(answer(letter)) as server,
        Client(server.url, "token") as api,
        pytest.raises(Enough, match="Hello"),
    ):
        exec(program, {"api": api, "handle": handle})  # noqa: S102 - our own page


def test_the_links_of_the_page_lead_somewhere() -> None:
    for link in re.findall(r"\]\(([^)]+)\)", PAGE):
        page, _, place = link.partition("#")
        text = (AGENTS.parent / page).read_text() if page else PAGE
        assert not place or place in {anchor(heading) for heading in re.findall(r"^#+ (.+)$", text, re.M)}, (
            link
        )
