"""The official clients, Python and TypeScript, against a real server: the whole way of an agent, in both eras."""

import json
import time
from collections.abc import Iterator
from typing import Any

import jsonschema
import pytest

from tests.live.api import Api
from tests.live.harness import Server
from tests.mcp.peers import PEERS, Peer

TOOLS = ["list_inboxes", "query_messages", "get_message", "wait_for_messages"]

FREED_SECONDS = 1.0
"""From a client's giving up its call to the slot of its wait being free."""
OPENED_SECONDS = 20.0
"""From a client's being told to wait to the wait being open; milliseconds on a quiet machine."""

LONG_WAIT_SECONDS = 60

HANDSHAKE = "2025-11-25"
NEWEST = "2026-07-28"

OLDER = ("python, handshake", "typescript 1.x")
"""Clients that speak the versions with a handshake. They give up a call by a notification and leave its connection
open; the newer ones hang up.
"""


@pytest.fixture(scope="module")
def restarted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server that may be restarted: nobody but these clients use it."""
    with Server(tmp_path_factory.mktemp("mcp") / "data") as running:
        running.keep_port()
        yield running


@pytest.mark.parametrize("name", PEERS)
def test_an_official_client_does_all_that_an_agent_does(name: str, restarted: Server) -> None:
    with Api(restarted.url, restarted.token) as api:
        slug = api.inbox()
        for n in range(3):
            api.send(slug, b'{"n":%d}' % n)
        with Peer(PEERS[name], restarted.url, api.agent([slug])) as peer:
            agent = Agent(peer, slug)
            agent.meets_the_server(HANDSHAKE if name in OLDER else NEWEST)
            agent.reads()
            agent.is_told_what_is_wrong()
            agent.is_woken(api)
            agent.waits_in_vain()
            agent.gives_up_a_wait(api)
            restarted.stop()
            restarted.start()
            agent.reads()


class Agent:
    """What an agent does with one client, and what it must see."""

    def __init__(self, peer: Peer, slug: str) -> None:
        self._peer = peer
        self._slug = slug
        self._schemas: dict[str, Any] = {}

    def meets_the_server(self, version: str) -> None:
        told = self._peer.do("connect")
        assert told["version"] == version
        assert told["server"] == "postroom"
        assert "untrusted" in told["instructions"]
        tools = self._peer.do("list")["tools"]
        assert [tool["name"] for tool in tools] == TOOLS
        self._schemas = {tool["name"]: tool["outputSchema"] for tool in tools}

    def reads(self) -> None:
        [inbox] = self._call("list_inboxes")["inboxes"]
        assert inbox["slug"] == self._slug
        page = self._call("query_messages", inbox=self._slug, after=0, limit=2)
        assert [message["seq"] for message in page["messages"]] == [1, 2]
        assert page["epoch"] == inbox["epoch"]
        message = self._call("get_message", inbox=self._slug, seq=3, epoch=page["epoch"])
        assert message["untrusted"]["body"] == {"n": 2}
        there = self._call("wait_for_messages", inbox=self._slug, after=2)
        assert there["messages"][0]["seq"] == 3

    def is_told_what_is_wrong(self) -> None:
        for arguments, said in (
            ({"inbox": "elsewhere"}, "not_found: "),
            ({"inbox": self._slug, "limit": 0}, "invalid_argument: limit"),
            ({"inbox": self._slug, "lmit": 1}, "invalid_argument: lmit"),
            ({"inbox": self._slug, "after": 0, "epoch": "another"}, "epoch_changed: "),
        ):
            refused = self._peer.do("call", "query_messages", **arguments)
            assert refused["isError"], refused
            assert refused["structured"] is None
            assert refused["text"].startswith(said)
        assert "error" in self._peer.do("call", "no_such_tool")

    def is_woken(self, api: Api) -> None:
        self._start_waiting(api)
        seq = api.send(self._slug, b'{"wakes":true}')
        woken = self._checked("wait_for_messages", self._peer.do("finish"))
        assert [message["seq"] for message in woken["messages"]] == [seq]
        assert woken["next_after"] == seq

    def waits_in_vain(self) -> None:
        latest = self._latest()
        empty = self._call("wait_for_messages", inbox=self._slug, after=latest, timeout_seconds=1)
        assert empty["messages"] == []
        assert empty["next_after"] == latest

    def gives_up_a_wait(self, api: Api) -> None:
        self._start_waiting(api)
        began = time.monotonic()
        self._peer.do("cancel")
        _until_open(api, 0, began + FREED_SECONDS)
        assert self._call("list_inboxes")["inboxes"]

    def _start_waiting(self, api: Api) -> None:
        arguments = {"after": self._latest(), "timeout_seconds": LONG_WAIT_SECONDS}
        self._peer.do("start", "wait_for_messages", inbox=self._slug, **arguments)
        _until_open(api, 1, time.monotonic() + OPENED_SECONDS)

    def _latest(self) -> int:
        [inbox] = self._call("list_inboxes")["inboxes"]
        return int(inbox["latest_seq"])

    def _call(self, tool: str, **arguments: Any) -> Any:
        return self._checked(tool, self._peer.do("call", tool, **arguments))

    def _checked(self, tool: str, result: Any) -> Any:
        """Return a result's structured content, which its client has validated, and which we do once more."""
        assert not result.get("isError", True), result
        assert json.loads(result["text"]) == result["structured"]
        jsonschema.validate(result["structured"], self._schemas[tool])
        return result["structured"]


def _until_open(api: Api, count: int, deadline: float) -> None:
    """Return when the server has so many waits open. Fails at the deadline."""
    while (there := api.get("/stats")["waits"]["open"]) != count:
        assert time.monotonic() < deadline, f"{there} waits are open, not {count}"
