"""Strict decoding of queries and bodies, and the settings of an inbox as an administrator writes them.

Long by its tables: a row for each value that is taken or refused.
"""

import json
import re
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.commands import Refusal
from storage.records import (
    InboxRecord,
    InboxSettings,
    PageQuery,
    Response,
    Retention,
    Secret,
    TokenRecord,
    Verdict,
)
from storage.secret import SecretBytes
from web import params
from web.errors import ApiError

SERVER_RETENTION = Retention(max_age_seconds=2_592_000, max_messages=1_000_000, max_bytes=1 << 30)
HMAC = {"header": "X-Signature"}


def query(text: str) -> params.QueryMessages:
    return params.from_query(params.QueryMessages, text.encode(), {"inbox": "demo"})


def refused_field(call: Any, *arguments: Any, **named: Any) -> str | None:
    with pytest.raises(ApiError) as refused:
        call(*arguments, **named)
    assert refused.value.code == "invalid_argument"
    assert re.fullmatch(r"[A-Z].+ .+\.", refused.value.message), "a sentence"
    return refused.value.field


# -- query strings -------------------------------------------------------------------------------------------


def test_an_empty_query_means_the_newest_twenty_without_bodies() -> None:
    assert query("") == params.QueryMessages(inbox="demo")
    assert query("").page_query(3, inline_limit=16_384, page_bytes=1_000) == PageQuery(
        inbox_id=3, limit=20, byte_budget=1_000
    )


def test_every_parameter_is_read_as_its_own_type() -> None:
    asked = query(
        "after=5&limit=100&types=a&types=b%20c&types=a&since=1970-01-01T00:00:01Z"
        "&until=1970-01-01T00%3A00%3A02%2B00:00&verified=false&bodies=true&epoch=e1"
    )
    assert asked.epoch == "e1"
    assert asked.page_query(3, inline_limit=16_384, page_bytes=1_000) == PageQuery(
        inbox_id=3,
        limit=100,
        after=5,
        types=("a", "b c"),
        verified=Verdict.FAILED,
        since_us=1_000_000,
        until_us=2_000_000,
        body_limit=16_384,
        byte_budget=1_000,
    )


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ("afer=5", "afer"),
        ("After=5", "After"),
        ("inbox=other", "inbox"),
        ("=5", ""),
        ("after", "after"),
        ("after=", "after"),
        ("after=-1", "after"),
        ("after=%2B1", "after"),
        ("after=1.0", "after"),
        ("after=1e3", "after"),
        ("after=%EF%BC%91", "after"),
        ("after=9223372036854775808", "after"),
        ("after=99999999999999999999999", "after"),
        ("after=1&after=1", "after"),
        ("after=1&before=5", "before"),
        ("before=0", "before"),
        ("limit=0", "limit"),
        ("limit=101", "limit"),
        ("limit=true", "limit"),
        ("bodies=1", "bodies"),
        ("bodies=True", "bodies"),
        ("bodies=", "bodies"),
        ("verified=null", "verified"),
        ("since=yesterday", "since"),
        ("until=today", "until"),
        ("after+=1", "after "),
        ("until=2024-01-01T00:00:00+02:00", "until"),
        ("since=1970-01-01T00:00:01Z&since=1970-01-01T00:00:01Z", "since"),
        ("epoch=a&epoch=a", "epoch"),
        ("types=" + "x" * 201, "types"),
        ("&".join(["types=x"] * 21), "types"),
        ("types=%ff", "types"),
        ("types=%zz", "types"),
        ("types=%", "types"),
        ("%ff=1", "%ff"),
    ],
)
def test_a_bad_query_names_its_field(text: str, field: str) -> None:
    assert (refused_field(query, text) or "") == field


def test_the_largest_cursor_and_the_longest_lists_are_accepted() -> None:
    assert query("after=9223372036854775807").after == 2**63 - 1
    assert len(query("&".join(["types=x"] * 20)).types) == 20
    assert query("types=" + "%C3%A9" * 200).types == ("é" * 200,)
    assert query("&&limit=5&").limit == 5


