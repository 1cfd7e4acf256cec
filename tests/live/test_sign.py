"""Samples of every preset: `postroom send --sign`, signed by the server and by the command, and the route behind it.

The commands run in this process against the shared server, as a user's would.
"""

import base64
import json
from typing import Any

import pytest
from click.testing import Result

from tests.live.api import Api, new_slug
from tests.live.harness import Server
from tests.live.signing import sha256_signature
from tests.postroom.conftest import run
from web.verify.registry import SCHEMES, canonical, described

SECRET = "a secret of the tests"
WEBHOOK_KEY = "whsec_" + base64.b64encode(bytes(range(24))).decode()
SIGNED_URL = "https://hooks.example.com/in/some?x=1"

SIGNING = sorted(name for one in described() if one.signs for name in (one.name, *one.aliases))

SECRETS = {"standard-webhooks": WEBHOOK_KEY, "basic": "user:a password"}
OPTIONS: dict[str, dict[str, Any]] = {
    "hmac": {
        "header": "X-Signature",
        "timestamp": "header:X-Time",
        "signed": "{ts}{method}{url}{body}",
        "event_type": "header:X-Event",
    },
    "header": {"header": "X-Key", "event_type": ["body:kind", "header:X-Event"]},
    "basic": {"event_type": "body:type"},
}

WITHOUT_A_TYPE = frozenset(
    {"dropbox", "hookdeck", "mailchimp", "mandrill", "okta", "sns", "telegram", "websub", "x", "xero"}
)
"""Presets whose messages have no event type (the table of verifiers; Okta's is in each of several events)."""

SHOWN_IN_THE_BODY = frozenset({"msgraph"})
"""Its secret stands in the body, which is stored byte for byte: the server makes no sample that would show it."""


def secret_of(preset: str) -> str:
    return SECRETS.get(canonical(preset), SECRET)


def inbox(api: Api, preset: str, **settings: Any) -> str:
    options = OPTIONS.get(preset, {})
    return api.inbox(verifier=preset, verifier_options=options, signed_url=SIGNED_URL, **settings)


def send(server: Server, *words: str, **how: Any) -> Result:
    """Run `postroom send` as the administrator."""
    environment = {"POSTROOM_URL": server.url, "POSTROOM_TOKEN": server.token, "HOOK": SECRET}
    return run("send", *words, **{**environment, **how})


def stored(api: Api, slug: str, result: Result) -> Any:
    """Return the message that a command with --json has stored."""
    assert result.exit_code == 0, result.output
    return api.message(slug, json.loads(result.stdout)["seq"])


@pytest.mark.parametrize("preset", [name for name in SIGNING if name not in SHOWN_IN_THE_BODY])
def test_the_server_s_sample_of_every_preset_is_verified(api: Api, server: Server, preset: str) -> None:
    slug = inbox(api, preset, secret=secret_of(preset), on_unverified="reject")
    event = () if canonical(preset) in WITHOUT_A_TYPE else ("--event", "the.event")
    result = send(server, slug, "--sign", preset, *event, "--json")
    message = stored(api, slug, result)
    assert (message["verified"], message["verify_error"]) == (True, None)
    assert message["verifier"] == preset
    assert message["untrusted"]["event_type"] == ("the.event" if event else None)
    assert secret_of(preset) not in json.dumps(message)
    assert secret_of(preset) not in result.output
    said = json.loads(result.stdout)
    assert said == {
        "inbox": slug,
        "id": message["id"],
        "seq": message["seq"],
        "duplicate": False,
        "status": 200,
        "verified": True,
        "verify_error": None,
        "event_type": message["untrusted"]["event_type"],
        "delivery_id": message["untrusted"]["delivery_id"],
    }


