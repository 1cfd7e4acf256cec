"""The official Python client under remote control: JSON lines say what to do, JSON lines tell what came of it.

`python -m tests.mcp.python_client MODE URL`: over HTTP, with `legacy` for the handshake and `auto` for what the client
does by itself; `stdio` starts `postroom mcp` instead. The token comes from POSTROOM_TOKEN. The operations are described
in `tests/mcp/peers.py`.
"""

import json
import os
import sys
from contextlib import AsyncExitStack
from typing import Any

import anyio
from mcp import Client, MCPError, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client
from mcp_types import TextContent


class Peer:
    """One client and at most one call that was started and not waited for."""

    def __init__(self, client: Client, tasks: Any) -> None:
        self._client = client
        self._tasks = tasks
        self._scope = anyio.CancelScope()
        self._outcome: dict[str, Any] = {}
        self._ended = anyio.Event()

    async def do(self, asked: dict[str, Any]) -> dict[str, Any]:
        """Carry out one operation and return what came of it."""
        match asked["op"]:
            case "connect":
                session = self._client.session
                return {
                    "version": session.protocol_version,
                    "server": self._client.server_info.name,
                    "instructions": self._client.instructions,
                }
            case "list":
                listed = await self._client.list_tools()
                return {"tools": [tool.model_dump(by_alias=True, exclude_none=True) for tool in listed.tools]}
            case "call":
                return await self._call(asked)
            case "start":
                self._ended, self._scope = anyio.Event(), anyio.CancelScope()
                self._tasks.start_soon(self._run, asked)
                return {}
            case "finish":
                await self._ended.wait()
                return self._outcome
            case "cancel":
                self._scope.cancel()
                await self._ended.wait()
                return {}
            case other:
                raise ValueError(other)

    async def _run(self, asked: dict[str, Any]) -> None:
        with self._scope:
            self._outcome = await self._call(asked)
        self._ended.set()

    async def _call(self, asked: dict[str, Any]) -> dict[str, Any]:
        try:
            result = await self._client.call_tool(asked["tool"], asked["arguments"])
        except MCPError as error:
            return {"error": {"code": error.code, "message": str(error)}}
        texts = [block.text for block in result.content if isinstance(block, TextContent)]
        return {
            "isError": bool(result.is_error),
            "structured": result.structured_content,
            "text": "".join(texts),
        }


async def serve(mode: str, url: str) -> None:
    token = os.environ["POSTROOM_TOKEN"]
    async with AsyncExitStack() as stack:
        if mode == "stdio":
            arguments = ["-m", "postroom", "mcp", "--url", url]
            server: Any = StdioServerParameters(
                command=sys.executable, args=arguments, env={"POSTROOM_TOKEN": token}
            )
        else:
            http = create_mcp_http_client(headers={"Authorization": f"Bearer {token}"})
            await stack.enter_async_context(http)
            server = streamable_http_client(f"{url}/mcp", http_client=http)
        client = await stack.enter_async_context(
            Client(server, mode="legacy" if mode == "legacy" else "auto")
        )
        tasks = await stack.enter_async_context(anyio.create_task_group())
        peer = Peer(client, tasks)
        while line := await anyio.to_thread.run_sync(sys.stdin.readline):
            print(json.dumps(await peer.do(json.loads(line))), flush=True)
        tasks.cancel_scope.cancel()


if __name__ == "__main__":
    anyio.run(serve, *sys.argv[1:])
