"""Which hosts and origins mean what; whatever is ambiguous means nothing."""

import pytest

from web.hosts import host_of, is_loopback, origin_of


@pytest.mark.parametrize(
    ("authority", "host"),
    [
        ("a", "a"),
        ("A.Example:80", "a.example"),
        ("127.0.0.1:8025", "127.0.0.1"),
        ("[::1]:8025", "::1"),
        ("[::1]", "::1"),
        ("", None),
        (":80", None),
        ("a:port", None),
        ("a:99999", None),
        ("user@a", None),
        ("a/b", None),
        ("a?b", None),
        ("a b", None),
        ("a%", None),
        ("é", None),
        ("a#b", None),
        ("[::1", None),
        ("::1]", None),
    ],
)
def test_a_host_is_read_from_an_authority(authority: str, host: str | None) -> None:
    assert host_of(authority) == host


@pytest.mark.parametrize("host", ["localhost", "LocalHost", "127.0.0.1", "127.255.255.254", "::1"])
def test_these_are_loopback(host: str) -> None:
    assert is_loopback(host)


@pytest.mark.parametrize("host", ["", "::", "10.0.0.1", "localhost.example", "127.1", "0x7f000001"])
def test_these_are_not(host: str) -> None:
    assert not is_loopback(host)


@pytest.mark.parametrize(
    ("text", "origin"),
    [
        ("https://a.example", "https://a.example"),
        ("HTTPS://A.example:443/path?q#f", "https://a.example"),
        ("http://a:80", "http://a"),
        ("http://a:443", "http://a:443"),
        ("http://[::1]:3000", "http://[::1]:3000"),
        ("null", None),
        ("", None),
        ("a.example", None),
        ("https://", None),
        ("https://user:secret@a", None),
        ("https://a:port", None),
        ("https://a b", None),
        ("file:///etc", None),
    ],
)
def test_an_origin_has_one_spelling(text: str, origin: str | None) -> None:
    assert origin_of(text) == origin