def test_a_seq_in_the_path_is_as_strict_as_one_in_the_query() -> None:
    def get(seq: str, text: bytes = b"") -> params.GetMessage:
        return params.from_query(params.GetMessage, text, {"inbox": "demo", "seq": seq})

    assert get("7", b"epoch=e").seq == 7
    for seq in ("0", "-1", "1.0", "x", "", "9223372036854775808"):
        assert refused_field(get, seq) == "seq"
    assert refused_field(get, "7", b"seq=8") == "seq"


@given(st.binary(max_size=80))
def test_any_query_string_is_decoded_or_refused(text: bytes) -> None:
    code, answer = "", b"{}"
    try:
        params.from_query(params.QueryMessages, text, {"inbox": "demo"})
    except ApiError as error:
        code, answer = error.code, error.answer().body
    assert code in ("", "invalid_argument")
    assert json.loads(answer) is not None


def test_arguments_of_a_tool_are_checked_by_the_same_definition() -> None:
    asked = params.from_object(params.QueryMessages, {"inbox": "demo", "types": ["a"], "after": 0})
    assert asked.types == ("a",)
    for arguments, field in (
        ({}, "inbox"),
        ({"inbox": "Demo"}, "inbox"),
        ({"inbox": "demo", "after": "5"}, "after"),
        ({"inbox": "demo", "after": True}, "after"),
        ({"inbox": "demo", "types": "a"}, "types"),
        ({"inbox": "demo", "types": ["a", 1]}, "types"),
        ({"inbox": "demo", "colour": 1}, "colour"),
    ):
        assert refused_field(params.from_object, params.QueryMessages, arguments) == field


def test_the_definition_has_a_json_schema() -> None:
    schema = msgspec.json.schema(params.QueryMessages)["$defs"]["QueryMessages"]
    assert schema["required"] == ["inbox"]
    assert schema["additionalProperties"] is False
    assert schema["properties"]["limit"] == {"type": "integer", "minimum": 1, "maximum": 100, "default": 20}


def test_lists_of_inboxes_and_tokens_are_paged_by_key() -> None:
    assert params.from_query(params.ListInboxes, b"limit=5&after_slug=a") == params.ListInboxes(
        limit=5, after_slug="a"
    )
    assert refused_field(params.from_query, params.ListInboxes, b"after=a") == "after"
    assert params.from_query(params.ListTokens, b"") == params.ListTokens()


# -- creating an inbox -----------------------------------------------------------------------------------------


def create(**members: Any) -> params.CreateInbox:
    return params.decode_create(json.dumps(members).encode(), SERVER_RETENTION)


def test_an_empty_body_makes_a_webhook_inbox_with_the_server_s_retention() -> None:
    form = params.decode_create(b"", SERVER_RETENTION)
    new = params.new_inbox(form, slug="drawn", default_retention=SERVER_RETENTION, now_us=5)
    assert (new.slug, new.kind, new.name, new.secrets) == ("drawn", "webhook", "", ())
    assert new.settings == InboxSettings(retention=SERVER_RETENTION)
    assert form.slug is None
    assert form.issue_token is False


def test_every_member_of_a_new_inbox_is_kept() -> None:
    form = create(
        slug="hooks",
        name="Hooks",
        verifier="hmac",
        verifier_options=HMAC,
        secrets=[{"name": "old", "value": "o"}],
        secret="s",
        on_unverified="reject",
        dedupe_window_seconds=0,
        retention={"max_messages": 5, "max_bytes": None, "policy": "refuse"},
        response={"status": 202, "content_type": "application/json", "body": "{}", "headers": {"X-A": "b"}},
        rate_per_minute=60,
        max_body_bytes=1_000,
        signed_url="https://example.org/in/hooks",
        search=True,
        issue_token=True,
    )
    new = params.new_inbox(form, slug="hooks", default_retention=SERVER_RETENTION, now_us=5)
    assert new.settings == InboxSettings(
        verifier="hmac",
        verifier_options=HMAC,
        on_unverified="reject",
        dedupe_window_seconds=0,
        retention=Retention(max_age_seconds=2_592_000, max_messages=5, policy="refuse"),
        response=Response(202, "application/json", "{}", {"X-A": "b"}),
        rate_per_minute=60,
        max_body_bytes=1_000,
        signed_url="https://example.org/in/hooks",
        search=True,
    )
    assert [(s.name, s.value.reveal(), s.added_at) for s in new.secrets] == [
        ("old", b"o", 5),
        ("default", b"s", 5),
    ]


