"""Other people's MCP clients, each in a process of its own, told what to do line by line.

Operations, one JSON object a line, answered by one:

- `connect`: `{version, server, instructions}`, once connected;
- `list`: `{tools}`;
- `call` with `tool` and `arguments`: `{isError, structured, text}`, or `{error: {code, message}}` for an error of the
  protocol, or of a client that finds that the structured content does not match the tool's output schema;
- `start` with the same: makes the call without waiting for its result, which `finish` returns; `cancel` gives it up.
"""

import json
import os
import queue
import subprocess
import sys
import threading
from types import TracebackType
from typing import Any, Self

from tests.node import NODE

ANSWER_SECONDS = 40.0
"""For one operation: none takes more than two, a start of the process included; the rest is for a busy machine."""

PYTHON = (sys.executable, "-m", "tests.mcp.python_client")
TYPESCRIPT = (str(NODE), "tests/mcp/typescript_client.mjs")

PEERS: dict[str, tuple[str, ...]] = {
    "python, handshake": (*PYTHON, "legacy"),
    "python": (*PYTHON, "auto"),
    "python over stdio": (*PYTHON, "stdio"),
    "typescript 1.x": (*TYPESCRIPT, "sdk"),
    "typescript 2.x": (*TYPESCRIPT, "client"),
    "typescript 2.x over stdio": (*TYPESCRIPT, "stdio"),
}


class Peer:
    """One client process. A context manager: leaving it closes its stdin, and it must end by itself."""

    def __init__(self, command: tuple[str, ...], url: str, token: str) -> None:
        environment = {name: value for name, value in os.environ.items() if not name.startswith("POSTROOM_")}
        self._process = subprocess.Popen(
            [*command, url],
            env={**environment, "POSTROOM_TOKEN": token, "PYTHON": sys.executable},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def do(self, op: str, tool: str = "", **arguments: Any) -> Any:
        """Have the client do something and return what it tells."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"op": op, "tool": tool, "arguments": arguments}) + "\n")
        self._process.stdin.flush()
        line = self._lines.get(timeout=ANSWER_SECONDS)
        assert line is not None, "the client has ended"
        return json.loads(line)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        try:
            code = self._process.wait(ANSWER_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            raise
        finally:
            self._reader.join()
            self._process.stdout.close()
        assert error is not None or code == 0

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.put(line)
        self._lines.put(None)
