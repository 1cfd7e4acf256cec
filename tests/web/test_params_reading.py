"""What reads and tokens are asked for: cursors, epochs, pages, and scopes that are given and changed."""

from typing import Any

import pytest

from storage.records import PageQuery, TokenRecord, Verdict
from tests.web.test_params import refused_field
from web import params

FORWARD = b"after=5&limit=7&types=a&types=b&types=a"


def from_query(into: Any, text: bytes, **path: str) -> Any:
    return params.from_query(into, text, path)


def test_a_page_may_be_asked_for_backward_and_of_verified_messages() -> None:
    asked = from_query(params.QueryMessages, b"before=9&verified=true", inbox="demo")
    page = asked.page_query(3, inline_limit=16_384, page_bytes=1_000)
    assert (page.before, page.after, page.verified) == (9, None, Verdict.VERIFIED)


@pytest.mark.parametrize(("text", "body_limit"), [(b"", 0), (b"&bodies=false", 0), (b"&bodies=true", 16_384)])
def test_a_wait_looks_behind_its_cursor_and_brings_bodies_when_they_are_asked_for(
    text: bytes, body_limit: int
) -> None:
    asked = from_query(params.WaitForMessages, FORWARD + text, inbox="demo")
    assert asked.page_query(3, inline_limit=16_384, page_bytes=1_000) == PageQuery(
        inbox_id=3, limit=7, after=5, types=("a", "b"), body_limit=body_limit, byte_budget=1_000
    )


def test_an_epoch_is_that_of_one_inbox() -> None:
    assert from_query(params.StreamInboxes, b"inboxes=a&inboxes=a&epoch=e").epoch == "e"
    assert from_query(params.StreamInboxes, b"inboxes=a&inboxes=b").epoch is None
    assert refused_field(from_query, params.StreamInboxes, b"inboxes=a&inboxes=b&epoch=e") == "epoch"


# -- tokens ------------------------------------------------------------------------------------------------------


def create(**members: Any) -> params.CreateToken:
    return params.from_object(params.CreateToken, members)


def token(kind: Any = "agent", **members: Any) -> TokenRecord:
    return TokenRecord("t", b"hash", kind, ("ci",), **members)


@pytest.mark.parametrize("inboxes", [("agent.ben",), ("ci", "machine.m")])
def test_no_scope_that_is_given_or_changed_names_a_private_inbox(inboxes: tuple[str, ...]) -> None:
    assert refused_field(create, kind="agent", inboxes=inboxes) == "inboxes"
    assert refused_field(params.patch_token, token(), {"inboxes": inboxes}) == "inboxes"


def test_a_token_of_an_administrator_takes_no_scope_and_nothing_is_said_of_inboxes_when_it_is_made() -> None:
    assert create(kind="admin").scope() is None
    for members in ({"inboxes": ("ci",)}, {"machines": ("m",)}):
        (field,) = members
        assert refused_field(create, kind="admin", **members) == field
        assert refused_field(params.patch_token, token("admin"), members) == field


def test_a_scope_that_is_changed_is_the_one_that_is_named_each_once() -> None:
    assert params.patch_token(token(), {"inboxes": ("b", "a", "b")}).inboxes == ("b", "a")
    assert params.patch_token(token(), {"inboxes": "all"}).inboxes is None
    assert params.patch_token(token("admin"), {"inboxes": None}).inboxes is None
    assert params.patch_token(token(), {"inboxes": None}).inboxes == ()


def test_a_name_is_given_and_taken_away() -> None:
    named = params.patch_token(token(), {"name": "ci-2"})
    assert named.name == "ci-2"
    assert params.patch_token(named, {"name": None}).name is None
    assert params.patch_token(named, {}).name == "ci-2"


def test_only_a_token_that_belongs_to_somebody_reaches_machines() -> None:
    assert refused_field(create, kind="agent", inboxes=("ci",), machines=("m",)) == "machines"
    assert refused_field(params.patch_token, token(), {"machines": ("m",)}) == "machines"
    for owner in ({"agent": "ada"}, {"machine": "m"}):
        assert params.patch_token(token(**owner), {"machines": ("n", "n")}).machines == ("n",)
