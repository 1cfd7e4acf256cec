"""Whose request it is: the walk through what proxies have said, and everything that a sender may write into it."""

from time import perf_counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from web.addresses import (
    MAX_ELEMENT_BYTES,
    MAX_HOPS,
    MAX_QUOTED_COMMAS,
    TrustedProxies,
    address_of,
    network_of,
    plain,
    shared_by,
)

PROXY, EDGE, INNER = "127.0.0.1", "10.0.0.1", "10.0.0.2"
PROXIES = TrustedProxies(map(network_of, ("127.0.0.1", "10.0.0.0/8", "2001:db8:ffff::/48")))

Lines = list[tuple[bytes, bytes]]


def listed(*values: bytes) -> Lines:
    return [(b"x-forwarded-for", value) for value in values]


def standard(*values: bytes) -> Lines:
    return [(b"forwarded", value) for value in values]


# -- X-Forwarded-For ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "client"),
    [
        ([], PROXY),
        ([b"203.0.113.9"], "203.0.113.9"),
        ([b" \t203.0.113.9 \t"], "203.0.113.9"),
        ([b"203.0.113.9:51000"], "203.0.113.9"),
        ([b"2001:db8::9"], "2001:db8::9"),
        ([b"2001:0DB8:0::0009"], "2001:db8::9"),
        ([b"[2001:db8::9]"], "2001:db8::9"),
        ([b"[2001:db8::9]:443"], "2001:db8::9"),
        ([b"::ffff:203.0.113.9"], "203.0.113.9"),
        ([b"[::ffff:203.0.113.9]:443"], "203.0.113.9"),
        # past the proxies, to the first that is none; what stands to its left is its own word
        ([b"203.0.113.9, 10.0.0.2, 10.0.0.1"], "203.0.113.9"),
        ([b"198.51.100.1, 203.0.113.9, 10.0.0.1"], "203.0.113.9"),
        ([b"10.0.0.9, 203.0.113.9"], "203.0.113.9"),
        ([b"203.0.113.9, 2001:db8:ffff::1, ::ffff:10.0.0.1"], "203.0.113.9"),
        # several lines are one list, in their order
        ([b"203.0.113.9", b"10.0.0.1"], "203.0.113.9"),
        ([b"198.51.100.1", b"203.0.113.9", b"10.0.0.2, 10.0.0.1"], "203.0.113.9"),
        # nobody but proxies: the first of them asked for itself
        ([b"10.0.0.2, 10.0.0.1"], INNER),
        # what names nobody ends the walk where it is
        ([b""], PROXY),
        ([b","], PROXY),
        ([b"203.0.113.9,"], PROXY),
        ([b"203.0.113.9", b""], PROXY),
        ([b"203.0.113.9, , 10.0.0.1"], EDGE),
        ([b"203.0.113.9, unknown, 10.0.0.1"], EDGE),
        ([b"203.0.113.9, _hidden, 10.0.0.1"], EDGE),
        ([b"203.0.113.9, unix:, 10.0.0.1"], EDGE),
        ([b"203.0.113.9 10.0.0.1"], PROXY),
        ([b"203.0.113.9; 10.0.0.1"], PROXY),
        ([b'"203.0.113.9"'], PROXY),
        ([b"203.0.113.999"], PROXY),
        ([b"203.0.113.09"], PROXY),
        ([b"203.0.113"], PROXY),
        ([b"3405803785"], PROXY),
        ([b"0xcb.0.113.9"], PROXY),
        ([b"203.0.113.9/32"], PROXY),
        ([b"203.0.113.9:"], PROXY),
        ([b"203.0.113.9:port"], PROXY),
        ([b"203.0.113.9:123456"], PROXY),
        ([b"[203.0.113.9]"], PROXY),
        ([b"[2001:db8::9"], PROXY),
        ([b"[2001:db8::9]443"], PROXY),
        ([b"2001:db8::9]"], PROXY),
        ([b"[]"], PROXY),
        ([b"fe80::1%eth0"], PROXY),
        ([b"[fe80::1%<script>]"], PROXY),
        ([b"hooks.example.org"], PROXY),
        (["\u0662\u0660\u0663.0.113.9".encode()], PROXY),
        ([b"\xb9.0.113.9"], PROXY),
        ([b"203.0.113.9\x00"], PROXY),
        ([b"203.0.113.9\x0b"], PROXY),
        ([b"X203.0.113.9"], PROXY),
        ([b"[2001:db8::9]:4"], "2001:db8::9"),
        ([b"[2001:db8::9]:x4"], PROXY),
        ([b" " * 53 + b"203.0.113.9"], "203.0.113.9"),
        ([b" " * 54 + b"203.0.113.9"], PROXY),
        ([b"\xff" * 60_000], PROXY),
        ([b"1" * 60_000], PROXY),
        ([b" " * 60_000 + b"203.0.113.9"], PROXY),
    ],
)
def test_the_client_is_the_first_from_the_right_that_is_no_proxy(values: list[bytes], client: str) -> None:
    assert PROXIES.client(PROXY, listed(*values)) == client