@pytest.mark.parametrize("preset", SIGNING)
def test_a_sample_signed_with_a_secret_of_one_s_own_is_verified(
    api: Api, server: Server, preset: str
) -> None:
    slug = inbox(api, preset, secret=secret_of(preset), on_unverified="reject")
    event = () if canonical(preset) in WITHOUT_A_TYPE else ("--event", "the.event")
    options = [f"{name}={json.dumps(value)}" for name, value in OPTIONS.get(preset, {}).items()]
    signing = [word for option in options for word in ("--sign-option", option)]
    words = ("--sign", preset, *event, "--secret", secret_of(preset), *signing, "--signed-url", SIGNED_URL)
    result = send(server, slug, *words, POSTROOM_TOKEN=None)
    assert result.exit_code == 0, result.output
    message = api.message(slug, 1)  # where it was stored is not told by every answer: Xero's must be empty
    assert (message["verified"], message["verifier"]) == (True, preset)
    assert message["untrusted"]["event_type"] == ("the.event" if event else None)


@pytest.mark.parametrize("preset", sorted(SHOWN_IN_THE_BODY))
@pytest.mark.parametrize("body", [(), ("--data", '{"value": []}')])
def test_the_server_shows_no_secret_of_its_own_in_a_body(
    api: Api, server: Server, preset: str, body: tuple[str, ...]
) -> None:
    slug = inbox(api, preset, secret=secret_of(preset))
    result = send(server, slug, "--sign", preset, *body)
    assert result.exit_code == 1
    assert "shows its secret in the body" in result.stderr
    assert secret_of(preset) not in result.output
    assert api.messages(slug)["latest_seq"] == 0


@pytest.mark.parametrize(("name", "brand"), [("svix", "svix"), ("standard-webhooks", "webhook")])
@pytest.mark.parametrize("verifier", ["svix", "standard-webhooks"])
def test_a_sample_has_the_headers_of_the_name_that_was_asked_for(
    api: Api, server: Server, verifier: str, name: str, brand: str
) -> None:
    slug = inbox(api, verifier, secret=WEBHOOK_KEY, on_unverified="reject")
    for seq, secret in ((1, ()), (2, ("--secret", WEBHOOK_KEY))):
        for again in (False, True):
            result = send(server, slug, "--sign", name, "--delivery-id", f"m-{seq}", *secret)
            assert result.exit_code == 0, result.output
            assert ("has this delivery already" in result.stdout) == again
        message = api.message(slug, seq)
        names = {field for field, _ in message["untrusted"]["headers"] if field.endswith("-signature")}
        assert names == {f"{brand}-signature"}
        assert message["untrusted"]["delivery_id"] == f"m-{seq}"


@pytest.mark.parametrize("preset", sorted(WITHOUT_A_TYPE))
def test_an_event_type_that_a_preset_has_not_is_refused(api: Api, server: Server, preset: str) -> None:
    slug = inbox(api, preset, secret=secret_of(preset))
    for secret in ((), ("--secret", SECRET)):
        result = send(server, slug, "--sign", preset, "--event", "x", *secret)
        assert result.exit_code in (1, 2)
        assert "event_type" in result.stderr
        assert "no event type" in result.stderr
    assert api.messages(slug)["latest_seq"] == 0


@pytest.mark.parametrize("preset", sorted(set(SCHEMES) - set(SIGNING) - {"none"}))
def test_a_preset_that_signs_with_the_provider_s_key_says_so(api: Api, server: Server, preset: str) -> None:
    keys = {"discord": "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a"}
    keys["sendgrid"] = (
        "MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE83T4O/n84iotIvIW4mdBgQ/7dAfSmpqIM8kF9mN1flpVKS3GRqe62gw+2fNNRaINXvVpiglSI8eNEc6wEA3F+g=="
    )
    slug = inbox(api, preset, secret=keys[preset])
    result = send(server, slug, "--sign", preset)
    assert result.exit_code == 1
    assert "public key, which can verify and cannot sign" in result.stderr


def test_a_public_key_of_standard_webhooks_does_not_stand_in_the_way_of_a_secret(
    api: Api, server: Server
) -> None:
    public = {"name": "public", "value": "whpk_11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo="}
    slug = inbox(api, "standard-webhooks", secrets=[public])
    assert "cannot sign" in send(server, slug, "--sign", "svix").stderr
    api.ok("POST", f"/inboxes/{slug}/secrets", {"name": "key", "value": WEBHOOK_KEY}, status=201)
    api.ok("POST", f"/inboxes/{slug}/secrets", public, status=201)  # the public key is the newest again
    assert stored(api, slug, send(server, slug, "--sign", "svix", "--json"))["verified"] is True


