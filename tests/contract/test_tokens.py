"""Tokens: stored, replaced, touched, listed by id."""

import hashlib
from typing import Any

from storage.protocols import Log
from storage.records import TokenRecord
from tests.contract.builders import START_US, Do, See
from tests.contract.conftest import OpenLog


def token(token_id: str, **fields: Any) -> TokenRecord:
    return TokenRecord(
        token_id=token_id,
        hash=hashlib.sha256(fields.pop("text", token_id).encode()).digest(),
        kind=fields.pop("kind", "agent"),
        created_at=START_US,
        **fields,
    )


FULL = token(
    "full",
    inboxes=("a", "b"),
    agent="ada",
    machine="m1",
    machines=("m1", "m2"),
    name="Ada's",
    expires_at=START_US + 10,
    revoked_at=START_US + 5,
    last_used_at=START_US + 1,
)
EVERYTHING = token("everything", inboxes=None)
NOTHING = token("nothing", kind="machine")


async def put(log: Log, *tokens: TokenRecord) -> None:
    def run(tx):
        for one in tokens:
            tx.put_token(one)

    await log.commit(Do(run, grows=False))


async def tokens(log: Log) -> list[TokenRecord]:
    return await log.read(See(lambda snapshot: snapshot.tokens()))


async def touch(log: Log, *used: tuple[str, int]) -> None:
    await log.commit(Do(lambda tx: tx.touch_tokens(used), grows=False))


async def test_every_token_comes_back_as_it_was_put_in_the_order_of_ids(store: Log) -> None:
    assert await tokens(store) == []
    await put(store, NOTHING, FULL, EVERYTHING)
    assert await tokens(store) == [EVERYTHING, FULL, NOTHING]


async def test_a_token_is_replaced_by_its_id(store: Log) -> None:
    await put(store, FULL, EVERYTHING)
    changed = token("full", text="new text", inboxes=(), revoked_at=START_US + 9)
    await put(store, changed)
    assert await tokens(store) == [EVERYTHING, changed]


async def test_last_use_only_moves_forward(store: Log) -> None:
    await put(store, FULL, NOTHING)
    await touch(store, ("full", START_US + 7), ("nothing", START_US + 3), ("absent", START_US))
    await touch(store, ("full", START_US + 6))
    full, nothing = await tokens(store)
    assert (full.last_used_at, nothing.last_used_at) == (START_US + 7, START_US + 3)
    await touch(store)
    assert await tokens(store) == [full, nothing]


async def test_tokens_survive_a_restart(open_log: OpenLog) -> None:
    async with open_log() as log:
        await put(log, FULL, EVERYTHING, NOTHING)
    async with open_log() as log:
        assert await tokens(log) == [EVERYTHING, FULL, NOTHING]
