"""Which URLs may be wake targets, and which addresses an administrator's networks contain."""

from ipaddress import IPv4Address, ip_address

import pytest

from actors.commands import Refusal
from tests.web.waking.targets import sender
from web.addresses import network_of
from web.waking.addresses import (
    MAX_HOST_CHARS,
    MAX_URL_CHARS,
    AllowedNetworks,
    BadTarget,
    address_of,
    target_of,
)

ANY_IPV4 = str(IPv4Address(0))

EVERYTHING = ("0.0.0.0/0", "::/0")

LONG_LABEL = "a" * 64
LONGEST_NAME = "a." * (MAX_HOST_CHARS // 2) + "a"

BAD = [
    # not ours to call
    "",
    "wake",
    "//agent.example/",
    "ftp://agent.example/",
    "file:///etc/passwd",
    "gopher://agent.example/",
    "unix:///run/agent.sock",
    "http:agent.example",
    "http:/agent.example",
    "http://",
    "http:///wake",
    "http://:80/",
    # users, fragments
    "http://user@agent.example/",
    "http://user:word@agent.example/",
    "http://127.0.0.1@agent.example/",
    "http://agent.example@127.0.0.1/",
    "http://@agent.example/",
    "http://agent.example/#part",
    "http://agent.example/#@127.0.0.1/",
    # ports
    "http://agent.example:0/",
    "http://agent.example:65536/",
    "http://agent.example:-1/",
    "http://agent.example:80:80/",
    "http://agent.example:http/",
    # characters that readers differ about
    "http://agent.example\\@127.0.0.1/",
    "http:\\\\127.0.0.1/",
    "http://agent.example /",
    " http://agent.example/",
    "http://agent.example/\r\nX: y",
    "http://agent.example/\t",
    "http://agent.example/\0",
    "http://agent.example/ü",
    "http://127%2e0.0.1/",
    "http://%31%32%37.0.0.1/",
    # other spellings of IPv4
    "http://2130706433/",
    "http://017700000001/",
    "http://0x7f000001/",
    "http://0X7F.0.0.1/",
    "http://0x7f.1/",
    "http://127.1/",
    "http://127.0.1/",
    "http://0177.0.0.1/",
    "http://127.0.0.01/",
    "http://127.000.000.001/",
    "http://1.2.3.4.5/",
    "http://256.0.0.1/",
    "http://127.0.0.1./",
    "http://0/",
    "http://0x/",
    "http://agent.1/",
    "http://１２７.0.0.1/",
    "http://①②⑦.0.0.1/",
    "http://127。0。0。1/",
    # IPv6
    "http://[::1%25lo]/",
    "http://[fe80::1%eth0]/",
    "http://[fe80::1%25eth0]/",
    "http://[::1/",
    "http://::1/",
    "http://[127.0.0.1]/",
    "http://[agent.example]/",
    "http://[v1.x]/",
    "http://[::1]evil/",
    "http://[::1]evil:80/",
    "http://a[::1]/",
    "http://[::127.0.0.01]/",
    "http://[]/",
    # names
    "http://agent.example./",
    "http://.agent.example/",
    "http://agent..example/",
    "http://-agent.example/",
    "http://agent-.example/",
    "http://agent,example/",
    "http://agent*example/",
    f"http://{LONG_LABEL}.example/",
    f"http://{'a.' * 127}aa/",
    f"http://{LONGEST_NAME}a/",
    f"http://agent.example/{'x' * MAX_URL_CHARS}",
]


@pytest.mark.parametrize("url", BAD)
def test_what_is_not_plainly_a_url_is_no_target(url: str) -> None:
    with pytest.raises(BadTarget) as refused:
        target_of(url)
    assert str(refused.value).startswith("Expected ")
    with pytest.raises(Refusal) as told:
        sender(*EVERYTHING).check_url(url)
    assert (told.value.code, told.value.field) == ("invalid_argument", "wake.url")


@pytest.mark.parametrize(
    ("url", "host", "port", "authority", "path"),
    [
        ("http://agent.example", "agent.example", 80, "agent.example", "/"),
        ("HTTPS://Agent.Example/a%20b?c=d&e", "agent.example", 443, "agent.example", "/a%20b?c=d&e"),
        ("http://agent.example:443?x", "agent.example", 443, "agent.example:443", "/?x"),
        ("https://agent.example:443/", "agent.example", 443, "agent.example", "/"),
        ("http://agent.example:/", "agent.example", 80, "agent.example", "/"),
        ("http://agent:9000/~/;x=1//", "agent", 9000, "agent:9000", "/~/;x=1//"),
        (
            "http://a_b.xn--bcher-kva.example/",
            "a_b.xn--bcher-kva.example",
            80,
            "a_b.xn--bcher-kva.example",
            "/",
        ),
        ("http://192.0.2.1:8000/", "192.0.2.1", 8000, "192.0.2.1:8000", "/"),
        ("http://[2001:DB8::1]/", "2001:db8::1", 80, "[2001:db8::1]", "/"),
        ("http://[2001:db8::1]:8000/", "2001:db8::1", 8000, "[2001:db8::1]:8000", "/"),
    ],
)
def test_a_target_is_read_once_for_all(url: str, host: str, port: int, authority: str, path: str) -> None:
    target = target_of(url)
    assert (target.host, target.port, target.authority, target.path) == (host, port, authority, path)
    assert target.is_tls == url.lower().startswith("https:")


@pytest.mark.parametrize(
    ("host", "means"),
    [
        ("127.0.0.1", "127.0.0.1"),
        ("[::ffff:127.0.0.1]", "127.0.0.1"),
        ("[::FFFF:7f00:1]", "127.0.0.1"),
        ("[0:0:0:0:0:ffff:7f00:0001]", "127.0.0.1"),
        ("[0000:0000:0000:0000:0000:0000:0000:0001]", "::1"),
        ("[::]", "::"),
        ("[::127.0.0.1]", "::7f00:1"),
    ],
)
def test_an_address_is_the_one_that_it_is_whatever_its_spelling(host: str, means: str) -> None:
    assert target_of(f"http://{host}/").address == ip_address(means)


@pytest.mark.parametrize(
    ("networks", "allowed", "refused"),
    [
        ("", [], ["127.0.0.1", "::1", "192.0.2.1", "8.8.8.8", "2001:db8::1"]),
        (
            "127.0.0.0/8",
            ["127.0.0.1", "127.255.255.255", "::ffff:127.0.0.1"],
            ["::1", "128.0.0.0", ANY_IPV4],
        ),
        ("10.0.0.7", ["10.0.0.7", "::ffff:10.0.0.7"], ["10.0.0.8", "10.0.0.6", "::10.0.0.7"]),
        ("::1", ["::1"], ["127.0.0.1", "::", "::2"]),
        ("::ffff:10.0.0.0/104", ["10.1.2.3", "::ffff:10.1.2.3"], ["11.0.0.0", "::10.1.2.3"]),
        ("fd00::/8", ["fd12::1"], ["fc00::1", "fe80::1", "::1"]),
        ("fe80::/10", ["fe80::1"], ["fec0::1"]),
        (
            "0.0.0.0/0",
            ["192.0.2.1", "10.0.0.1", "127.0.0.1", "169.254.169.254"],
            [ANY_IPV4, "224.0.0.1", "239.1.1.1", "255.255.255.255", "::1", "2001:db8::1"],
        ),
        ("::/0", ["2001:db8::1", "::1"], ["::", "ff02::1", "::ffff:127.0.0.1", "127.0.0.1", "192.0.2.1"]),
        ("10.0.0.0/8,192.168.0.0/16", ["10.0.0.1", "192.168.0.1"], ["172.16.0.1", "169.254.0.1"]),
        (  # what leads on to an IPv4 address: NAT64, 6to4, Teredo, and the form of old tunnels
            "::/0",
            ["64:ff9b:1::1", "2001:1::1"],
            ["64:ff9b::10.0.0.1", "2002:a00:1::1", "2001:0:a00:1::1", "2001::f5ff:fffe", "::10.0.0.1"],
        ),
        (
            "::/0,10.0.0.0/8",
            ["64:ff9b::10.0.0.1", "2002:a00:1::1", "::10.0.0.1", "::1"],
            ["64:ff9b::11.0.0.1", "2002:b00:1::1", "2001:0:a00:1::1", "64:ff9b::", "64:ff9b::224.0.0.1"],
        ),
    ],
)
def test_networks_contain_what_they_say_and_never_what_is_no_machine(
    networks: str, allowed: list[str], refused: list[str]
) -> None:
    reach = AllowedNetworks(map(network_of, filter(None, networks.split(","))))
    assert bool(reach) == bool(networks)
    assert [text for text in allowed if not reach.allows(ip_address(text))] == []
    assert [text for text in refused if reach.allows(ip_address(text))] == []


def test_a_url_and_a_name_may_be_as_long_as_is_said() -> None:
    assert target_of(f"http://{LONGEST_NAME}/").host == LONGEST_NAME
    url = "http://agent.example/".ljust(MAX_URL_CHARS, "x")
    assert target_of(url).path == url.removeprefix("http://agent.example")
    with pytest.raises(BadTarget, match="at most"):
        target_of(url + "x")


def test_an_address_with_a_zone_is_none() -> None:
    assert address_of("fe80::1") == ip_address("fe80::1")
    assert address_of("fe80::1%eth0") is None


def test_without_the_setting_there_are_no_wake_ups_at_all() -> None:
    with pytest.raises(Refusal, match="WAKE_ALLOWED_CIDRS is not set") as told:
        sender().check_url("http://agent.example/")
    assert told.value.field == "wake.url"


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "[::1]", "10.0.0.1", "169.254.169.254", "[::ffff:10.0.0.1]", "[::]"]
)
def test_an_address_that_is_not_allowed_is_refused_when_it_is_given(host: str) -> None:
    with pytest.raises(Refusal, match="none of the networks") as told:
        sender("192.0.2.0/24").check_url(f"https://{host}/")
    assert (told.value.code, told.value.field) == ("invalid_argument", "wake.url")


@pytest.mark.parametrize("host", ["192.0.2.9", "agent.example", "localhost"])
def test_an_allowed_address_and_any_name_can_be_given(host: str) -> None:
    sender("192.0.2.0/24").check_url(f"https://{host}:8443/wake")
