"""Draining an inbox on a real database: the conversations of the contract over REST and MCP, with equal answers.

The rows are seeded through the actor, because nobody can send a message with a score of his choice.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from storage.options import StorageOptions
from storage.sqlite import open_store
from tests.pulls import CONVERSATIONS, MAX_BATCH, Conversation
from tests.wire.mail_scene import by_seq, mail_scene
from tests.wire.test_pulls import WAYS


@pytest.mark.parametrize("conversation", CONVERSATIONS, ids=lambda one: one.name)
async def test_a_conversation_goes_alike_over_rest_and_mcp(
    conversation: Conversation, tmp_path: Path
) -> None:
    answers: dict[str, list[Any]] = {way: [] for way in WAYS}
    async with (
        open_store(StorageOptions(data_dir=tmp_path / "data")) as store,
        mail_scene(tmp_path, MAX_BATCH, store=store) as at,
    ):
        for way, over in WAYS.items():
            agent = await at.agent(way)
            await at.seed(agent, conversation)
            for step in conversation.steps:
                page = await over(agent, step.call)
                assert by_seq(page) == step.answer, step.call
                answers[way].append(_comparable(page))
    first, *others = answers.values()
    assert all(other == first for other in others)


def _comparable(page: Any) -> str:
    """Return a page as text, without what belongs to one message or moment."""
    for item in page["items"]:
        for name in ("diff_id", "origin"):
            item["diff"].pop(name)
        item["delivery"].pop("delivered_at")
    return json.dumps(page)