@pytest.mark.parametrize(
    ("members", "field"),
    [
        ({"slug": "A"}, "slug"),
        ({"slug": "agent.bob"}, "slug"),
        ({"slug": "machine.m"}, "slug"),
        ({"name": "x" * 201}, "name"),
        ({"kind": "agent"}, "kind"),
        ({"kind": "topic", "verifier": "github"}, "verifier"),
        ({"verifier": "nobody"}, "verifier"),
        ({"verifier": "hmac"}, "verifier_options.header"),
        (
            {"verifier": "hmac", "verifier_options": {"header": "X", "algorithm": "md5"}},
            "verifier_options.algorithm",
        ),
        ({"verifier_options": []}, "verifier_options"),
        ({"secrets": [{"name": "A", "value": "x"}]}, "secrets[0].name"),
        ({"secrets": [{"name": "a"}]}, "secrets[0].value"),
        ({"secrets": [{"name": "a", "value": ""}]}, "secrets[0].value"),
        ({"secrets": [{"name": "a", "value": "x"}] * 2}, "secrets"),
        ({"secrets": [{"value": "x"}], "secret": "y"}, "secrets"),
        ({"secret": ""}, "secret"),
        ({"verifier": "hmac", "verifier_options": {"header": "X", "key": "hex"}, "secret": "q"}, "secret"),
        ({"on_unverified": "drop"}, "on_unverified"),
        ({"dedupe_window_seconds": -1}, "dedupe_window_seconds"),
        ({"dedupe_window_seconds": 2_592_001}, "dedupe_window_seconds"),
        ({"retention": {"max_messages": 0}}, "retention.max_messages"),
        ({"retention": {"policy": "keep"}}, "retention.policy"),
        ({"retention": {"max_age": 1}}, "retention.max_age"),
        ({"retention": 5}, "retention"),
        ({"rate_per_minute": 0}, "rate_per_minute"),
        ({"max_body_bytes": 0}, "max_body_bytes"),
        ({"max_body_bytes": 1.5}, "max_body_bytes"),
        ({"search": 1}, "search"),
        ({"issue_token": "yes"}, "issue_token"),
        ({"colour": "red"}, "colour"),
    ],
)
def test_a_bad_inbox_names_its_field(members: dict[str, Any], field: str) -> None:
    assert refused_field(create, **members) == field


@pytest.mark.parametrize(
    "url",
    [
        "",
        "example.org",
        "/in/a",
        "ftp://example.org/",
        "https://",
        "https://a b/",
        "https://a/#x",
        "http://a:99999/",
    ],
)
def test_a_signed_url_is_absolute_and_http(url: str) -> None:
    assert refused_field(create, signed_url=url) == "signed_url"


@pytest.mark.parametrize(
    ("response", "field"),
    [
        ({"status": 199}, "response.status"),
        ({"status": 302}, "response.status"),
        ({"status": 500}, "response.status"),
        ({"status": 204, "body": "x"}, "response.body"),
        ({"body": "é" * 32_769}, "response.body"),
        ({"content_type": "text"}, "response.content_type"),
        ({"content_type": "text/plain\r\nx: y"}, "response.content_type"),
        ({"content_type": "text/plain; charset=utf-8\n"}, "response.content_type"),
        ({"content_type": ""}, "response.content_type"),
        ({"headers": {"X A": "b"}}, "response.headers"),
        ({"headers": {"X-A\r\n": "b"}}, "response.headers"),
        ({"headers": {"X-A": "b\r\nSet-Cookie: c"}}, "response.headers"),
        ({"headers": {"X-A": "b\n"}}, "response.headers"),
        ({"headers": {"X-A": " b"}}, "response.headers"),
        ({"headers": {"X-A": "é"}}, "response.headers"),
        ({"headers": {"X-A": 1}}, "response.headers"),
        ({"headers": {"X-A": "1", "x-a": "2"}}, "response.headers"),
        ({"headers": {"Connection": "close"}}, "response.headers"),
        ({"headers": {"Transfer-Encoding": "chunked"}}, "response.headers"),
        ({"headers": {"Content-Length": "0"}}, "response.headers"),
        ({"headers": {"Postroom-Duplicate": "true"}}, "response.headers"),
        ({"headers": {f"x-{n}": "" for n in range(21)}}, "response.headers"),
        ({"colour": 1}, "response.colour"),
    ],
)
def test_a_response_that_could_split_or_confuse_an_answer_is_refused(
    response: dict[str, Any], field: str
) -> None:
    assert refused_field(create, response=response) == field


