"""Agents on machines from a shell, against a real server: what the scripted answers of `test_cli_mesh` stand for."""

import json
import secrets
from collections.abc import Iterator
from typing import Any

import pytest
from click.testing import Result

from tests.postroom.conftest import Command
from tests.postroom.test_cli import fine, sentence


class Box:
    """A machine with two agents, seen with the machine's token in a session of one's own."""

    def __init__(self, command: Command) -> None:
        self.command = command
        self.name = f"box-{secrets.token_hex(4)}"
        self.first, self.second = f"a-{self.name}", f"b-{self.name}"
        made = json.loads(fine(command("machine", "create", self.name, "--json")))
        self.token = made["token"]
        for agent_id in (self.first, self.second):
            fine(command("agent", "create", agent_id, "--machine", self.name, "--no-token"))

    def as_(self, agent_id: str, *words: str, **environment: str) -> Result:
        """Run a command in an agent's name, with the machine's token."""
        asked = {"POSTROOM_TOKEN": self.token, "POSTROOM_AGENT": agent_id, "POSTROOM_SESSION": "one"}
        return self.command(*words, **(asked | environment))

    def json(self, agent_id: str, *words: str) -> Any:
        return json.loads(fine(self.as_(agent_id, *words, "--json")))


@pytest.fixture
def box(command: Command) -> Iterator[Box]:
    made = Box(command)
    yield made
    command("machine", "delete", made.name, "--yes")


def test_a_machine_s_token_speaks_for_each_of_its_agents(box: Box) -> None:
    assert box.json(box.first, "checkin", "--status", "here")["agent_id"] == box.first
    assert box.json(box.second, "checkin")["shared_reader"] is False
    sent = box.json(box.first, "tell", box.second, "--payload", '{"n": 1.50}')
    assert sent["delivered_to"] == [box.second]
    assert '| {"n": 1.50}\n' in fine(box.as_(box.second, "inbox"))
    assert box.json(box.second, "inbox")["messages"] == []
    assert [one["id"] for one in box.json(box.second, "inbox", "--peek")["messages"]] == [sent["id"]]
    assert box.json(box.second, "ack", sent["id"])["acked"] == [sent["id"]]
    assert fine(box.as_(box.second, "ack", sent["id"])) == "Acknowledged 0. 1 were before.\n"
    [message] = box.json(box.first, "sent")["messages"]
    [receipt] = message["recipients"]
    assert all(receipt[f"{what}_at"] for what in ("stored", "served", "acked"))


def test_another_session_of_the_same_agent_is_told_of(box: Box) -> None:
    assert fine(box.as_(box.first, "checkin")).startswith(f"Checked in {box.first} on {box.name}")
    assert box.as_(box.first, "checkin").stderr == ""
    assert "another session" in box.as_(box.first, "checkin", POSTROOM_SESSION="two").stderr


def test_a_broadcast_passes_by_who_has_said_farewell(box: Box) -> None:
    box.json(box.first, "checkin")
    box.json(box.second, "checkin")
    assert fine(box.as_(box.first, "broadcast", "Freeze")).startswith(f"Sent to {box.second} (")
    fine(box.as_(box.second, "checkout"))
    assert "no_recipient" in sentence(box.as_(box.first, "broadcast", "Freeze"), 5)
    states = {one["agent_id"]: one["state"] for one in box.json(box.first, "agents", "--all")["agents"]}
    assert states == {box.first: "active", box.second: "gone"}


def test_the_same_key_sends_once_and_another_text_conflicts(box: Box) -> None:
    words = ("tell", box.second, "--no-require-alive", "--idempotency-key", "k")
    first = box.json(box.first, *words, "one")
    assert box.json(box.first, *words, "one") == first
    assert "conflict" in sentence(box.as_(box.first, *words, "two"), 6)
    assert len(box.json(box.second, "inbox")["messages"]) == 1


def test_names_that_are_wrong_are_answered_with_those_that_are_near(box: Box) -> None:
    box.json(box.second, "checkin")
    line = sentence(box.as_(box.first, "tell", box.second + "x", "Hi"), 5)
    assert f"Near: {box.second}" in line
    assert f"Alive: {box.second}." in line


def test_somebody_else_s_agent_is_refused_and_deleting_the_machine_ends_its_token(
    box: Box, command: Command
) -> None:
    fine(command("agent", "create", f"c-{box.name}", "--no-token"))
    sentence(box.as_(f"c-{box.name}", "inbox"), 4)
    sentence(box.as_("no-such-agent", "inbox"), 4)
    assert json.loads(fine(command("machine", "show", box.name, "--json")))["agents"] == 2
    fine(command("machine", "delete", box.name, "--yes"))
    sentence(box.as_(box.first, "inbox"), 4)
    sentence(command("agent", "show", box.first), 5)
    sentence(command("machine", "show", box.name), 5)
