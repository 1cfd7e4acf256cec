"""Requests made from the OpenAPI document, good and bad, are answered as it says."""

from pathlib import Path

import pytest

from tests.hostile.openapi import WAITS, made_requests, run
from tests.live.api import Api
from tests.live.harness import Server

EXAMPLES = 2
"""Of each operation and kind in an ordinary run."""
SEED = 1


@pytest.mark.parametrize("who", ["admin", "agent"])
def test_answers_are_those_of_the_document(who: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    minutes = request.config.getoption("--fuzz-minutes")
    with Server(tmp_path / "data", auth_failures_per_minute=0) as server:
        token = server.token
        with Api(server.url, token) as api:
            api.send("demo", b'{"n":1}')
            if who == "agent":
                api.ok("POST", "/agents", {"agent_id": "ada"}, status=201)
                token = api.ok(
                    "POST", "/tokens", {"kind": "agent", "agent": "ada", "inboxes": "all"}, status=201
                )["token"]
        how: tuple[str, ...] = ("--phases", "fuzzing", "--max-examples", str(EXAMPLES))
        if minutes is not None:
            how = ("--max-time", str(int(minutes * 60 / 2)))
        code, said = run(
            server,
            token,
            tmp_path,
            *how,
            without=WAITS if minutes is None else (),
            seed=SEED if minutes is None else None,
        )
        print(f"openapi, {who}: {made_requests(said)} requests")
        assert code == 0, said[-6_000:]
        assert server.stop() == 0
        assert "Traceback" not in server.output
