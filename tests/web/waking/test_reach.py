"""No connection is ever made to what was not allowed: not by address, nor by name, nor by redirect."""

import socket
from collections.abc import Callable, Sequence
from ipaddress import IPv4Address

import pytest
import trio
from structlog.testing import capture_logs

from tests.web.waking.targets import (
    LOOPBACK,
    NAME,
    Names,
    call,
    listening,
    saying,
    sender,
    watching_sockets,
)
from web.addresses import network_of
from web.options import WebOptions, adopt
from web.waking.resolving import SystemResolver
from web.waking.sender import WakeSender

ANY_IPV4 = str(IPv4Address(0))

DOCUMENTATION = "192.0.2.0/24"
"""Allowed where nothing that a test names is."""


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1",
        "127.255.255.254",
        ANY_IPV4,
        "10.0.0.1",
        "172.16.0.1",
        "192.168.1.1",
        "169.254.169.254",
        "100.64.0.1",
        "8.8.8.8",
        "224.0.0.1",
        "255.255.255.255",
        "[::1]",
        "[::]",
        "[::ffff:127.0.0.1]",
        "[::ffff:7f00:1]",
        "[0:0:0:0:0:ffff:7f00:1]",
        "[::127.0.0.1]",
        "[64:ff9b::7f00:1]",
        "[fe80::1]",
        "[fe80::1%25lo]",
        "[fd00::1]",
        "[ff02::1]",
        "2130706433",
        "017700000001",
        "0x7f000001",
        "0x7f.1",
        "127.1",
        "0177.0.0.1",
        "127.0.0.01",
        "0",
        "127.0.0.1.",
        f"{NAME}@127.0.0.1",
    ],
)
async def test_an_address_that_is_not_allowed_gets_no_connection(host: str) -> None:
    """As at the time of a call: the target may have been stored when the networks were others."""
    async with listening() as target:
        with watching_sockets() as sockets:
            for scheme in ("http", "https"):
                assert not await sender(DOCUMENTATION).post(call(target.url(host, scheme=scheme)))
                assert not await sender().post(call(target.url(host, scheme=scheme)))
        assert (sockets.made, target.opened) == (0, 0)


@pytest.mark.parametrize(
    "meaning",
    [
        ["127.0.0.1"],
        ["::1"],
        ["::ffff:127.0.0.1"],
        ["fe80::1%lo"],
        ["192.0.2.1%lo"],
        [ANY_IPV4],
        ["::"],
        ["10.0.0.1"],
        ["169.254.169.254"],
        ["192.0.2.1", "127.0.0.1"],
        ["127.0.0.1", "192.0.2.1"],
        ["192.0.2.1", "192.0.2.2", "::1", "192.0.2.3"],
        ["another.example"],
        ["2130706433"],
        [],
    ],
    ids=",".join,
)
async def test_a_name_that_means_an_address_that_is_not_allowed_gets_no_connection(
    meaning: Sequence[str],
) -> None:
    async with listening() as target:
        with watching_sockets() as sockets:
            poster = sender(DOCUMENTATION, meaning={NAME: meaning})
            assert not await poster.post(call(target.url(NAME)))
        assert (sockets.made, target.opened) == (0, 0)


async def test_a_name_that_means_an_address_in_a_zone_gets_no_connection_though_the_network_is_allowed() -> (
    None
):
    with watching_sockets() as sockets:
        poster = sender("fe80::/10", "::1", meaning={NAME: ["fe80::1%lo"], "loop.example": ["::1%lo"]})
        assert not await poster.post(call(f"http://{NAME}/"))
        assert not await poster.post(call("http://loop.example/"))
    assert sockets.made == 0


@pytest.mark.parametrize("host", ["127.0.0.1", "[::ffff:127.0.0.1]", "[0:0:0:0:0:ffff:7f00:1]", NAME])
@pytest.mark.parametrize("network", [LOOPBACK, "127.0.0.1/32", "::ffff:7f00:0/104"])
async def test_what_is_allowed_is_reached(host: str, network: str) -> None:
    async with listening() as target:
        allowed = sender(DOCUMENTATION, network_of(network), meaning={NAME: ["127.0.0.1"]})
        assert await allowed.post(call(target.url(host)))
        assert target.opened == 1


