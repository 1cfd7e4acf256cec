"""Whatever is sent to `/mcp`, it is answered as JSON-RPC says, and the server is whole afterwards."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from storage.lock import DATABASE_NAME
from storage.verify import verify_file
from tests.docs.pages import ROOT
from tests.hostile.mcp import KEPT, VERSIONS, Endpoint, furnish, messages
from tests.live.api import Api
from tests.live.harness import Server

EXAMPLES = 100
"""Of each token in an ordinary run."""
AT_A_TIME = 1_000
HOW = settings(
    deadline=None,
    database=None,
    phases=(Phase.generate, Phase.shrink),
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with Server(tmp_path_factory.mktemp("mcp") / "data") as running:
        yield running


@pytest.fixture(scope="module")
def tokens(server: Server) -> dict[str, str]:
    with Api(server.url, server.token) as api:
        agent, machine = furnish(api)
    return {"admin": server.token, "agent": agent, "machine": machine}


def hidden(server: Server, tokens: dict[str, str]) -> tuple[str, ...]:
    return (*tokens.values(), str(server.data_dir), str(ROOT))


@pytest.mark.parametrize("path", KEPT, ids=lambda path: path.name)
def test_a_kept_message_is_answered_in_every_version_to_whoever_sends_it(
    path: Path, server: Server, tokens: dict[str, str]
) -> None:
    for token in tokens.values():
        endpoint = Endpoint(server.url, token, hidden(server, tokens))
        for version in VERSIONS:
            endpoint.send(path.read_bytes(), version)
        endpoint.close()


@pytest.mark.parametrize("who", ["admin", "agent", "machine"])
def test_whatever_is_sent_is_answered_and_shows_nothing_of_the_inside(
    who: str, server: Server, tokens: dict[str, str], request: pytest.FixtureRequest
) -> None:
    minutes = request.config.getoption("--fuzz-minutes")
    until = time.monotonic() + (0.0 if minutes is None else minutes * 60 / len(tokens))
    endpoint = Endpoint(server.url, tokens[who], hidden(server, tokens))
    executed = 0

    def play(number: int, examples: int) -> None:
        @seed(number)
        @settings(HOW, max_examples=examples)
        @given(messages(endpoint.tools()), st.sampled_from(VERSIONS))
        def one(body: bytes, version: str) -> None:
            nonlocal executed
            executed += 1
            endpoint.send(body, version)

        one()

    try:
        number = 0
        play(number, EXAMPLES if minutes is None else AT_A_TIME)
        while time.monotonic() < until:
            number += 1
            play(number, AT_A_TIME)
    finally:
        endpoint.close()
    print(f"mcp, {who}: {executed:,} messages")


def test_the_server_is_whole_afterwards(server: Server) -> None:
    with Api(server.url, server.token) as api:
        assert api.get("/me")["kind"] == "admin"
    assert server.stop() == 0
    assert "Traceback" not in server.output
    assert '"level":"error"' not in server.output
    assert "[error" not in server.output
    assert verify_file(server.data_dir / DATABASE_NAME, lambda step: None).findings == ()
