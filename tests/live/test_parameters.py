"""Parameters of reads are taken strictly: what is wrong is refused by name, never silently replaced by a default.

Black-box: written from sections 5 and 9 of the surface, over real sockets.
"""

import pytest

from tests.live.api import Api, error_of, new_slug

NOT_TAKEN = [
    ("limit=0", "limit"),
    ("limit=101", "limit"),
    ("limit=-1", "limit"),
    ("limit=ten", "limit"),
    ("limit=1.5", "limit"),
    ("limit=", "limit"),
    ("limit=%201", "limit"),
    ("limit=1_0", "limit"),
    ("limit=%D9%A1", "limit"),
    ("limit=1&limit=2", "limit"),
    ("after=-1", "after"),
    ("after=x", "after"),
    ("after=", "after"),
    ("after=9223372036854775808", "after"),
    ("after=" + "9" * 5000, "after"),
    ("after=1&after=2", "after"),
    ("before=x", "before"),
    ("before=-1", "before"),
    ("before=9223372036854775808", "before"),
    ("since=yesterday", "since"),
    ("since=2026-01-01", "since"),
    ("since=2026-01-01T00:00:00", "since"),
    ("since=2026-02-30T00:00:00Z", "since"),
    ("until=1700000000", "until"),
    ("until=", "until"),
    ("verified=1", "verified"),
    ("verified=True", "verified"),
    ("verified=null", "verified"),
    ("bodies=yes", "bodies"),
    ("bodies", "bodies"),
    ("bodies=true&bodies=true", "bodies"),
    ("epoch=a&epoch=b", "epoch"),
    ("limits=1", "limits"),
    ("Limit=1", "Limit"),
    ("type=push", "type"),
    ("after=0&cursor=1", "cursor"),
    ("access_token=x", "access_token"),
    ("timeout_seconds=1", "timeout_seconds"),
    ("inbox=x", "inbox"),
]


@pytest.mark.parametrize(("text", "field"), NOT_TAKEN, ids=[text[:40] for text, _ in NOT_TAKEN])
def test_a_wrong_parameter_is_refused_by_name(api: Api, mixed: str, text: str, field: str) -> None:
    assert api.refused("GET", f"/inboxes/{mixed}/messages?{text}") == (400, "invalid_argument", field)


def test_both_cursors_at_once_are_refused(api: Api, mixed: str) -> None:
    status, code, field = api.refused("GET", f"/inboxes/{mixed}/messages?after=1&before=5")
    assert (status, code) == (400, "invalid_argument")
    assert field in ("after", "before")


def test_an_unknown_name_is_refused_without_echoing_control_characters(api: Api, mixed: str) -> None:
    answer = api.call("GET", f"/inboxes/{mixed}/messages?%1b%5b2J%0d%0a=1")
    assert error_of(answer)[:2] == (400, "invalid_argument")
    assert b"\x1b" not in answer.content


@pytest.mark.parametrize(
    ("path", "field"),
    [
        ("/messages/1?bodies=true", "bodies"),
        ("/messages/1?x=1", "x"),
        ("/messages/1/raw?x=1", "x"),
        ("/messages/0", "seq"),
        ("/messages/one", "seq"),
        ("/messages/-1", "seq"),
        ("/messages/1.0", "seq"),
        ("/messages/99999999999999999999", "seq"),
    ],
)
def test_single_messages_take_their_parameters_as_strictly(
    api: Api, mixed: str, path: str, field: str
) -> None:
    assert api.refused("GET", f"/inboxes/{mixed}{path}") == (400, "invalid_argument", field)


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ("limit=0", "limit"),
        ("limit=101", "limit"),
        ("after=x", "after"),
        ("after_slug=" + "a" * 73, "after_slug"),
        ("a=b", "a"),
    ],
)
def test_the_list_of_inboxes_takes_its_parameters_as_strictly(api: Api, text: str, field: str) -> None:
    assert api.refused("GET", f"/inboxes?{text}") == (400, "invalid_argument", field)


@pytest.mark.parametrize(
    "slug",
    ["%2e%2e", "..", "UPPER", "a%2Fb", "%00", "a" * 65, "-a", "%F0%9F%93%AC", "%ff", "agent.x", "a%20b"],
)
def test_a_slug_that_cannot_exist_is_not_found(api: Api, slug: str) -> None:
    absent = api.call("GET", f"/inboxes/{new_slug()}/messages")
    answer = api.call("GET", f"/inboxes/{slug}/messages") if slug != ".." else absent
    assert error_of(answer)[:2] == (404, "not_found")
    assert answer.content == absent.content


def test_a_message_that_never_was_is_not_found(api: Api, ten: str) -> None:
    for seq in (11, 2**63 - 1):
        for path in ("", "/raw"):
            assert api.refused("GET", f"/inboxes/{ten}/messages/{seq}{path}")[:2] == (404, "not_found")
