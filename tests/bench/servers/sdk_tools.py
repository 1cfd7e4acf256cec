"""`query_messages` as the official Python SDK serves it: low-level server, stateless, plain JSON answers.

Written as the SDK's own examples are. It has less to do than Postroom: the messages lie in memory, decoded once at the
start, nobody is authenticated, and no arguments are looked at but the two that are used.
"""

import json
import sys
from pathlib import Path
from typing import Any

import msgspec
from mcp.server.lowlevel import Server
from mcp_types import CallToolResult, ListToolsResult, TextContent, Tool
from starlette.applications import Starlette

from tests.bench.servers.seeded import Seeded


def app(seeded: Seeded) -> Starlette:
    """Return the application."""
    tool = Tool.model_validate(seeded.tool)
    latest = seeded.messages[-1]["seq"]

    async def list_tools(context: Any, params: Any) -> ListToolsResult:
        return ListToolsResult(tools=[tool])

    async def call_tool(context: Any, params: Any) -> CallToolResult:
        after, limit = params.arguments["after"], params.arguments["limit"]
        page = seeded.messages[after : after + limit]
        result = {
            "messages": page,
            "latest_seq": latest,
            "epoch": seeded.epoch,
            "gap": False,
            "next_after": page[-1]["seq"],
        }
        text = TextContent(type="text", text=json.dumps(result))
        return CallToolResult(content=[text], structured_content=result)

    server = Server("bench", on_list_tools=list_tools, on_call_tool=call_tool)
    return server.streamable_http_app(json_response=True, stateless_http=True)


def seeded_app() -> Starlette:
    """Return the application over the data in the file that the command line names."""
    return app(msgspec.json.decode(Path(sys.argv[1]).read_bytes(), type=Seeded))
