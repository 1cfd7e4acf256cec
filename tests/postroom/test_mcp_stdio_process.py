"""`postroom mcp` as a client starts it: a process with pipes, against a real server."""

import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from types import TracebackType
from typing import Any, Self

import pytest

from tests.postroom.conftest import Command, run
from tests.postroom.scriptedserver import ScriptedServer, answer
from tests.postroom.serverproc import ServerProcess, clean_environment
from tests.postroom.test_cli import fine
from tests.postroom.test_stats import until_open

LINE_SECONDS = 20.0
"""For one line; milliseconds, but for the start of the interpreter."""
END_SECONDS = 1.5
"""From the end of stdin to the end of the process, open wait or not; clients kill it after two."""


class McpProcess:
    """`postroom mcp`. A context manager: leaving it closes stdin, and the process must end by itself."""

    def __init__(self, server: ServerProcess, *words: str, token: str | None = None) -> None:
        self._command = [sys.executable, "-m", "postroom", "mcp", *words]
        self._environment = clean_environment(
            POSTROOM_URL=server.url, POSTROOM_TOKEN=server.token if token is None else token
        )
        self._lines: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()

    def send(self, document: object) -> None:
        """Write one line."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(document).encode() + b"\n")
        self.process.stdin.flush()

    def call(self, number: int | str, tool: str, **arguments: Any) -> None:
        """Write a call of a tool."""
        self.send(
            {
                "jsonrpc": "2.0",
                "id": number,
                "method": "tools/call",
                "params": {"name": tool, "arguments": arguments},
            }
        )

    def line(self) -> Any:
        """Return the next line, decoded."""
        line = self._lines.get(timeout=LINE_SECONDS)
        assert line is not None, "the process has ended"
        return json.loads(line)

    def close(self) -> int:
        """Close stdin and return the exit code, which must come soon."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        began = time.monotonic()
        code = self.process.wait(LINE_SECONDS)
        assert time.monotonic() - began < END_SECONDS
        return code

    def rest(self) -> list[bytes]:
        """Return what else it wrote until its end."""
        return list(iter(lambda: self._lines.get(timeout=LINE_SECONDS), None))

    def __enter__(self) -> Self:
        self.process = subprocess.Popen(
            self._command,
            env=self._environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        self._reader = threading.Thread(target=self._read)
        self._reader.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.process.kill()
        self.process.wait(LINE_SECONDS)
        self._reader.join(LINE_SECONDS)
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            assert pipe is not None
            pipe.close()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._lines.put(line)
        self._lines.put(None)


PING = {"jsonrpc": "2.0", "id": "ping", "method": "ping"}


def cancel(number: int | str) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": number}}


def waits_for(process: McpProcess, number: int | str, slug: str) -> None:
    process.call(number, "wait_for_messages", inbox=slug, after=0, timeout_seconds=60)


def test_a_wait_is_in_nobodys_way_and_ends_with_its_message(server: ServerProcess, command: Command) -> None:
    fine(command("inbox", "create", "mcp-wakes", "--no-token"))
    with McpProcess(server) as process:
        waits_for(process, 1, "mcp-wakes")
        until_open(server, 1)
        process.send(PING)
        assert process.line() == {"jsonrpc": "2.0", "id": "ping", "result": {}}
        fine(command("send", "mcp-wakes", "--data", "x"))
        woken = process.line()
        assert woken["id"] == 1
        assert [one["seq"] for one in woken["result"]["structuredContent"]["messages"]] == [1]
        assert process.close() == 0
        assert process.rest() == []


def test_a_call_that_is_cancelled_frees_its_slot_and_is_never_answered(
    server: ServerProcess, command: Command
) -> None:
    fine(command("inbox", "create", "mcp-cancels", "--no-token"))
    with McpProcess(server) as process:
        waits_for(process, "1", "mcp-cancels")
        waits_for(process, 1, "mcp-cancels")
        until_open(server, 2)
        process.send(cancel(1))
        until_open(server, 1)
        process.send(cancel("1"))
        until_open(server, 0)
        process.send(cancel("unknown"))
        process.send(PING)
        assert process.line()["id"] == "ping"
        assert process.close() == 0
        assert process.rest() == []


def test_it_ends_with_its_stdin_and_gives_up_what_waits(server: ServerProcess, command: Command) -> None:
    fine(command("inbox", "create", "mcp-ends", "--no-token"))
    with McpProcess(server) as process:
        waits_for(process, 1, "mcp-ends")
        until_open(server, 1)
        process.send(PING)
        assert process.close() == 0
        assert [json.loads(line)["id"] for line in process.rest()] == ["ping"]
        until_open(server, 0)
        assert process.process.stderr is not None
        assert process.process.stderr.read() == b""


def test_it_ends_when_nobody_reads_its_answers(server: ServerProcess) -> None:
    incoming, outgoing = os.pipe()
    environment = clean_environment(POSTROOM_URL=server.url, POSTROOM_TOKEN=server.token)
    command = [sys.executable, "-m", "postroom", "mcp"]
    with subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=outgoing) as process:
        os.close(outgoing)
        os.close(incoming)
        assert process.stdin is not None
        process.stdin.write(json.dumps(PING).encode() + b"\n")
        process.stdin.flush()
        assert process.wait(LINE_SECONDS) == 0


def test_ctrl_c_ends_it(server: ServerProcess) -> None:
    with McpProcess(server) as process:
        process.send(PING)
        process.line()
        process.process.send_signal(signal.SIGINT)
        assert process.process.wait(LINE_SECONDS) == 130
        assert process.rest() == []


def test_options_of_the_url_are_options_here(server: ServerProcess, command: Command) -> None:
    fine(command("inbox", "create", "mcp-pages", "--no-token"))
    for _ in range(20):
        fine(command("send", "mcp-pages", "--data", "x" * 1000))
    with McpProcess(server, "--page-bytes", "8192", "--empty-lists") as process:
        process.call(1, "query_messages", inbox="mcp-pages", after=0, bodies=True)
        assert 1 <= len(process.line()["result"]["structuredContent"]["messages"]) < 20
        process.send({"jsonrpc": "2.0", "id": 2, "method": "resources/list"})
        assert process.line()["result"] == {"resources": []}
        assert process.close() == 0


def test_a_bad_token_is_said_at_the_start(server: ServerProcess) -> None:
    result = run("mcp", POSTROOM_URL=server.url, POSTROOM_TOKEN="prm_agent_unknown")
    assert (result.exit_code, result.stdout) == (4, "")
    assert "unauthenticated" in result.stderr
    without = run("mcp", POSTROOM_URL=server.url)
    assert without.exit_code == 4
    assert "POSTROOM_TOKEN" in without.stderr


@pytest.mark.parametrize("url", ["nonsense", "ftp://127.0.0.1", "http://[::1"])
def test_a_bad_url_is_said_at_the_start(url: str) -> None:
    result = run("mcp", POSTROOM_URL=url, POSTROOM_TOKEN="prm_agent_x")
    assert (result.exit_code, result.stdout) == (2, "")


def test_a_server_without_the_endpoint_is_said_at_the_start() -> None:
    missing = b'{"error":{"code":"not_found","message":"There is nothing at this address."}}'
    with ScriptedServer(answer(missing, status="404 Not Found")) as server:
        result = run("mcp", POSTROOM_URL=server.url, POSTROOM_TOKEN="prm_agent_x")
    assert (result.exit_code, result.stdout) == (5, "")
    assert "no MCP endpoint" in result.stderr
