"""What is sent to a target, what of its answer counts, and how long it may take."""

import json
import socket
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, contextmanager

import pytest
import standardwebhooks
import trio
import trio.testing
from structlog.testing import capture_logs

from actors.commands import Refusal
from storage.clock import wall_clock_us
from tests.web.waking.targets import (
    LOOPBACK,
    NAME,
    NOW_US,
    OK,
    SECRET,
    WAKE_TOKEN,
    Answer,
    Target,
    call,
    listening,
    saying,
    sender,
    until_hung_up,
    without_end,
)
from web.waking.message import check_secret
from web.waking.request import MAX_ANSWER_BYTES
from web.waking.sender import WAKE_SECONDS, WakeSender

MIB = 1024 * 1024
CHUNK = bytes(65_536)

IDLE_SECONDS = 0.05
"""So long nothing happens on loopback only when there is nothing more to happen."""


# -- what is sent ----------------------------------------------------------------------------------------------


async def test_a_wake_is_one_post_of_a_small_json_body() -> None:
    async with listening() as target:
        assert await sender(LOOPBACK).post(call(target.url(path="/wake?agent=7")))
        [(request, body)] = target.requests
    assert (request.method, request.target) == (b"POST", b"/wake?agent=7")
    assert json.loads(body) == {
        "event": "inbox.unread",
        "agent_id": "planner",
        "unread": 3,
        "wake_token": WAKE_TOKEN,
    }
    assert target.header("content-type") == "application/json"
    assert target.header("host") == f"127.0.0.1:{target.port}"
    assert target.header("user-agent").startswith("postroom/")


async def test_the_signature_verifies_with_the_library_of_standard_webhooks() -> None:
    async with listening() as target:
        # The library compares with its own clock.
        assert await sender(LOOPBACK, clock_us=wall_clock_us).post(call(target.url()))
        [(request, body)] = target.requests
    headers = {name.decode(): value.decode() for name, value in request.headers}
    library = standardwebhooks.Webhook(SECRET)
    assert library.verify(body, headers)["agent_id"] == "planner"
    with pytest.raises(standardwebhooks.WebhookVerificationError):
        library.verify(body + b" ", headers)


async def test_a_target_without_a_secret_gets_the_same_without_a_signature() -> None:
    async with listening() as target:
        assert await sender(LOOPBACK).post(call(target.url(), secret=None))
        assert await sender(LOOPBACK).post(call(target.url()))
        plain, signed = ({name for name, _ in request.headers} for request, _ in target.requests)
        assert signed - plain == {b"webhook-signature", b"webhook-timestamp"}
        assert target.requests[0][1] == target.requests[1][1]