# -- Forwarded -----------------------------------------------------------------------------------------------------

LONGEST = b"for=203.0.113.9;host=".ljust(MAX_ELEMENT_BYTES - 1, b"x")


@pytest.mark.parametrize(
    ("values", "client"),
    [
        ([b"for=203.0.113.9"], "203.0.113.9"),
        ([b'for="203.0.113.9"'], "203.0.113.9"),
        ([b'For="[2001:db8:cafe::17]:4711"'], "2001:db8:cafe::17"),
        ([b'FOR="[2001:db8::9]"'], "2001:db8::9"),
        ([b'for="203.0.113.9:80"'], "203.0.113.9"),
        ([b'for="203.0.113.9:_port"'], "203.0.113.9"),
        ([b"for=203.0.113.9:80"], "203.0.113.9"),
        ([b"for=[2001:db8::9]:80"], "2001:db8::9"),
        ([b'for="::ffff:203.0.113.9"'], "203.0.113.9"),
        ([b"for=203.0.113.9;proto=https;by=10.0.0.1"], "203.0.113.9"),
        ([b"proto=https;by=10.0.0.1 ; for=203.0.113.9;"], "203.0.113.9"),
        ([b'by="a, b";host="x;for=198.51.100.1";for=203.0.113.9'], "203.0.113.9"),
        ([b"for=198.51.100.1, for=203.0.113.9, for=10.0.0.1;proto=http"], "203.0.113.9"),
        ([b"for=198.51.100.1", b"for=203.0.113.9", b'for="10.0.0.1:80"'], "203.0.113.9"),
        ([b"for=10.0.0.2,for=10.0.0.1"], INNER),
        # what names nobody ends the walk where it is
        ([b""], PROXY),
        ([b"for="], PROXY),
        ([b'for=""'], PROXY),
        ([b"for=unknown"], PROXY),
        ([b'for="unknown:80"'], PROXY),
        ([b"for=_hidden, for=10.0.0.1"], EDGE),
        ([b"for=203.0.113.9, for=unknown, for=10.0.0.1"], EDGE),
        ([b"for=203.0.113.9, proto=https, for=10.0.0.1"], EDGE),
        ([b"for=203.0.113.9, , for=10.0.0.1"], EDGE),
        ([b"for=203.0.113.9", b""], PROXY),
        ([b"for=203.0.113.9", b",for=10.0.0.1"], EDGE),
        ([b"by=203.0.113.9;proto=http"], PROXY),
        ([b"xfor=203.0.113.9"], PROXY),
        ([b"for=203.0.113.9;for=10.0.0.1"], PROXY),
        ([b"203.0.113.9"], PROXY),
        ([b"for = 203.0.113.9"], PROXY),
        ([b'for="203.0.113.9'], PROXY),
        ([b'for=203.0.113.9"'], PROXY),
        ([b'for="203.0.113.9"x'], PROXY),
        ([b'for="\\203.0.113.9"'], PROXY),
        ([b"for='203.0.113.9'"], PROXY),
        ([b"for=203.0.113.9;secret=\xff\xfe"], "203.0.113.9"),
        ([b"for=\xb9.0.113.9"], PROXY),
        ([b'"' * 60_000], PROXY),
        ([b'"' * 60_001], PROXY),
        ([b";" * 60_000], PROXY),
        ([b"for=203.0.113.9;host=" + b"x" * 60_000], PROXY),
        ([b'by="' + b"," * 400 + b'";for=203.0.113.9'], PROXY),
        ([b'by="' + b"," * MAX_QUOTED_COMMAS + b'";for=203.0.113.9'], "203.0.113.9"),
        ([b'by="' + b"," * (MAX_QUOTED_COMMAS + 1) + b'";for=203.0.113.9'], PROXY),
        ([LONGEST], "203.0.113.9"),
        ([LONGEST + b"x"], PROXY),
        ([b"for=198.51.100.1," + LONGEST], "203.0.113.9"),
        ([b"for=203.0.113.9" + b",for=10.0.0.1;host=proxy.example" * 30], "203.0.113.9"),
    ],
)
def test_the_standard_header_is_read_as_its_rfc_says(values: list[bytes], client: str) -> None:
    assert PROXIES.client(PROXY, standard(*values)) == client


