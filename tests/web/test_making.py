"""A message as its provider would send it: what goes into headers, path, query and body, and what is refused."""

import msgspec
import pytest

from web.errors import ApiError
from web.making import Made, Message, make

NOW_US = 1_700_000_000_000_000
KEY = b"a secret"


def header(made: Made, name: str) -> str:
    return dict(made.headers)[name]


def test_a_sample_has_type_and_id_where_its_provider_puts_them() -> None:
    github = make(
        "github",
        {},
        KEY,
        Message(body=None, content_type=None, event_type="push", delivery_id="d-1"),
        now_us=NOW_US,
    )
    assert (header(github, "x-github-event"), header(github, "x-github-delivery")) == ("push", "d-1")
    stripe = make(
        "stripe",
        {},
        KEY,
        Message(body=None, content_type=None, event_type="a.b", delivery_id="d-1"),
        now_us=NOW_US,
    )
    assert {"type": "a.b", "id": "d-1"}.items() <= msgspec.json.decode(stripe.body).items()
    assert header(stripe, "content-type") == "application/json"


@pytest.mark.parametrize("preset", ["github", "stripe", "telegram", "svix"])
def test_each_sample_has_an_id_of_its_own(preset: str) -> None:
    secret = b"whsec_" + b"A" * 32 if preset == "svix" else KEY
    made = [make(preset, {}, secret, Message(body=None, content_type=None), now_us=NOW_US) for _ in range(2)]
    assert made[0] != made[1]
    if preset == "telegram":
        assert isinstance(msgspec.json.decode(made[0].body)["update_id"], int)


def test_a_secret_in_the_path_stands_before_the_rest_of_it() -> None:
    made = make(
        "okta", {}, b"a/secret", Message(body=b"{}", content_type=None, target="/more?x=1"), now_us=NOW_US
    )
    assert (made.path, made.query) == ("/a%2Fsecret/more", "x=1")


def test_the_hash_of_a_body_joins_the_query() -> None:
    message = Message(
        body=b"{}", content_type="application/json", target="?x=1", url="https://h.example/?x=1"
    )
    made = make("twilio", {}, KEY, message, now_us=NOW_US)
    assert made.query.startswith("x=1&bodySHA256=")


@pytest.mark.parametrize(
    ("preset", "body", "asked", "field"),
    [
        ("stripe", b"{}", {"event_type": "x"}, "event_type"),
        ("stripe", b"{}", {"delivery_id": "x"}, "delivery_id"),
        ("github", b"{}", {}, None),
        ("github", b"{}", {"event_type": "x", "delivery_id": "y"}, None),
        ("dropbox", b"{}", {"event_type": "x"}, "event_type"),
        ("dropbox", None, {"event_type": "x"}, "event_type"),
        ("stripe", None, {"event_type": "x", "delivery_id": "y"}, None),
        ("discord", b"{}", {}, "value"),
        ("none", b"{}", {}, "verifier"),
        ("msgraph", b"[]", {}, "body"),
    ],
)
def test_what_would_be_lost_is_refused_by_name(
    preset: str, body: bytes | None, asked: dict[str, str], field: str | None
) -> None:
    message = Message(body=body, content_type=None, **asked)
    if field is None:
        make(preset, {}, KEY, message, now_us=NOW_US)
        return
    with pytest.raises(ApiError) as refused:
        make(preset, {}, KEY, message, now_us=NOW_US)
    assert refused.value.field == field