async def test_ipv6_is_reached_where_it_is_allowed() -> None:
    async with listening(host="::1") as target:
        for host in ("[::1]", "[0000:0000:0000:0000:0000:0000:0000:0001]", NAME):
            allowed = sender("::1/128", meaning={NAME: ["::1"]})
            assert await allowed.post(call(target.url(host))), host
        assert target.opened == 3
        assert not await sender(LOOPBACK, meaning={NAME: ["::1"]}).post(call(target.url(NAME)))
        assert target.opened == 3


async def test_a_name_is_resolved_once_and_its_checked_address_is_connected_to() -> None:
    """A name that means something else the second time would get past a check of the first meaning."""

    class Changing(Names):
        async def __call__(self, host: str, port: int) -> Sequence[str]:
            await trio.lowlevel.checkpoint()
            self.asked.append(host)
            return ["127.0.0.1"] if len(self.asked) == 1 else ["10.0.0.1"]

    async with listening() as target:
        names = Changing({})
        assert await sender("127.0.0.1", resolve=names).post(call(target.url(NAME)))
        assert names.asked == [NAME]
        assert target.header("host") == f"{NAME}:{target.port}"
        assert not await sender("127.0.0.1", resolve=names).post(call(target.url(NAME)))
        assert target.opened == 1


async def test_the_system_s_resolver_is_asked_for_a_name_and_checked_like_any_other() -> None:
    async with listening() as target:
        from_system = sender(LOOPBACK, "::1", resolve=SystemResolver())
        assert await from_system.post(call(target.url("localhost")))
        with watching_sockets() as sockets:
            refusing = sender(DOCUMENTATION, resolve=SystemResolver())
            assert not await refusing.post(call(target.url("localhost")))
        assert sockets.made == 0


async def test_the_system_s_resolver_says_so_when_there_is_no_such_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def failing(*_: object, **__: object) -> None:
        raise socket.gaierror("no such name")

    monkeypatch.setattr(socket, "getaddrinfo", failing)
    nowhere = sender(LOOPBACK, resolve=SystemResolver())
    with capture_logs() as logs:
        assert not await nowhere.post(call("http://nowhere.example/"))
    assert logs[0]["reason"] == "its host has no address"


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_redirect_is_a_failure_and_not_followed(status: int) -> None:
    async with listening() as second:
        where = f"HTTP/1.1 {status} Elsewhere\r\nLocation: {second.url()}\r\nContent-Length: 0\r\n\r\n"
        async with listening(saying(where.encode())) as first:
            assert not await sender(LOOPBACK).post(call(first.url()))
            assert (first.opened, second.opened) == (1, 0)


@pytest.mark.parametrize("spelling", [str.upper, str.lower])
async def test_no_proxy_of_the_environment_is_used(
    spelling: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    async with listening() as proxy, listening() as target:
        for variable in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
            monkeypatch.setenv(spelling(variable), proxy.url(path=""))
        assert await sender(LOOPBACK).post(call(target.url()))
        assert (proxy.opened, target.opened) == (0, 1)
        assert target.requests[0][0].target == b"/wake"


async def test_of_several_allowed_addresses_the_first_that_answers_is_used() -> None:
    async with listening() as target:
        several = sender(LOOPBACK, meaning={NAME: ["127.0.0.2", "127.0.0.3", "127.0.0.1"]})
        assert await several.post(call(target.url(NAME)))
        assert target.opened == 1


async def test_nobody_there_is_a_failure() -> None:
    async with listening() as target:
        port = target.port
    with capture_logs() as logs:
        assert not await sender(LOOPBACK).post(call(f"http://127.0.0.1:{port}/"))
    assert logs[0]["reason"] == "no connection could be made"


async def test_a_reload_changes_what_is_reached_at_the_next_call() -> None:
    options = WebOptions(wake_allowed_cidrs=(DOCUMENTATION,))
    async with listening() as target:
        poster = WakeSender(options)
        assert not await poster.post(call(target.url()))
        adopt(options, WebOptions(wake_allowed_cidrs=(LOOPBACK,)))
        assert await poster.post(call(target.url()))
        adopt(options, WebOptions())
        assert not await poster.post(call(target.url()))
        assert target.opened == 1