# -- both of them ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("one", "other", "client"),
    [
        (b"203.0.113.9", b"for=203.0.113.9", "203.0.113.9"),
        (b"198.51.100.1, 203.0.113.9", b"for=203.0.113.9", "203.0.113.9"),
        (b"203.0.113.9, 10.0.0.1", b'for=203.0.113.9;by=10.0.0.2, for="10.0.0.1:9"', "203.0.113.9"),
        # a client added the one that its proxy does not write: neither is believed
        (b"203.0.113.9", b"for=198.51.100.1", PROXY),
        (b"198.51.100.1", b"for=203.0.113.9", PROXY),
        (b"203.0.113.9", b"", PROXY),
        (b"", b"for=203.0.113.9", PROXY),
        (b"203.0.113.9, 10.0.0.1", b"for=198.51.100.1, for=10.0.0.1", EDGE),
        (b"203.0.113.9, 10.0.0.1", b"for=10.0.0.1", EDGE),
        (b"unknown", b"for=unknown", PROXY),
    ],
)
def test_two_headers_are_believed_as_far_as_they_agree(one: bytes, other: bytes, client: str) -> None:
    assert PROXIES.client(PROXY, [*listed(one), *standard(other)]) == client
    assert PROXIES.client(PROXY, [*standard(other), *listed(one)]) == client


# -- who is believed ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("peer", "client"),
    [
        ("127.0.0.1", "203.0.113.9"),
        ("::ffff:127.0.0.1", "203.0.113.9"),
        ("10.255.255.255", "203.0.113.9"),
        ("2001:db8:ffff::1", "203.0.113.9"),
        ("127.0.0.2", "127.0.0.2"),
        ("11.0.0.1", "11.0.0.1"),
        ("::ffff:11.0.0.1", "11.0.0.1"),
        ("::10.0.0.1", "::10.0.0.1"),
        ("2001:db8:fffe::1", "2001:db8:fffe::1"),
        ("fe80::1%eth0", "fe80::1%eth0"),
        ("nonsense", "nonsense"),
        ("", ""),
        (None, None),
    ],
)
def test_only_a_trusted_peer_speaks_for_others(peer: str | None, client: str | None) -> None:
    for lines in (listed(b"203.0.113.9"), standard(b"for=203.0.113.9")):
        assert PROXIES.client(peer, [(b"host", b"x"), *lines]) == client
    assert PROXIES.trusts_peer(peer) == (client == "203.0.113.9")
    assert not TrustedProxies().trusts_peer(peer)


def test_without_trusted_proxies_nobody_is_believed() -> None:
    nobody = TrustedProxies()
    for peer, shown in (("127.0.0.1", "127.0.0.1"), ("::ffff:10.0.0.1", "10.0.0.1"), ("::1", "::1")):
        assert nobody.client(peer, [*listed(b"203.0.113.9"), *standard(b"for=203.0.113.9")]) == shown
    assert nobody.client(None, listed(b"203.0.113.9")) is None


def test_a_link_local_proxy_is_recognised_whatever_its_zone() -> None:
    proxies = TrustedProxies([network_of("fe80::/10")])
    assert proxies.client("fe80::1%eth0", listed(b"203.0.113.9")) == "203.0.113.9"
    assert proxies.client("fe80::1%eth0", []) == "fe80::1%eth0"


def test_names_that_only_look_like_the_headers_mean_nothing() -> None:
    for name in (b"x_forwarded_for", b"x-real-ip", b"x-client-ip", b"forwarded-for", b"via"):
        assert PROXIES.client(PROXY, [(name, b"203.0.113.9")]) == PROXY


# -- spoofing ----------------------------------------------------------------------------------------------------------

WRITTEN = st.binary(max_size=80) | st.lists(
    st.sampled_from(
        [b"for=", b"198.51.100.1", b"10.0.0.1", b'"', b",", b";", b"\\", b" ", b"unknown", b"[", b"]", b"by="]
    ),
    max_size=12,
).map(b"".join)
"""What a client may have written before its proxy appended to it."""


@given(
    lines=st.lists(WRITTEN, min_size=1, max_size=4),
    same_line=st.booleans(),
    by=st.sampled_from([b"", b"10.0.0.1"]),
)
def test_whatever_a_client_has_written_it_is_found_where_its_proxy_put_it(
    lines: list[bytes], same_line: bool, by: bytes
) -> None:
    """Neither another address nor none: an open quote or nonsense on the left does not reach what is on the right."""
    for own, hop, header in (
        (b"203.0.113.9", by, listed),
        (b"for=203.0.113.9", b"for=" + by if by else b"", standard),
        (b'for="[2001:db8::9]:80";proto=https', b'for="10.0.0.1:8"' if by else b"", standard),
    ):
        appended = b", ".join(filter(None, (own, hop)))
        last = [lines[-1] + b", " + appended] if same_line else [lines[-1], appended]
        client = "2001:db8::9" if b"2001" in own else "203.0.113.9"
        assert PROXIES.client(PROXY, header(*lines[:-1], *last)) == client