@pytest.mark.parametrize(
    "response",
    [
        {"status": 204},
        {"headers": {"X-Empty": "", "Link": "<https://a>; rel=next"}},
        {"content_type": 'multipart/mixed; boundary="a b"'},
        {"content_type": "application/vnd.api+json;charset=utf-8"},
    ],
)
def test_an_ordinary_response_is_accepted(response: dict[str, Any]) -> None:
    assert create(response=response).response is not None


@pytest.mark.parametrize(
    "body", [b"[]", b"1", b"{", b'{"name":"\xff"}', b"[" * 9_000, b'{"verifier_options":' * 200]
)
def test_a_body_that_is_no_json_object_is_refused(body: bytes) -> None:
    refused_field(params.decode_create, body, SERVER_RETENTION)


def test_a_deeply_nested_body_is_refused_not_followed() -> None:
    body = b'{"verifier_options":' + b'{"a":' * 500 + b"1" + b"}" * 501
    refused_field(params.decode_create, body, SERVER_RETENTION)


# -- changing an inbox ------------------------------------------------------------------------------------------

CHANGED = InboxSettings(
    verifier="hmac",
    verifier_options={"header": "X-A", "prefix": "v0="},
    dedupe_window_seconds=60,
    retention=Retention(max_messages=5, policy="refuse"),
    response=Response(202, body="ok"),
    rate_per_minute=60,
)


def patched(patch: dict[str, Any], settings: InboxSettings = CHANGED) -> tuple[str, InboxSettings]:
    record = InboxRecord(1, "demo", "webhook", "Old", 0, settings)
    return params.apply_patch(record, patch, SERVER_RETENTION)


def test_an_empty_patch_changes_nothing() -> None:
    assert patched({}) == ("Old", CHANGED)
    assert patched({}, InboxSettings()) == ("Old", InboxSettings())


def test_a_patch_replaces_what_it_names_and_merges_objects() -> None:
    name, settings = patched(
        {
            "name": "New",
            "verifier_options": {"prefix": "v1="},
            "retention": {"max_bytes": 9},
            "rate_per_minute": 1,
        }
    )
    assert name == "New"
    assert settings == msgspec.structs.replace(
        CHANGED,
        verifier_options={"header": "X-A", "prefix": "v1="},
        retention=Retention(max_messages=5, max_bytes=9, policy="refuse"),
        rate_per_minute=1,
    )


def test_null_puts_a_member_back_to_its_default() -> None:
    assert patched({"name": None})[0] == ""
    assert patched({"dedupe_window_seconds": None})[1].dedupe_window_seconds == 86_400
    assert patched({"response": None})[1].response is None
    assert patched({"rate_per_minute": None})[1].rate_per_minute is None
    assert patched({"response": {"status": None}})[1].response == Response(200, body="ok")
    assert patched({"verifier": None, "verifier_options": None})[1].verifier == "none"
    assert patched({"verifier_options": {"prefix": None}})[1].verifier_options == {"header": "X-A"}


def test_a_null_limit_is_none_and_a_null_retention_is_the_server_s() -> None:
    assert patched({"retention": {"max_messages": None}})[1].retention == Retention(policy="refuse")
    assert patched({"retention": None})[1].retention == SERVER_RETENTION


