"""`docs/mcp.md` says what the endpoint does: its examples are run, its tables and names are those of the code."""

import re
from pathlib import Path

import msgspec

from postroom.settings import BY_KEY
from tests.actors.world import running
from tests.postroom.layout import laid_out
from tests.postroom.serverproc import ServerProcess
from tests.postroom.test_api_docs import anchor
from tests.postroom.tour import MCP, differences
from web.mcp.agents import AgentTools
from web.mcp.cancelling import Cancelling
from web.mcp.exchange import SERVED
from web.mcp.mailbox import Mailbox
from web.mcp.mesh import MeshTools
from web.mcp.tools import Tool, everybody
from web.options import WebOptions
from web.slots import Slots

PAGE = MCP.read_text()


async def tools() -> dict[str, Tool]:
    async with running() as world:
        options, slots = WebOptions(), Slots(1, 1)
        readers = Mailbox(world.service, options, slots, Cancelling()).tools()
        agents = AgentTools(world.service, options, slots).tools()
        machines = MeshTools(world.service, options).tools()
        return {tool.name: tool for tool in (*readers, *agents, *machines)}


def section(name: str) -> str:
    """Return the text about a tool."""
    found = re.search(rf"^### `{name}`\n(.*?)(?=^##)", PAGE, re.M | re.S)
    assert found is not None, name
    return found[1]


def test_the_examples_print_what_the_page_says(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "data") as server:
        for command, said, real in differences(MCP, laid_out, server):
            assert said == real, command


async def test_the_page_has_every_tool_in_its_order_and_every_argument() -> None:
    known = await tools()
    assert re.findall(r"^### `(\w+)`$", PAGE, re.M) == list(known)
    for name, tool in known.items():
        text = section(name)
        for argument in tool.input_schema["properties"]:
            assert f"`{argument}`" in text, (name, argument)


async def test_the_tables_have_no_argument_that_a_tool_does_not_take() -> None:
    known = await tools()
    for name in ("query_messages", "wait_for_messages", "pull_inbox", "agent_inbox"):
        listed = {
            argument
            for row in re.findall(r"^\| (`.*?) \|", section(name), re.M)
            for argument in re.findall(r"`(\w+)`", row)
        }
        assert listed == set(known[name].input_schema["properties"])


async def test_the_table_of_hints_is_that_of_the_tools() -> None:
    known = await tools()
    told: dict[str, list[bool]] = {}
    for names, *hints in re.findall(r"^\| (`[^|]*) \|" + r" (yes|no) \|" * 4, PAGE, re.M):
        told |= {name: [hint == "yes" for hint in hints] for name in re.findall(r"`(\w+)`", names)}
    assert told == {
        name: list(msgspec.structs.astuple(tool.hints))
        for name, tool in known.items()
        if tool.seen_by is not everybody
    }


def test_the_page_names_every_version_and_only_settings_that_there_are() -> None:
    for version in SERVED:
        assert version in PAGE
    named = set(re.findall(r"`([A-Z]+(?:_[A-Z]+)+)[`( ]", PAGE))
    assert named
    assert {name.lower() for name in named} <= BY_KEY.keys()
    assert {key for key in BY_KEY if key.startswith("mcp_")} <= {name.lower() for name in named}


def test_the_links_of_the_page_lead_somewhere() -> None:
    for link in re.findall(r"\]\(([^)]+)\)", PAGE):
        if link.startswith("https://"):
            continue
        page, _, place = link.partition("#")
        text = (MCP.parent / page).read_text() if page else PAGE
        assert not place or place in {anchor(heading) for heading in re.findall(r"^#+ (.+)$", text, re.M)}, (
            link
        )
