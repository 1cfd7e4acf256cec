"""What each kind of setting accepts, and the words in which it refuses the rest."""

from pathlib import Path

import pytest

from postroom.parsing import (
    GIB,
    KIB,
    MIB,
    Kind,
    address,
    choice,
    host,
    network,
    optional,
    origin,
    path,
    readable,
    seconds,
    secret,
    several,
    size,
    switch,
    url,
    whole,
)


@pytest.mark.parametrize(
    ("kind", "given", "value"),
    [
        (whole("reads", 1, 100), "16", 16),
        (whole("reads", 1, 100), 100, 100),
        (size(1, GIB), "10MiB", 10 * MIB),
        (size(1, GIB), "10 mib", 10 * MIB),
        (size(1, GIB), "512", 512),
        (size(1, GIB), GIB, GIB),
        (several(host()), "hooks.internal", ("hooks.internal",)),
        (several(host()), "Hooks.internal , 10.0.0.7,hooks.internal", ("hooks.internal", "10.0.0.7")),
        (several(host()), ["a", "::1", "[::2]"], ("a", "::1", "::2")),
        (several(origin()), "https://A.example:443, http://a:81", ("https://a.example", "http://a:81")),
        (several(origin()), "vscode-webview://abc", ("vscode-webview://abc",)),
        (optional(several(host())), "none", None),
        (several(network()), "10.0.0.0/8 , ::1,::1/128", ("10.0.0.0/8", "::1/128")),
        (several(network()), ["127.0.0.1", "::ffff:10.0.0.0/104"], ("127.0.0.1/32", "10.0.0.0/8")),
        (seconds(0.1, 60), "2.5", 2.5),
        (seconds(0.1, 60), 3, 3.0),
        (switch(), "false", False),
        (switch(), True, True),
        (choice("console", "json"), "json", "json"),
        (path(), "./somewhere", Path("somewhere")),
        (address(), "127.0.0.1:8025", "127.0.0.1:8025"),
        (address(), "[::1]:08025", "[::1]:8025"),
        (address(), "localhost:0", "localhost:0"),
        (url(), "https://hooks.example.org/in/", "https://hooks.example.org/in"),
        (url(), "http://[::1]:8025", "http://[::1]:8025"),
        (optional(size(1, GIB)), "none", None),
        (optional(size(1, GIB)), "1KiB", KIB),
    ],
)
def test_a_value_is_read_the_same_from_text_and_from_toml(kind: Kind, given: object, value: object) -> None:
    assert kind.parse(given) == value


@pytest.mark.parametrize(
    ("kind", "given"),
    [
        (whole("reads", 1, 100), "0"),
        (whole("reads", 1, 100), "101"),
        (whole("reads", 1, 100), "1_0"),
        (whole("reads", 1, 100), "٣"),
        (whole("reads", 1, 100), " 5"),
        (whole("reads", 1, 100), True),
        (whole("reads", 1, 100), 5.0),
        (several(host()), ""),
        (several(host()), "a,,b"),
        (several(host()), []),
        (several(host()), [1]),
        (several(host()), 7),
        (several(host()), "a:80"),
        (several(host()), "a b"),
        (several(host()), "https://a"),
        (several(host()), "user@a"),
        (several(network()), "10.0.0.1/8"),
        (several(network()), "localhost"),
        (several(network()), "10.0.0.0/8,"),
        (several(network()), [167772160]),
        (several(origin()), "null"),
        (several(origin()), "a.example"),
        (several(origin()), "https://a/path"),
        (several(origin()), "https://a?x"),
        (several(origin()), "https://user@a"),
        (several(origin()), "https://a:port"),
        (size(1, GIB), "10MB"),
        (size(1, GIB), "2GiB"),
        (size(1, GIB), "-1"),
        (size(1, GIB), ""),
        (seconds(1, 60), "nan"),
        (seconds(1, 60), "inf"),
        (seconds(1, 60), "soon"),
        (seconds(1, 60), True),
        (switch(), "yes"),
        (switch(), 1),
        (choice("console", "json"), "JSON"),
        (choice("console", "json"), ["json"]),
        (path(), ""),
        (path(), "a\0b"),
        (address(), "8025"),
        (address(), "127.0.0.1:65536"),
        (address(), "127.0.0.1:"),
        (address(), "[127.0.0.1]:1"),
        (address(), "http://127.0.0.1:1"),
        (url(), "hooks.example.org"),
        (url(), "ftp://hooks.example.org"),
        (url(), "https://user:password@hooks.example.org"),
        (url(), "https://hooks.example.org/?q=1"),
        (url(), "https://hooks.example.org:99999"),
        (url(), "https://[::1"),
        (url(), "https://hooks.example.org/\n"),
        (url(), 5),
        (secret(32, 512), "short"),
        (secret(32, 512), "x" * 31 + " "),
        (secret(32, 512), "é" * 40),
        (secret(32, 512), "x" * 513),
    ],
)
def test_a_bad_value_is_refused_with_what_would_be_accepted(kind: Kind, given: object) -> None:
    with pytest.raises(ValueError, match=r"^must be ") as refusal:
        kind.parse(given)
    assert kind.accepts in str(refusal.value)
    assert str(refusal.value).isprintable()


def test_of_a_list_the_bad_entry_is_named() -> None:
    good = ", ".join(f"10.0.{n}.0/24" for n in range(50))
    with pytest.raises(ValueError) as refusal:
        several(network()).parse(f"{good}, 10.0.0.1/8, 10.1.0.0/16")
    assert str(refusal.value).endswith("not '10.0.0.1/8'")


def test_a_bad_secret_is_not_repeated() -> None:
    with pytest.raises(ValueError) as refusal:
        secret(32, 512).parse("hunter2")
    assert "hunter2" not in str(refusal.value)


def test_a_long_bad_value_is_cut() -> None:
    with pytest.raises(ValueError) as refusal:
        whole("reads", 1, 5).parse("9" * 1000)
    assert len(str(refusal.value)) < 200


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (10 * MIB, "bytes", "10 MiB"),
        (1000, "bytes", "1000"),
        (0, "bytes", "0"),
        (75.0, "seconds", "75"),
        (0.5, "seconds", "0.5"),
        (None, "bytes", "none"),
        (True, "", "true"),
        (("a", "b"), "", "a,b"),
    ],
)
def test_a_value_is_shown_as_it_could_be_set(value: object, unit: str, text: str) -> None:
    assert readable(value, unit) == text
