"""An agent's mail, over REST and MCP with equal results: what is served, what a peek shows, what acknowledging does."""

import hashlib
from pathlib import Path
from typing import Any

import pytest
import trio.testing

from actors.units import Reading
from storage.memory import MemoryStore
from tests.contract.conftest import opens
from tests.virtual import pass_time
from tests.wire.mesh_scene import WAYS, MeshScene, Way, mesh_scene

ROUTED_SECONDS = 0.1
"""Of virtual time, in which the router has long done what there is to do."""

TABLES = (
    "SELECT * FROM message ORDER BY 1, 2",
    "SELECT * FROM entry ORDER BY 1, 2",
    "SELECT * FROM reader ORDER BY 1, 2",
    "SELECT * FROM receipt ORDER BY 1, 2",
)
"""What a peek must not touch."""

both_ways = pytest.mark.parametrize("way", WAYS)


async def texts(at: MeshScene, way: Way, agent_id: str, **how: Any) -> list[Any]:
    """Read an agent's mail; return the payloads."""
    answer = await (await at.agent(agent_id)).do(way, "agent_inbox", agent_id=agent_id, **how)
    return [message["untrusted"]["payload"] for message in answer["messages"]]


async def broadcast(at: MeshScene, way: Way, sender: str, **members: Any) -> Any:
    """Send to all of the sender's machine, and let the router deliver it."""
    answer = await (await at.agent(sender)).do(way, "agent_send", **{"msg_type": "note", **members})
    await pass_time(ROUTED_SECONDS)
    return answer


@both_ways
async def test_a_plain_read_never_repeats_and_a_peek_shows_it_until_it_is_acknowledged(
    way: Way, tmp_path: Path, mock_clock: trio.testing.MockClock
) -> None:
    async with mesh_scene(tmp_path) as at:
        sent = [await at.send(way, "ada", "bob", payload={"n": n}) for n in range(3)]
        assert await at.read(way, "bob", peek=True) == sent
        assert await at.read(way, "bob", limit=2) == sent[:2]
        assert await at.read(way, "bob", peek=True) == sent
        assert await at.read(way, "bob") == sent[2:]
        assert await at.read(way, "bob") == []
        assert await at.read(way, "bob", peek=True) == sent
        await at.ack(way, "bob", sent[1])
        assert await at.read(way, "bob", peek=True) == [sent[0], sent[2]]
        assert await at.read(way, "bob") == []
        assert await at.read(way, "bob", peek=True, limit=1) == [sent[0]]


@both_ways
@pytest.mark.parametrize("peeked", [False, True])
async def test_an_acknowledged_message_is_not_served_whatever_was_peeked(
    way: Way, peeked: bool, tmp_path: Path, mock_clock: trio.testing.MockClock
) -> None:
    async with mesh_scene(tmp_path) as at:
        first, second = [await at.send(way, "ada", "bob") for _ in range(2)]
        if peeked:
            assert await at.read(way, "bob", peek=True) == [first, second]
        assert await at.ack(way, "bob", first) == {"acked": [first], "already_acked": [], "unknown": []}
        assert await at.read(way, "bob") == [second]
        assert await at.read(way, "bob", peek=True) == [second]


async def test_a_request_that_shows_nothing_marks_nothing(
    tmp_path: Path, mock_clock: trio.testing.MockClock
) -> None:
    async with mesh_scene(tmp_path) as at:
        sent = await at.send("rest", "ada", "bob")
        reply = await (await at.agent("bob")).call("HEAD", "/agent/inbox?agent_id=bob")
        assert (reply.status, reply.body) == (200, b"")
        assert await at.read("rest", "bob") == [sent]