@pytest.mark.parametrize(
    ("patch", "field"),
    [
        ({"verifier": "github"}, "verifier_options.header"),
        ({"verifier": "nobody"}, "verifier"),
        ({"verifier_options": {"header": None}}, "verifier_options.header"),
        ({"retention": {"max_messages": "5"}}, "retention.max_messages"),
        ({"response": {"headers": {"Connection": "x"}}}, "response.headers"),
        ({"rate_per_minute": 0}, "rate_per_minute"),
        ({"colour": 1}, "colour"),
    ],
)
def test_a_patch_that_leaves_bad_settings_is_refused_with_its_field(
    patch: dict[str, Any], field: str
) -> None:
    with pytest.raises(Refusal) as refused:
        patched(patch)
    assert (refused.value.code, refused.value.field) == ("invalid_argument", field)


def test_a_patch_names_only_what_can_be_changed() -> None:
    assert params.decode_patch(b'{"name": null}') == {"name": None}
    for member in ("slug", "kind", "secret", "secrets", "issue_token", "epoch"):
        assert refused_field(params.decode_patch, json.dumps({member: None}).encode()) == member


@given(
    st.dictionaries(st.sampled_from([*InboxSettings.__struct_fields__, "name"]), st.none() | st.integers())
)
def test_any_patch_is_applied_or_refused(patch: dict[str, Any]) -> None:
    field: str | None = "none was refused"
    try:
        _, settings = patched(patch)
    except Refusal as refused:
        field = refused.field
    else:
        assert patched({}, settings) == ("Old", settings)
    assert field


# -- secrets and tokens ---------------------------------------------------------------------------------------------


def inbox(secrets: int = 0) -> InboxRecord:
    held = tuple(Secret(f"s{n}", SecretBytes(b"x"), 0) for n in range(secrets))
    settings = InboxSettings(verifier="hmac", verifier_options={"header": "X", "key": "hex"})
    return InboxRecord(1, "demo", "webhook", "", 0, settings, held)


def test_a_secret_is_added_under_its_name() -> None:
    secret = params.secret_record(params.from_json(params.PutSecret, b'{"value":"00ff"}'), 7)
    assert (secret.name, secret.value.reveal(), secret.added_at) == ("default", b"00ff", 7)


def refused_secret(name: str, value: str, held: int) -> str | None:
    """Return the field for which an inbox with so many secrets refuses one, None when it takes it."""
    try:
        params.check_new_secret(
            params.secret_record(params.PutSecret(name=name, value=value), 7), inbox(held)
        )
    except Refusal as refused:
        return refused.field
    return None


def test_a_secret_that_cannot_be_used_or_is_one_too_many_is_refused() -> None:
    assert refused_secret("default", "q", 0) == "value"
    assert refused_secret("more", "00", 10) == "name"
    assert refused_secret("s3", "00", 10) is None
    assert refused_secret("more", "00", 9) is None


def test_a_verifier_that_could_not_use_the_secrets_of_the_inbox_is_refused() -> None:
    record = InboxRecord(
        1,
        "demo",
        "webhook",
        "",
        0,
        InboxSettings(verifier="github"),
        (Secret("old", SecretBytes(b"not hex"), 0),),
    )
    hexadecimal = {"verifier": "hmac", "verifier_options": {"header": "X", "key": "hex"}}
    with pytest.raises(Refusal, match="The secret old cannot be used") as refused:
        params.apply_patch(record, hexadecimal, SERVER_RETENTION)
    assert refused.value.field == "verifier"
    params.apply_patch(msgspec.structs.replace(record, secrets=()), hexadecimal, SERVER_RETENTION)


def form_of(**members: Any) -> params.CreateToken:
    return params.from_json(params.CreateToken, json.dumps(members).encode())


def token(**members: Any) -> TokenRecord:
    form = form_of(**members)
    return TokenRecord("t1", b"h", form.kind, form.scope(), name=form.name, expires_at=form.expires_us())


