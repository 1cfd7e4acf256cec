"""Whose id a request has: its own, or that of a trusted proxy, and never one that a stranger chose."""

import re
from collections.abc import Iterator

import pytest

from web.request_ids import REQUEST_ID, begin


@pytest.fixture(autouse=True)
def apart() -> Iterator[None]:
    """Leave no id behind: other tests are no part of this request."""
    before = REQUEST_ID.set(None)
    yield
    REQUEST_ID.reset(before)


OWN = re.compile(r"[0-9a-f]{16}")


def test_every_request_has_an_id_of_its_own_which_is_that_of_its_task() -> None:
    ids = [begin([], trusted=False) for _ in range(1000)]
    assert len(set(ids)) == len(ids)
    assert all(OWN.fullmatch(one) for one in ids)
    assert REQUEST_ID.get() == ids[-1]


@pytest.mark.parametrize(
    "given",
    [
        b"0af7651916cd43dd8448eb211c80319c",
        b"018f6b1e-7b9a-7c3d-9e0f-1a2b3c4d5e6f",
        b"a",
        b"A.b_c-9",
        b"x" * 128,
    ],
)
def test_a_trusted_proxy_gives_its_own_id(given: bytes) -> None:
    headers = [(b"host", b"x"), (b"x-request-id", given)]
    assert begin(headers, trusted=True) == given.decode()
    assert OWN.fullmatch(begin(headers, trusted=False))


@pytest.mark.parametrize(
    "given",
    [b"", b"x" * 129, b"a b", b'a"b', b"a\x1b[31m", b"\xc3\xa4", b"a\nb", b"{}", b"a,b"],
    ids=repr,
)
def test_what_is_no_id_is_not_taken_from_a_proxy_either(given: bytes) -> None:
    assert OWN.fullmatch(begin([(b"x-request-id", given)], trusted=True))


def test_two_ids_are_none() -> None:
    assert OWN.fullmatch(begin([(b"x-request-id", b"a"), (b"x-request-id", b"b")], trusted=True))