@both_ways
async def test_unread_is_what_is_not_acknowledged_after_the_call(
    way: Way, tmp_path: Path, mock_clock: trio.testing.MockClock
) -> None:
    async with mesh_scene(tmp_path) as at:
        bob = await at.agent("bob")
        sent = [await at.send(way, "ada", "bob") for _ in range(3)]
        for how in ({"peek": True}, {}, {}):
            assert (await bob.do(way, "agent_inbox", agent_id="bob", **how))["unread"] == 3
        await at.ack(way, "bob", sent[0])
        assert (await bob.do(way, "agent_inbox", agent_id="bob"))["unread"] == 2
        assert (await bob.do(way, "agent_checkin", agent_id="bob"))["unread"] == 2
        assert (await at.seen("bob"))["unread"] == 2


@both_ways
async def test_a_message_is_shown_as_it_is_everywhere_with_its_payload(
    way: Way, tmp_path: Path, mock_clock: trio.testing.MockClock
) -> None:
    async with mesh_scene(tmp_path) as at:
        bob = await at.agent("bob")
        sent = await at.send(way, "ada", "bob", msg_type="handoff", payload={"pr": 7})
        answer = await bob.do(way, "agent_inbox", agent_id="bob")
        assert answer.keys() == {"messages", "unread"}
        [message] = answer["messages"]
        whole = (await bob.call("GET", "/v1/inboxes/agent.bob/messages/1")).json
        assert message == whole
        assert message.pop("received_at") <= "2030-04"
        assert len(message.pop("epoch")) == 16
        assert message == {
            "id": sent,
            "inbox": "agent.bob",
            "seq": 1,
            "method": None,
            "source_ip": None,
            "size": 8,
            "verified": None,
            "verifier": None,
            "verify_error": None,
            "sender": "ada",
            "untrusted": {"msg_type": "handoff", "payload": {"pr": 7}, "event_type": "handoff"},
        }