async def test_the_id_is_the_wake_s_and_does_not_tell_its_token() -> None:
    async with listening() as target:
        ids = []
        for _ in range(2):
            assert await sender(LOOPBACK).post(call(target.url()))
            ids.append(target.header("webhook-id"))
        assert target.header("webhook-timestamp") == str(NOW_US // 1_000_000)
        head = repr(target.requests[0][0])
    assert ids[0] == ids[1]
    assert WAKE_TOKEN not in head


@pytest.mark.parametrize(
    "secret", ["", "hello", "whsec_AAAA", "whpk_" + "A" * 43 + "=", "whsec_" + "A" * 100, "wörd", "\ud800"]
)
def test_what_is_no_secret_of_standard_webhooks_is_refused_and_not_repeated(secret: str) -> None:
    with pytest.raises(Refusal) as refused:
        check_secret(secret)
    assert (refused.value.code, refused.value.field) == ("invalid_argument", "wake.secret")
    assert not secret or secret not in refused.value.message


@pytest.mark.parametrize("secret", [SECRET, SECRET.removeprefix("whsec_")])
def test_a_secret_may_have_its_prefix_or_not(secret: str) -> None:
    check_secret(secret)


# -- what of the answer counts ---------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [200, 201, 202, 204, 299])
async def test_a_status_of_success_is_success(status: int) -> None:
    async with listening(saying(b"HTTP/1.1 %d X\r\n\r\n" % status)) as target:
        assert await sender(LOOPBACK).post(call(target.url()))


@pytest.mark.parametrize("status", [300, 304, 400, 401, 404, 410, 429, 500, 503, 599])
async def test_every_other_status_is_a_failure(status: int) -> None:
    async with listening(saying(b"HTTP/1.1 %d X\r\n\r\n" % status)) as target:
        with capture_logs() as logs:
            assert not await sender(LOOPBACK).post(call(target.url()))
    assert logs == [
        {
            "event": "a wake-up failed",
            "log_level": "warning",
            "agent_id": "planner",
            "reason": f"it answered {status}",
        }
    ]


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"\r\n\r\n",
        b"SSH-2.0-server\r\n",
        b"HTTP/1.1 twohundred OK\r\n\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nBad Header: x\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Le",
        b"\x15\x03\x01\x00\x02\x02\x46",
    ],
)
async def test_what_is_not_http_is_a_failure(answer: bytes) -> None:
    async def closing(stream: trio.abc.Stream) -> None:
        await stream.send_all(answer)

    async with listening(closing) as target:
        assert not await sender(LOOPBACK).post(call(target.url()))