def test_the_server_signs_what_is_given_as_well(api: Api, server: Server) -> None:
    slug = inbox(api, "github", secret=SECRET)
    words = ("--data", '{"n": 1.50}', "--put", "--path", "/a%2Fb?x=1", "-H", "X-One: 1", "--event", "push")
    message = stored(api, slug, send(server, slug, "--sign", "github", *words, "--json"))
    assert (message["verified"], message["method"], message["size"]) == (True, "PUT", 11)
    untrusted = message["untrusted"]
    assert (untrusted["path"], untrusted["query"], untrusted["event_type"]) == ("/a%2Fb", "x=1", "push")
    assert ["x-one", "1"] in untrusted["headers"]
    assert untrusted["content_type"] == "application/json"
    piped = stored(api, slug, run_with_stdin(server, slug, b"\xff\x00"))
    assert (piped["verified"], piped["untrusted"]["body_base64"]) == (True, "/wA=")


def run_with_stdin(server: Server, slug: str, data: bytes) -> Result:
    environment = {"POSTROOM_URL": server.url, "POSTROOM_TOKEN": server.token}
    return run("send", slug, "--sign", "github", "--json", stdin=data, **environment)


def test_a_sample_sent_again_under_its_delivery_id_is_a_duplicate(api: Api, server: Server) -> None:
    slug = inbox(api, "github", secret=SECRET)
    assert "Stored in" in send(server, slug, "--sign", "github").stdout
    assert "as message 2" in send(server, slug, "--sign", "github").stdout, "each has an id of its own"
    first = send(server, slug, "--sign", "github", "--event", "push", "--delivery-id", "d-1")
    assert first.stdout.endswith(": verified, push.\n")
    again = send(server, slug, "--sign", "github", "--delivery-id", "d-1")
    assert "has this delivery already, as message 3" in again.stdout


def test_the_newest_secret_signs_unless_another_is_named(api: Api, server: Server) -> None:
    slug = inbox(api, "github", secrets=[{"name": "old", "value": "old"}])
    for name in ("new", "verify_token"):
        api.ok("POST", f"/inboxes/{slug}/secrets", {"name": name, "value": name}, status=201)
    for words, signer in (
        ((), b"new"),
        (("--secret-name", "old"), b"old"),
        (("--secret-name", "new"), b"new"),
    ):
        message = stored(api, slug, send(server, slug, "--sign", "github", "--data", "{}", *words, "--json"))
        assert message["verified"] is True
        signature = sha256_signature(signer, b"{}").decode()
        assert ["x-hub-signature-256", signature] in message["untrusted"]["headers"]
    refused = send(server, slug, "--sign", "github", "--secret-name", "verify_token")
    assert "belongs to the handshake" in refused.stderr
    for name in ("old", "new"):
        api.call("DELETE", f"/inboxes/{slug}/secrets/{name}").raise_for_status()
        gone = send(server, slug, "--sign", "github", "--secret-name", name)
        assert "no secret of this name" in gone.stderr
    assert "no secret to sign with" in send(server, slug, "--sign", "github").stderr


def test_a_handshake_as_a_sample_is_answered_and_not_stored(api: Api, server: Server) -> None:
    slug = inbox(api, "slack", secret=SECRET)
    body = '{"type": "url_verification", "challenge": "c"}'
    result = send(server, slug, "--sign", "slack", "--data", body)
    assert result.stdout == f"{slug} answered 200 and stored nothing: it was a handshake.\n"
    assert api.messages(slug)["latest_seq"] == 0


def test_an_inbox_s_own_answer_hides_no_sample(api: Api, server: Server) -> None:
    slug = inbox(api, "github", secret=SECRET, response={"status": 204})
    said = json.loads(send(server, slug, "--sign", "github", "--json").stdout)
    assert (said["status"], said["seq"]) == (204, 1)


