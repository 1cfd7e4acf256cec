"""Which program a call comes from."""

import pytest

from storage.records import TokenRecord
from web.activity import session_of
from web.auth import Principal

ME = Principal(TokenRecord("t1", b"", "agent", agent="a"))
OTHER = Principal(TokenRecord("t2", b"", "agent", agent="a"))
NAMED = (b"postroom-session", b"one")
AGENT = (b"user-agent", b"curl/8")


def test_a_program_is_known_by_the_name_that_it_gives_itself() -> None:
    assert session_of(ME, [NAMED, AGENT], "192.0.2.1") == session_of(OTHER, [NAMED], "192.0.2.9")
    assert session_of(ME, [NAMED], None) != session_of(ME, [(NAMED[0], b"two")], None)


@pytest.mark.parametrize(
    ("caller", "headers", "address"),
    [(OTHER, [AGENT], "192.0.2.1"), (ME, [AGENT], "192.0.2.2"), (ME, [], "192.0.2.1")],
)
def test_else_by_its_token_its_address_and_its_user_agent(
    caller: Principal, headers: list[tuple[bytes, bytes]], address: str
) -> None:
    known = session_of(ME, [AGENT], "192.0.2.1")
    assert session_of(caller, headers, address) != known
    assert session_of(ME, [AGENT, (b"postroom-session", b"")], "192.0.2.1") == known


def test_what_is_remembered_of_it_is_short() -> None:
    long = b"x" * 60_000
    assert len(session_of(ME, [(b"postroom-session", long)], None)) < 300
    assert len(session_of(ME, [(b"user-agent", long)], "192.0.2.1")) < 300
