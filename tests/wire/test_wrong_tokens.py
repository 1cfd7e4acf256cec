"""Wrong tokens over the whole stack: wherever they are sent, they count, and a valid one is never held up by them."""

from pathlib import Path

import pytest
import trio
import trio.testing
from structlog.testing import capture_logs

from tests.wire.client import Headers, Reply
from tests.wire.harness import PEER
from tests.wire.mcp_calls import PLAIN, request
from tests.wire.scene import Scene, scene
from web.attempts import KEPT_BACK_SECONDS, STORM
from web.options import WebOptions

WRONG = ("Authorization", "Bearer prm_agent_wrong")
PROXY = f"{PEER[0]}/32"
PING = request("ping")

PLACES = (
    ("GET", "/v1/inboxes", b""),
    ("GET", "/v1/inboxes/demo/stream", b""),
    ("GET", "/v1/inboxes/demo/wait?after=0", b""),
    ("POST", "/v1/inboxes", b"{}"),
    ("HEAD", "/v1/inboxes", b""),
    ("OPTIONS", "/v1/inboxes", b""),
    ("GET", "/v1/nothing", b""),
    ("POST", "/mcp", PING),
    ("GET", "/mcp", b""),
    ("HEAD", "/mcp", b""),
    ("OPTIONS", "/mcp", b""),
)


async def ask(at: Scene, *headers: tuple[str, str], place: int = 0) -> Reply:
    method, target, body = PLACES[place]
    fields: Headers = [*PLAIN, *headers] if body == PING else headers
    async with at.served.connect() as client:
        return await client.request(method, target, fields, body or None)


async def wrong(at: Scene, count: int, *headers: tuple[str, str]) -> list[int]:
    return [(await ask(at, WRONG, *headers)).status for _ in range(count)]


@pytest.mark.parametrize("place", range(len(PLACES)), ids=lambda n: " ".join(map(str, PLACES[n][:2])))
async def test_wherever_they_are_sent_the_next_is_told_to_wait(
    tmp_path: Path, place: int, mock_clock: trio.testing.MockClock
) -> None:
    async with scene(tmp_path, auth_failures_per_minute=2) as at:
        for _ in range(2):
            assert (await ask(at, WRONG, place=place)).status == 401
        reply = await ask(at, WRONG, place=place)
        assert (reply.status, reply.header("retry-after")) == (429, "30")
        assert reply.header("cache-control") == "no-store"
        if PLACES[place][0] == "HEAD":
            assert reply.body == b""
        else:
            assert reply.json["error"].keys() == {"code", "message"}
            assert reply.code == "rate_limited"


async def test_all_places_share_one_count(tmp_path: Path, mock_clock: trio.testing.MockClock) -> None:
    async with scene(tmp_path, auth_failures_per_minute=len(PLACES)) as at:
        for place in range(len(PLACES)):
            assert (await ask(at, WRONG, place=place)).status == 401
        for place in range(len(PLACES)):
            assert (await ask(at, WRONG, place=place)).status == 429


async def test_the_count_goes_down_as_time_passes(tmp_path: Path, mock_clock: trio.testing.MockClock) -> None:
    async with scene(tmp_path) as at:
        assert await wrong(at, 32) == [401] * 30 + [429] * 2
        mock_clock.jump(1.9)
        assert await wrong(at, 1) == [429]
        mock_clock.jump(0.1)
        assert await wrong(at, 2) == [401, 429]
        mock_clock.jump(60)
        assert await wrong(at, 31) == [401] * 30 + [429]


async def test_a_valid_token_is_never_refused_for_its_neighbours(
    tmp_path: Path, mock_clock: trio.testing.MockClock
) -> None:
    async with scene(tmp_path, auth_failures_per_minute=1) as at:
        assert await wrong(at, 5) == [401, *[429] * 4]
        assert (await ask(at, *at.headers)).status == 200
        posted = await ask(at, *at.headers, place=7)
        assert (posted.status, posted.json["result"]) == (200, {})
        assert await wrong(at, 1) == [429], "nor does it make good for them"


@pytest.mark.parametrize("place", [0, 7], ids=["REST", "MCP"])
async def test_a_storm_is_answered_late_and_valid_tokens_at_once(
    tmp_path: Path, place: int, autojump_clock: trio.testing.MockClock
) -> None:
    async with scene(tmp_path, auth_failures_per_minute=1) as at:
        assert (await wrong(at, 1 + STORM)) == [401, *[429] * STORM]
        began = trio.current_time()
        assert (await ask(at, WRONG, place=place)).status == 429
        kept_back = trio.current_time()
        assert kept_back - began >= KEPT_BACK_SECONDS
        assert (await ask(at, *at.headers, place=place)).status == 200
        assert trio.current_time() - kept_back < KEPT_BACK_SECONDS


async def test_a_missing_token_counts_nothing_and_is_never_told_to_wait(
    tmp_path: Path, mock_clock: trio.testing.MockClock
) -> None:
    async with scene(tmp_path, auth_failures_per_minute=1) as at:
        for _ in range(5):
            assert (await ask(at)).status == 401
        assert await wrong(at, 2) == [401, 429]
        assert (await ask(at)).status == 401