def test_what_the_body_decides_cannot_be_asked_for_beside_it(api: Api, server: Server) -> None:
    slug = inbox(api, "stripe", secret=SECRET)
    for option in ("--event", "--delivery-id"):
        for secret in ((), ("--secret", SECRET)):
            result = send(server, slug, "--sign", "stripe", "--data", "{}", option, "x", *secret)
            assert result.exit_code in (1, 2)
            assert "from the body" in result.stderr
    assert api.messages(slug)["latest_seq"] == 0


# -- the route -------------------------------------------------------------------------------------------------------


def test_only_an_admin_token_may_have_samples_sent(api: Api) -> None:
    slug = inbox(api, "github", secret=SECRET)
    reader = api.as_(api.agent([slug]))
    for name in (slug, new_slug()):
        assert reader.refused("POST", f"/inboxes/{name}:sample", {}) == (403, "permission_denied", None)
        assert api.as_(None).refused("POST", f"/inboxes/{name}:sample", {})[0] == 401
    assert api.refused("POST", f"/inboxes/{new_slug()}:sample", {}) == (404, "not_found", None)
    assert api.messages(slug)["latest_seq"] == 0


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"verifier": "stripe"}, "verifier"),
        ({"verifier": "nobody"}, "verifier"),
        ({"secret_name": "nobody"}, "secret_name"),
        ({"secret_name": "Not A Name"}, "secret_name"),
        ({"body_base64": "*"}, "body_base64"),
        ({"body_base64": "YQ"}, "body_base64"),
        ({"path": "relative"}, "path"),
        ({"path": "/a b"}, "path"),
        ({"path": "/a#b"}, "path"),
        ({"event_type": "a\r\nX-Evil: 1"}, "event_type"),
        ({"event_type": ""}, "event_type"),
        ({"delivery_id": "a\nb"}, "delivery_id"),
        ({"content_type": "a\nb"}, "content_type"),
        ({"method": "GET"}, "method"),
        ({"headers": {"X-A": "a\nb"}}, "headers"),
        ({"headers": {"X A": "a"}}, "headers"),
        ({"headers": {"Content-Length": "7"}}, "headers"),
        ({"headers": {"Transfer-Encoding": "chunked"}}, "headers"),
        ({"headers": ["X-A"]}, "headers"),
        ({"secret": "s"}, "secret"),
    ],
)
def test_a_wrong_sample_is_refused_by_name(api: Api, body: dict[str, Any], field: str) -> None:
    slug = inbox(api, "github", secret=SECRET)
    assert api.refused("POST", f"/inboxes/{slug}:sample", body) == (400, "invalid_argument", field)
    assert api.messages(slug)["latest_seq"] == 0


def test_an_inbox_without_a_verifier_or_for_other_things_has_no_samples(api: Api) -> None:
    for slug in (api.inbox(secret="s"), api.inbox(kind="topic", secret="s")):
        assert api.refused("POST", f"/inboxes/{slug}:sample", {}) == (400, "invalid_argument", "verifier")


def test_a_sample_passes_the_limits_that_a_message_passes(api: Api) -> None:
    slug = inbox(api, "github", secret=SECRET, max_body_bytes=4)
    large = base64.b64encode(b"12345").decode()
    assert api.refused("POST", f"/inboxes/{slug}:sample", {"body_base64": large})[:2] == (
        413,
        "payload_too_large",
    )
    slug = inbox(api, "github", secret=SECRET)
    huge = base64.b64encode(bytes(1024 * 1024)).decode()
    answer = api.call("POST", f"/inboxes/{slug}:sample", {"body_base64": huge})
    assert answer.status_code == 413
    assert "samples of up to about 700 KiB" in answer.json()["error"]["message"]
    most = base64.b64encode(bytes(700 * 1024)).decode()
    assert api.ok("POST", f"/inboxes/{slug}:sample", {"body_base64": most})["verified"] is True
    slug = inbox(api, "github", secret=SECRET, rate_per_minute=1)
    api.ok("POST", f"/inboxes/{slug}:sample")
    assert api.refused("POST", f"/inboxes/{slug}:sample", {})[:2] == (429, "rate_limited")
