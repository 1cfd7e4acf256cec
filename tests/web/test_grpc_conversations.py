"""The conversations of the contract over gRPC, through the real pulling, with answers equal to those of REST."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.pulls import CONVERSATIONS, MAX_BATCH, Conversation
from tests.web.grpc_stack import Stack, served
from tests.wire.mail_scene import Agent, MailScene, mail_scene
from web.grpc.postroom.v1.inbox_pb2 import PullInboxRequest
from web.options import WebOptions
from web.pulling import Pulling
from web.slots import Slots


@asynccontextmanager
async def both_ways(tmp_path: Path, max_batch: int = 100) -> AsyncIterator[tuple[MailScene, Agent, Stack]]:
    """Run a server with one agent, which has REST and gRPC."""
    async with mail_scene(tmp_path, max_batch) as at:
        agent = await at.agent()
        [(_, value)] = agent.headers
        pulling = Pulling(at.world.service, WebOptions(), Slots(1, 1))
        async with served(at.world, pulling, value.removeprefix("Bearer ")) as stack:
            yield at, agent, stack


async def pull(stack: Stack, call: dict[str, int]) -> Any:
    reply = await stack.call(PullInboxRequest(**call))
    assert reply.code == "OK", reply
    return reply.message


@pytest.mark.parametrize("conversation", CONVERSATIONS, ids=lambda one: one.name)
async def test_a_conversation_goes_as_the_contract_says(conversation: Conversation, tmp_path: Path) -> None:
    async with both_ways(tmp_path, MAX_BATCH) as (at, agent, stack):
        await at.seed(agent, conversation)
        for step in conversation.steps:
            page = await pull(stack, step.call)
            assert {
                "items": [item.delivery_seq for item in page.items],
                "cursor": page.cursor,
                "window_high": page.window_high,
                "has_more": page.has_more,
            } == step.answer, step.call


async def test_the_json_is_that_of_rest_byte_for_byte(tmp_path: Path) -> None:
    bodies = (b'{ "n" : 1e2, "n" : 1.0 }', b"\xff", "Grüße ✓".encode(), b"")
    async with both_ways(tmp_path) as (at, agent, stack):
        await at.deliver(agent, *[await at.message(body=body) for body in bodies])
        rest = await agent.call("POST", "/v1/inbox:pull", {"since": 0})
        page = await pull(stack, {"since": 0})
        assert len(page.items) == len(bodies)
        for sent, item in zip(rest.json["items"], page.items, strict=True):
            assert b'"diff":' + item.diff_json + b',"delivery":' in rest.body
            record = {
                field.name: getattr(item.delivery, field.name) for field in item.delivery.DESCRIPTOR.fields
            }
            assert {
                name: list(value) if name in ("also_via", "matched_terms") else value
                for name, value in record.items()
            } == sent["delivery"]
