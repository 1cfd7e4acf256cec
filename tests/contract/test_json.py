"""Whether a body is JSON is decided by one table, strictly."""

import pytest

from storage.protocols import Log
from tests.contract.builders import See
from tests.contract.json_cases import JSON_CASES


async def is_json(log: Log, body: bytes) -> bool:
    return await log.read(See(lambda snapshot: snapshot.is_json(body), slow=True))


@pytest.mark.parametrize(("body", "expected"), JSON_CASES)
async def test_bytes_are_json_or_not(store: Log, body: bytes, expected: bool) -> None:
    assert await is_json(store, body) is expected