@both_ways
async def test_a_broadcast_that_one_has_read_is_unread_for_the_others(
    way: Way, tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async with mesh_scene(tmp_path) as at:
        sent = (await broadcast(at, way, "ada", payload="all"))["id"]
        assert await at.read(way, "bob") == [sent]
        await at.ack(way, "bob", sent)
        assert await at.read(way, "cyd", peek=True) == [sent]
        assert await at.read(way, "cyd") == [sent]
        assert await at.read(way, "ada") == []
        assert await at.read(way, "dan") == []


@both_ways
async def test_acknowledgements_out_of_order_fold_over_what_is_contiguous_and_agree_with_pulls(
    way: Way, tmp_path: Path, mock_clock: trio.testing.MockClock
) -> None:
    async with mesh_scene(tmp_path) as at:
        bob = await at.agent("bob")
        sent = [await at.send(way, "ada", "bob", payload=n) for n in range(5)]

        async def pulled() -> tuple[int, list[int]]:
            page = (await bob.call("POST", "/v1/inbox:pull")).json
            return page["cursor"], sorted(item["delivery_seq"] for item in page["items"])

        assert await pulled() == (0, [1, 2, 3, 4, 5])
        await at.ack(way, "bob", sent[2], sent[1])
        assert await pulled() == (0, [1, 4, 5])
        await at.ack(way, "bob", sent[0])
        assert await pulled() == (3, [4, 5])
        assert await at.read(way, "bob", peek=True) == sent[3:]
        page = (await bob.call("POST", "/v1/inbox:pull", {"ack": 4})).json
        assert page["cursor"] == 4
        assert await at.read(way, "bob") == sent[4:]
        assert await at.ack(way, "bob", sent[3]) == {"acked": [], "already_acked": [sent[3]], "unknown": []}


@both_ways
async def test_what_is_not_ones_own_is_unknown_whatever_it_is(
    way: Way, tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async with mesh_scene(tmp_path) as at:
        mine = await at.send(way, "ada", "bob")
        theirs = await at.send(way, "ada", "cyd")
        sent = (await (await at.agent("dan")).do(way, "agent_send", msg_type="note"))["id"]
        made_up = "01ARZ3NDEKTSV4RRFFQ69G5FAV"
        asked = [theirs, mine.lower(), mine, made_up, "no id", sent, theirs]
        assert await at.ack(way, "bob", *asked) == {
            "acked": [mine.lower()],
            "already_acked": [],
            "unknown": [theirs, made_up, sent, "no id"],
        }
        assert await at.read(way, "cyd") == [theirs]
        assert await at.ack(way, "bob") == {"acked": [], "already_acked": [], "unknown": []}


@both_ways
async def test_a_page_ends_where_it_would_be_too_large_and_what_was_not_sent_is_not_served(
    way: Way, tmp_path: Path, mock_clock: trio.testing.MockClock
) -> None:
    async with mesh_scene(tmp_path, page_bytes=16_384) as at:
        payloads = [f"{n}" * 3_000 for n in range(8)]
        for payload in payloads:
            await at.send(way, "ada", "bob", payload=payload)
        found: list[str] = []
        while page := await texts(at, way, "bob"):
            assert len(page) < len(payloads)
            assert await texts(at, way, "bob", peek=True) == payloads[: len(page)]
            found += page
        assert found == payloads


@both_ways
async def test_mail_of_every_kind_is_read_by_the_scope_of_the_token_that_reads(
    way: Way, tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async with mesh_scene(tmp_path) as at:
        await at.served.inbox("hooks")
        wide = await at.token("agent", agent="bob", inboxes=["hooks"])
        narrow, machine = await at.agent("bob"), await at.machine()
        beacon = {"inboxes": ["hooks", "commons"]}
        assert (await wide.call("PUT", "/v1/beacons/all", beacon)).status == 200
        async with at.served.connect() as client:
            assert (await client.request("POST", "/in/hooks", [], b'{"n": 1}')).status == 200
        note = {"type": "created", "kind": "note", "subject": "s", "text": "t"}
        ada = await at.agent("ada")
        published = (await ada.call("POST", "/v1/publish", note)).json["diff_id"]
        await pass_time(ROUTED_SECONDS)
        hook, told = (await wide.do(way, "agent_inbox", agent_id="bob", peek=True))["messages"]
        assert hook["untrusted"]["body"] == {"n": 1}
        assert told["untrusted"]["text"] == "t"
        for caller in (narrow, machine):
            answer = await caller.do(way, "agent_inbox", agent_id="bob", peek=True)
            assert [message["id"] for message in answer["messages"]] == [published]
            assert answer["unread"] == 1
            refused = await caller.do(way, "agent_ack", agent_id="bob", message_ids=[hook["id"]])
            assert refused["unknown"] == [hook["id"]]


# -- what a peek leaves alone ----------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
async def test_a_peek_changes_no_row_of_messages_entries_readers_and_receipts(
    kind: str, tmp_path: Path, mock_clock: trio.testing.MockClock
) -> None:
    async with opens(kind, tmp_path)() as store, mesh_scene(tmp_path, store) as at:
        for way in WAYS:
            for n in range(3):
                await at.send(way, "ada", "bob", payload=n)
            await at.ack(way, "bob", (await at.read(way, "bob", limit=2))[0])
            before = await rows(store)
            for how in ({}, {"limit": 1}, {"background": True}, {"wake_token": "x"}):
                assert await at.read(way, "bob", peek=True, **how)
            assert await rows(store) == before
            assert await at.read(way, "bob")
            assert await rows(store) != before


async def rows(store: Any) -> str:
    """Return a hash of all rows that a read could mark."""
    if isinstance(store, MemoryStore):
        state = store._state
        kept: list[Any] = [state.messages, state.receipts]
        kept += [(inbox.rows, inbox.readers) for inbox in state.inboxes.values()]
        return hashlib.sha256(repr(kept).encode()).hexdigest()
    return str(await store.read(Reading(_hash_of_tables)))


def _hash_of_tables(snapshot: Any) -> str:
    digest = hashlib.sha256()
    for table in TABLES:
        for row in snapshot.sql.rows(table):
            digest.update(repr(row).encode())
    return digest.hexdigest()