def test_a_token_s_scope_is_named_inboxes_or_all() -> None:
    assert form_of(kind="agent", inboxes=["b", "a", "b"]).scope() == ("b", "a")
    assert form_of(kind="agent", inboxes="all").scope() is None
    assert form_of(kind="agent", agent="a").scope() == ()
    assert form_of(kind="machine", machine="m", machines=["n", "o"]).scope() == ()
    assert form_of(kind="admin").scope() is None
    assert form_of(kind="admin", expires_at="1970-01-01T00:00:01Z").expires_us() == 1_000_000


@pytest.mark.parametrize(
    ("members", "field"),
    [
        ({}, "kind"),
        ({"kind": "root"}, "kind"),
        ({"kind": "agent", "inboxes": "some"}, "inboxes"),
        ({"kind": "agent", "inboxes": ["A"]}, "inboxes"),
        ({"kind": "agent", "inboxes": None}, "inboxes"),
        ({"kind": "agent", "inboxes": ["agent.a"]}, "inboxes"),
        ({"kind": "agent"}, "inboxes"),
        ({"kind": "agent", "inboxes": "all", "expires_at": "9999-12-31T23:59:59-23:59"}, "expires_at"),
        ({"kind": "admin", "expires_at": "0001-01-01T00:00:00+00:01"}, "expires_at"),
        ({"kind": "agent", "machine": "m"}, "machine"),
        ({"kind": "agent", "inboxes": "all", "machines": ["m"]}, "machines"),
        ({"kind": "agent", "agent": "a", "machines": ["M"]}, "machines"),
        ({"kind": "agent", "name": "CI"}, "name"),
        ({"kind": "admin", "expires_at": "soon"}, "expires_at"),
        ({"kind": "agent", "expires_at": 5}, "expires_at"),
        ({"kind": "machine"}, "machine"),
        ({"kind": "machine", "machine": "m", "agent": "a"}, "agent"),
        ({"kind": "admin", "inboxes": "all"}, "inboxes"),
        ({"kind": "admin", "agent": "a"}, "agent"),
        ({"kind": "admin", "machine": "m"}, "machine"),
        ({"kind": "admin", "machines": ["m"]}, "machines"),
        ({"kind": "agent", "colour": 1}, "colour"),
    ],
)
def test_a_bad_token_names_its_field(members: dict[str, Any], field: str) -> None:
    assert refused_field(form_of, **members) == field


def test_a_token_is_changed_by_a_merge_patch() -> None:
    made = token(kind="agent", inboxes=["a"], name="ci", expires_at="1970-01-01T00:00:01Z")
    assert params.patch_token(made, {}) == made
    changed = params.patch_token(made, {"inboxes": "all", "name": None, "expires_at": "1970-01-01T00:00:02Z"})
    assert (changed.inboxes, changed.name, changed.expires_at) == (None, None, 2_000_000)
    assert params.patch_token(made, {"inboxes": None, "expires_at": None}).inboxes == ()
    assert params.patch_token(made, {"expires_at": None}).expires_at is None
    assert params.patch_token(made, {"inboxes": ["b"]}).hash == made.hash
    for patch, field in (
        ({"kind": "admin"}, "kind"),
        ({"agent": None}, "agent"),
        ({"inboxes": [1]}, "inboxes"),
        ({"name": ""}, "name"),
        ({"expires_at": "x"}, "expires_at"),
    ):
        assert refused_field(params.patch_token, made, patch) == field
    assert refused_field(params.patch_token, made, {"machines": ["m"]}) == "machines"
    assert refused_field(params.patch_token, token(kind="admin"), {"inboxes": ["a"]}) == "inboxes"


@pytest.mark.parametrize("bound", [{"agent": "a"}, {"machine": "m"}])
def test_the_machines_that_a_bound_token_reaches_are_changed_likewise(bound: dict[str, str]) -> None:
    made = TokenRecord("t1", b"h", "machine" if "machine" in bound else "agent", machines=("n",), **bound)
    assert params.patch_token(made, {"machines": ["o", "n", "o"]}).machines == ("o", "n")
    assert params.patch_token(made, {"machines": None}).machines == ()
    assert params.patch_token(made, {"name": "x"}).machines == ("n",)