@given(values=st.lists(WRITTEN, max_size=5), others=st.lists(WRITTEN, max_size=5))
def test_whatever_the_headers_hold_the_answer_is_an_address(values: list[bytes], others: list[bytes]) -> None:
    client = PROXIES.client(PROXY, [*listed(*values), *standard(*others)])
    assert client is not None
    assert address_of(client.encode()) is not None


# -- work --------------------------------------------------------------------------------------------------------------

ENDLESS = 10_000
BUSY_SECONDS = 0.5
"""All of it takes some milliseconds; looking at every element would take seconds in the quadratic case."""


@pytest.mark.parametrize(
    "lines",
    [
        listed(b"10.0.0.1," * ENDLESS),
        listed(b",".join([b"10.0.0.1"] * ENDLESS)),
        listed(*[b"10.0.0.1"] * ENDLESS),
        listed(b"," * ENDLESS),
        standard(b",".join([b"for=10.0.0.1"] * ENDLESS)),
        standard(b",".join([b'by=",,,,,,,,";for=10.0.0.1'] * ENDLESS)),
        standard(b'for="' + b"," * ENDLESS),
        standard(b'"' * ENDLESS),
        standard(*[b"for=10.0.0.1"] * ENDLESS),
    ],
    ids=lambda lines: f"{len(lines)} × {lines[0][0].decode()} {lines[0][1][:16]!r}",
)
def test_a_list_without_an_end_ends_the_walk(lines: Lines) -> None:
    began = perf_counter()
    assert PROXIES.client(PROXY, lines) in (PROXY, EDGE)
    assert perf_counter() - began < BUSY_SECONDS


def test_a_client_behind_more_proxies_than_there_can_be_is_not_looked_for() -> None:
    def behind(proxies: int) -> Lines:
        return listed(b",".join([b"203.0.113.9", *[b"10.0.0.1"] * proxies]))

    assert PROXIES.client(PROXY, behind(MAX_HOPS - 1)) == "203.0.113.9"
    assert PROXIES.client(PROXY, behind(MAX_HOPS)) == EDGE


# -- the setting -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "network"),
    [
        ("10.0.0.0/8", "10.0.0.0/8"),
        ("127.0.0.1", "127.0.0.1/32"),
        ("::1", "::1/128"),
        ("FD00:0::/8", "fd00::/8"),
        ("::ffff:10.0.0.0/104", "10.0.0.0/8"),
        ("::ffff:10.0.0.1", "10.0.0.1/32"),
        ("::ffff:0:0/96", "0.0.0.0/0"),
        ("0.0.0.0/0", "0.0.0.0/0"),
        ("::/0", "::/0"),
    ],
)
def test_a_network_has_one_spelling(text: str, network: str) -> None:
    assert network_of(text) == network
    assert network_of(network) == network


@pytest.mark.parametrize(
    "text",
    [
        *("10.0.0.1/8", "fd00::1/8", "10.0.0.0/33", "::/129", "10.0.0.0/255.0.0.0", "10.0.0.0/-1"),
        *("10.0.0.0/", "", "/8", "10.0.0", "fe80::1%eth0", "[::1]", "127.0.0.1:80", "localhost"),
        *(" 10.0.0.1", "10.0.0.1\n", "1" * 100, "\u0661.0.0.1"),
    ],
)
def test_what_is_no_network_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"address|network|host bits|octet|netmask|digits"):
        network_of(text)


def test_a_mapped_network_holds_the_addresses_that_it_means() -> None:
    proxies = TrustedProxies([network_of("::ffff:10.0.0.0/104")])
    assert proxies.client("10.1.2.3", listed(b"203.0.113.9")) == "203.0.113.9"
    assert proxies.client("::ffff:10.1.2.3", listed(b"203.0.113.9")) == "203.0.113.9"


# -- how addresses are shown and counted -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("peer", "shown"),
    [
        ("::ffff:192.0.2.1", "192.0.2.1"),
        ("192.0.2.1", "192.0.2.1"),
        ("::1", "::1"),
        ("fe80::1%eth0", "fe80::1%eth0"),
        ("::ffff:c000:201", "::ffff:c000:201"),
    ],
)
def test_an_ipv4_peer_of_a_dual_stack_socket_is_shown_as_ipv4(peer: str, shown: str) -> None:
    assert plain(peer) == shown


@pytest.mark.parametrize(
    ("address", "counted"),
    [
        ("192.0.2.1", "192.0.2.1"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:db8:1:2::", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("::1", "::/64"),
        ("::ffff:192.0.2.1", "192.0.2.1"),
        ("nonsense", "nonsense"),
    ],
)
def test_an_ipv6_address_counts_as_its_network(address: str, counted: str) -> None:
    assert shared_by(address) == counted