async def test_interim_answers_are_passed_over() -> None:
    async with listening(saying(b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n" * 3 + OK)) as target:
        assert await sender(LOOPBACK).post(call(target.url()))


@pytest.mark.parametrize(
    "begin",
    [
        b"HTTP/1.1 200 OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1000000000000\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n",
    ],
)
async def test_a_huge_body_is_not_read_and_the_connection_is_closed(begin: bytes) -> None:
    sent = 0

    async def flooding(stream: trio.abc.Stream) -> None:
        nonlocal sent
        await stream.send_all(begin)
        while True:
            await stream.send_all(CHUNK)
            sent += len(CHUNK)

    async with listening(flooding) as target:
        assert await sender(LOOPBACK).post(call(target.url()))
        await target.hung_up.wait()
        assert sent < 16 * MIB  # what fits into the buffers of two sockets


async def test_an_answer_without_an_end_is_not_waited_for(mock_clock: trio.testing.MockClock) -> None:
    async with listening(saying(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n")) as target:
        assert await sender(LOOPBACK).post(call(target.url()))
        await target.hung_up.wait()


@pytest.mark.parametrize(
    ("begin", "more"),
    [
        (b"HTTP/1.1 200 OK\r\n", b"X: y\r\n" * 1000),
        (b"HTTP/1.1 200 OK\r\nX: ", CHUNK.replace(b"\0", b"x")),
        (b"", b"HTTP/1.1 103 Early Hints\r\n\r\n" * 1000),
        (b"", b"\r\n" * 1000),
    ],
)
async def test_a_head_without_an_end_is_read_up_to_a_bound(begin: bytes, more: bytes) -> None:
    async with listening(without_end(begin, more)) as target:
        with capture_logs() as logs:
            assert not await sender(LOOPBACK).post(call(target.url()))
        await target.hung_up.wait()
    assert logs[0]["reason"] in (
        f"the head of its answer has more than {MAX_ANSWER_BYTES:,} bytes",
        "it did not answer in HTTP/1.1",
    )


# -- how long it may take --------------------------------------------------------------------------------------


async def outcome_in_time(
    poster: WakeSender,
    url: str,
    reached: Callable[[], Awaitable[object]],
    clock: trio.testing.MockClock,
) -> bool | None:
    """Post on a clock that stands still; once `reached`, let nearly all of the time pass, then the rest of it.

    Returns what came out; it must not come out before the time is over.
    """
    outcome: list[bool] = []

    async def posting() -> None:
        outcome.append(await poster.post(call(url)))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(posting)
        await reached()
        await trio.testing.wait_all_tasks_blocked()
        clock.jump(WAKE_SECONDS * 0.98)
        await trio.testing.wait_all_tasks_blocked()
        assert outcome == []
        clock.jump(WAKE_SECONDS * 0.03)
    return outcome[0]


async def slowly(stream: trio.abc.Stream) -> None:
    """Say a little, and nothing more."""
    await stream.send_all(b"HTTP/1.1 200 OK\r\n")
    await until_hung_up(stream)


@pytest.mark.parametrize("answer", [until_hung_up, slowly, saying(b"HTTP/1.1 103 Early Hints\r\n\r\n")])
async def test_a_target_that_does_not_answer_is_given_up_after_five_seconds(
    answer: Answer, mock_clock: trio.testing.MockClock
) -> None:
    async with listening(answer) as target:
        with capture_logs() as logs:
            assert not await outcome_in_time(sender(LOOPBACK), target.url(), target.heard.wait, mock_clock)
        await target.hung_up.wait()
    assert logs[0]["reason"] == "it took longer than 5 s"


async def test_a_resolver_that_does_not_answer_counts_in_the_same_time(
    mock_clock: trio.testing.MockClock,
) -> None:
    asked = trio.Event()

    async def hanging(host: str, port: int) -> list[str]:
        asked.set()
        await trio.Event().wait()
        return []

    poster = sender(LOOPBACK, resolve=hanging)
    assert not await outcome_in_time(poster, f"http://{NAME}/", asked.wait, mock_clock)


async def test_an_address_that_takes_no_connection_leaves_time_for_the_next(
    mock_clock: trio.testing.MockClock,
) -> None:
    async with listening() as target:
        with full(target) as silent:
            outcome: list[bool] = []

            async def posting() -> None:
                poster = sender(LOOPBACK, meaning={NAME: [silent, "127.0.0.1"]})
                outcome.append(await poster.post(call(target.url(NAME))))

            async with trio.open_nursery() as nursery:
                nursery.start_soon(posting)
                await trio.testing.wait_all_tasks_blocked()
                assert target.opened == 0
                mock_clock.jump(WAKE_SECONDS * 0.51)
                await trio.testing.wait_all_tasks_blocked(IDLE_SECONDS)
                mock_clock.jump(WAKE_SECONDS)
            assert outcome == [True]
            assert target.opened == 1


@contextmanager
def full(target: Target) -> Iterator[str]:
    """Give an address on the port of a target at which connections are neither taken nor refused: its queue is full."""
    place = ("127.0.0.9", target.port)
    with ExitStack() as open_sockets:
        listener, *clients = (open_sockets.enter_context(socket.socket()) for _ in range(3))
        listener.bind(place)
        listener.listen(0)
        for client in clients:
            client.setblocking(False)
            client.connect_ex(place)
        yield place[0]


# -- what is told of it ----------------------------------------------------------------------------------------


async def test_neither_the_url_nor_a_secret_nor_the_wake_token_is_logged() -> None:
    path = "/hooks/a-credential-in-a-path"

    async def closing(stream: trio.abc.Stream) -> None:
        await stream.send_all(WAKE_TOKEN.encode() + SECRET.encode() + path.encode())

    async with listening(closing) as odd, listening(saying(b"HTTP/1.1 500 Oops\r\n\r\n")) as failing:
        with capture_logs() as logs:
            for poster, url in (
                (sender(LOOPBACK), odd.url(path=path)),
                (sender(LOOPBACK), failing.url(path=path)),
                (sender(), odd.url(path=path)),
                (sender(LOOPBACK), f"http://{NAME}{path}"),
                (sender(LOOPBACK), f"http://user:passphrase@{NAME}{path}"),
            ):
                assert not await poster.post(call(url))
    assert len(logs) == 5
    for secret in (WAKE_TOKEN, SECRET, SECRET.removeprefix("whsec_"), path, "passphrase", "user:"):
        assert secret not in repr(logs)