@pytest.mark.parametrize(
    "headers",
    [
        [("Authorization", "Basic eDp5")],
        [("Authorization", "Bearer")],
        [("Authorization", "Bearer " + "A" * 5000)],
        [("Authorization", "Bearer \xff\xfe")],
        [WRONG, WRONG],
    ],
)
async def test_a_credential_of_the_wrong_form_is_a_wrong_one(
    tmp_path: Path, headers: list[tuple[str, str]], mock_clock: trio.testing.MockClock
) -> None:
    async with scene(tmp_path, auth_failures_per_minute=1) as at:
        assert (await ask(at, *headers)).status == 401
        assert (await ask(at, *headers)).status == 429


async def test_a_revoked_token_is_a_wrong_one(tmp_path: Path, mock_clock: trio.testing.MockClock) -> None:
    async with scene(tmp_path, auth_failures_per_minute=1) as at:
        await at.served.world.tokens.revoke(at.token.token_id)
        assert (await ask(at, *at.headers)).status == 401
        assert (await ask(at, *at.headers)).status == 429


async def test_a_wait_whose_token_is_revoked_is_no_attempt(
    tmp_path: Path, mock_clock: trio.testing.MockClock
) -> None:
    async with scene(tmp_path, auth_failures_per_minute=1) as at, at.served.connect() as client:
        await client.send(at.get(at.target(timeout_seconds=60)))
        await trio.testing.wait_all_tasks_blocked()
        await at.served.world.tokens.revoke(at.token.token_id)
        assert (await client.reply("GET")).status == 401
        assert await wrong(at, 2) == [401, 429]


async def test_zero_is_no_limit(tmp_path: Path, mock_clock: trio.testing.MockClock) -> None:
    async with scene(tmp_path, auth_failures_per_minute=0) as at:
        assert set(await wrong(at, 50)) == {401}


async def test_behind_a_proxy_each_client_has_a_count_of_its_own(
    tmp_path: Path, mock_clock: trio.testing.MockClock
) -> None:
    async with scene(tmp_path, auth_failures_per_minute=1, trusted_proxies=(PROXY,)) as at:
        for client in ("203.0.113.9", "203.0.113.10", "2001:db8::1", "2001:db8:0:1::1"):
            assert await wrong(at, 2, ("X-Forwarded-For", f"198.51.100.1, {client}")) == [401, 429]
            assert await wrong(at, 1, ("Forwarded", f'for="{client}"')) == [429]
        assert await wrong(at, 1, ("X-Forwarded-For", "2001:db8::ffff:1")) == [429], "the same /64"
        assert await wrong(at, 2) == [401, 429], "the proxy itself"


async def test_writing_another_address_into_the_headers_does_not_help(
    tmp_path: Path, mock_clock: trio.testing.MockClock
) -> None:
    async with scene(tmp_path, auth_failures_per_minute=1) as at:
        assert await wrong(at, 1) == [401]
        for n in range(5):
            for name, value in (("X-Forwarded-For", f"203.0.113.{n}"), ("Forwarded", f"for=203.0.113.{n}")):
                assert await wrong(at, 1, (name, value)) == [429]


async def test_new_options_are_in_force_for_the_next_request(
    tmp_path: Path, mock_clock: trio.testing.MockClock
) -> None:
    async with scene(tmp_path, auth_failures_per_minute=1) as at:
        away = ("X-Forwarded-For", "203.0.113.9")
        assert await wrong(at, 2, away) == [401, 429]
        at.served.front.adopt(WebOptions(auth_failures_per_minute=1, trusted_proxies=(PROXY,)))
        assert await wrong(at, 2, away) == [401, 429]
        at.served.front.adopt(WebOptions(auth_failures_per_minute=0))
        assert await wrong(at, 5, away) == [401] * 5


async def test_the_log_names_the_address_once_a_minute_and_never_the_token(
    tmp_path: Path, mock_clock: trio.testing.MockClock
) -> None:
    async with scene(tmp_path, trusted_proxies=(PROXY,)) as at:
        with capture_logs() as logs:
            await wrong(at, 40, ("X-Forwarded-For", "203.0.113.9"))
            mock_clock.jump(60)
            await wrong(at, 40, ("X-Forwarded-For", "203.0.113.9"))
        lines = [line for line in logs if line["event"] == "a wrong token was refused"]
        assert [(line["log_level"], line["address"]) for line in lines] == [("warning", "203.0.113.9")] * 2
        assert "prm_agent" not in str(logs)


async def test_a_message_tells_the_address_of_the_client_behind_the_proxy(
    tmp_path: Path, mock_clock: trio.testing.MockClock
) -> None:
    async with scene(tmp_path, trusted_proxies=(PROXY, "10.0.0.0/8")) as at, at.served.connect() as client:
        for name, value in (
            ("X-Forwarded-For", "198.51.100.1, 203.0.113.9, 10.0.0.3"),
            ("forwarded", 'for="[2001:db8::9]:80";proto=https'),
            ("X-Forwarded-For", "_hidden"),
        ):
            assert (await client.request("POST", "/in/demo", [(name, value)], b"{}")).status == 200
        page = await client.request("GET", "/v1/inboxes/demo/messages?after=0", at.headers)
        shown = [message["source_ip"] for message in page.json["messages"]]
        assert shown == ["203.0.113.9", "2001:db8::9", PEER[0]]
