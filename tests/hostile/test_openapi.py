"""Requests made from the OpenAPI document, good and bad, are answered as it says."""

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.hostile.openapi import KEPT, WAITS, made_requests, run
from tests.live.api import CALL_SECONDS, Api
from tests.live.harness import Server
from tests.openapi import Contract

EXAMPLES = 2
"""Of each operation and kind in an ordinary run."""
SEED = 1


@pytest.fixture(scope="module")
def kept_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with Server(tmp_path_factory.mktemp("kept") / "data") as running:
        yield running


@pytest.mark.parametrize("path", KEPT, ids=lambda path: path.name)
def test_a_kept_request_is_answered_as_the_document_says(path: Path, kept_server: Server) -> None:
    """A file is an operation of the document, a target, and a body, each from a line of its own on."""
    operation, target, body = path.read_bytes().split(b"\n", 2)
    key, method = operation.decode(), operation.split()[0].decode()
    http = httpx.Client(base_url=kept_server.url, timeout=CALL_SECONDS, trust_env=False)
    with http:
        contract = Contract(http.get("/openapi.json").content)
        headers = {"Authorization": f"Bearer {kept_server.token}", "Content-Type": "application/json"}
        answer = http.request(method, target.decode(), content=body, headers=headers)
    assert answer.status_code < 500, answer.text
    assert contract.faults_of_answer(key, answer.status_code, answer.json()) == []


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
