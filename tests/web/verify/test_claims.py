"""What a sender claims: delivery id and event type, from header, JSON or form."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage.records import InboxSettings
from tests.web.verify.judging import BODY, NOW_US, Headers, Whole, judge
from web.errors import ApiError
from web.verify.model import Judgement, SignedHead
from web.verify.registry import check_verifier, compile_verifier

DEEP = b'{"deep":' + b"[" * 9_000 + b"]" * 9_000 + b',"type":"a"}'


def test_an_unverified_message_still_says_what_it_claims_to_be() -> None:
    headers = [(b"x-github-event", b"push"), (b"x-github-delivery", b"d-1")]
    assert judge("github", {}, [b"k"], headers) == Judgement(False, "missing signature", "push", "d-1")


@pytest.mark.parametrize("values", [(b"d-1", b"d-2"), (b"d-2", b"d-1"), (b"d-1", b"d-1"), (b"", b"d-1")])
def test_a_delivery_id_that_is_there_several_times_is_none(values: tuple[bytes, ...]) -> None:
    headers = [(b"x-github-event", b"push"), *((b"x-github-delivery", value) for value in values)]
    assert judge("github", {}, [b"k"], headers).delivery_id is None
    fallback = {"delivery_id": ["header:x-github-delivery", "body:id"]}
    assert judge("none", fallback, [], headers, BODY).delivery_id is None
    assert judge("none", fallback, [], headers[:1], BODY).delivery_id == "evt_1"
    assert judge("none", {"event_type": "header:x-e"}, [], [(b"x-e", b"a"), (b"x-e", b"b")]).event_type == "a"


def test_an_inbox_without_verifier_gives_no_verdict() -> None:
    headers = [(b"x-hub-signature-256", b"sha256=" + b"0" * 64)]
    assert judge("none", {}, [b"k"], headers) == Judgement(None, None, "", None)


@pytest.mark.parametrize(
    ("source", "body", "event_type"),
    [
        ("body:type", BODY, "paid"),
        ("body:event.type", BODY, "inner"),
        (["body:event.kind", "body:type"], BODY, "paid"),
        (["header:x-kind", "body:type"], BODY, "from-header"),
        (["header:x-none", "body:type"], BODY, "paid"),
        (["form:kind", "body:type"], BODY, "paid"),
        ("body:[0].event", b' [{"event":"open"},{"event":3},7]', "open"),
        ("body:[1].event", b'[{"event":"open"},{"event":3},7]', "3"),
        ("body:[3].event", b'[{"event":"open"}]', ""),
        ("body:[].event", b'[{"event":"open"}]', "open"),
        ("body:[].event", b'[{"event":"open"},{"event":"open"}]', ""),
        ("body:[].event", b'[{"event":"open"},null]', ""),
        ("body:[].event", b"[]", ""),
        ("body:[].event", b'{"event":"open"}', ""),
        ("body:value[].kind", b'{"value":[{"kind":"a"}]}', "a"),
        ("body:value[].kind", b'{"value":[{"kind":"a"},{}]}', ""),
        (["body:[].event", "body:[0].event"], b'[{"event":"open"},{}]', "open"),
        ("body:value[0].changeType", b'{"value":[{"changeType":"created"}]}', "created"),
        ("body:type", b'{"type":null}', ""),
        ("body:type", b'{"type":["a"]}', ""),
        ("body:type", b'{"type":1.5}', ""),
        ("body:type", b'{"type":"a"', ""),
        ("body:type", b"type=a", ""),
        ("body:type", b"", ""),
        ("body:type", b"[]", ""),
        ("body:event.type", b'{"event":"x"}', ""),
        ("body:type", b'{"type":"' + b"a" * 200 + b'"}', "a" * 200),
        ("body:type", b'{"type":"' + b"a" * 201 + b'"}', ""),
        ("body:type", DEEP, ""),
        ("header:x-caf\xe9"[:8], BODY, ""),
        ("form:kind", b"kind=a", "a"),
        ("form:kind", b"a=1&kind=b+c%21&kind=d", "b c!"),
        ("form:kind", b"unkind=a", ""),
        ("form:kind", b"kind=", ""),
        ("form:kind", b"kind", ""),
        ("form:kind", b"kind=%ff", ""),
        ("form:a.b-c_d", b"a.b-c_d=1&aXb-c_d=2", "1"),
        ("form:kind", b"", ""),
    ],
    ids=lambda value: repr(value)[:40],
)
def test_an_event_type_is_found_where_the_inbox_says(source: Any, body: bytes, event_type: str) -> None:
    headers = [(b"x-kind", b"from-header")]
    assert judge("none", {"event_type": source}, [], headers, body).event_type == event_type


@pytest.mark.parametrize(
    ("options", "reads"),
    [
        ({}, 0),
        ({"event_type": "header:x-e"}, 0),
        ({"event_type": "body:type"}, 1),
        ({"event_type": "body:type", "delivery_id": "form:id"}, 1),
    ],
)
def test_a_body_is_read_again_only_when_a_place_in_it_asks_for_it(
    options: dict[str, Any], reads: int
) -> None:
    body = Whole(BODY)
    verifier = compile_verifier(InboxSettings(verifier="none", verifier_options=options), ())
    verifier.begin(SignedHead("POST", "", [], NOW_US)).finish(body)
    assert body.reads == reads


def test_an_overlong_delivery_id_counts_as_none() -> None:
    options = {"delivery_id": "header:x-id"}
    assert judge("none", options, [], [(b"x-id", b"d" * 1_024)]).delivery_id == "d" * 1_024
    assert judge("none", options, [], [(b"x-id", b"d" * 1_025)]).delivery_id is None
    assert judge("none", options, [], [(b"x-id", b"")]).delivery_id is None


JSON = b"application/json"

CLAIMS: list[tuple[str, dict[bytes, bytes], bytes, str | None, str]] = [
    ("gitea", {b"x-gitea-delivery": b"d", b"x-gitea-event": b"push"}, b"", "d", "push"),
    ("gitea", {b"x-github-delivery": b"d", b"x-github-event": b"push"}, b"", "d", "push"),
    ("meta", {}, b'{"object":"page"}', None, "page"),
    ("whatsapp", {}, b'{"object":"whatsapp_business_account"}', None, "whatsapp_business_account"),
    ("bitbucket", {b"x-request-uuid": b"d", b"x-event-key": b"repo:push"}, b"", "d", "repo:push"),
    ("gitlab", {b"idempotency-key": b"d", b"webhook-id": b"e", b"x-gitlab-event": b"Push Hook"}, b"", "d", "Push Hook"),
    ("gitlab", {b"webhook-id": b"e"}, b"", "e", ""),
    ("svix", {b"svix-id": b"msg_1", b"webhook-id": b"e"}, b'{"type":"user.created"}', "msg_1", "user.created"),
    ("gitlab", {b"x-gitlab-event-uuid": b"u"}, b"", None, ""),
    ("stripe", {}, b'{"id":"evt_1","type":"charge.failed"}', "evt_1", "charge.failed"),
    ("slack", {}, b'{"type":"event_callback","event":{"type":"message"},"event_id":"Ev1"}', "Ev1", "message"),
    ("slack", {}, b'{"type":"app_rate_limited"}', None, "app_rate_limited"),
    ("standard-webhooks", {b"webhook-id": b"msg_1"}, b'{"type":"user.created"}', "msg_1", "user.created"),
    ("shopify", {b"x-shopify-webhook-id": b"d", b"x-shopify-topic": b"orders/create"}, b"", "d", "orders/create"),
    ("twilio", {b"i-twilio-idempotency-token": b"d"}, b"MessageStatus=sent", "d", "sent"),
    ("discord", {}, b'{"id":"1","type":2}', "1", "2"),
    ("zoom", {}, b'{"event":"meeting.started"}', None, "meeting.started"),
    ("linear", {b"linear-delivery": b"d", b"linear-event": b"Issue"}, b"", "d", "Issue"),
    ("square", {}, b'{"event_id":"d","type":"payment.updated"}', "d", "payment.updated"),
    ("paddle", {}, b'{"event_id":"evt_1","event_type":"transaction.paid"}', "evt_1", "transaction.paid"),
    ("hubspot", {}, b'[{"subscriptionType":"deal.creation"},{}]', None, "deal.creation"),
    ("hubspot", {}, b'{"subscriptionType":"deal.creation"}', None, "deal.creation"),
    ("sendgrid", {}, b'[{"sg_event_id":"d","event":"open"}]', "d", "open"),
    # A repeated batch may hold other events than the first one did: none of them may get lost for the first one's id.
    ("sendgrid", {}, b'[{"sg_event_id":"d","event":"open"},{"sg_event_id":"e"}]', None, "open"),
    ("typeform", {}, b'{"event_id":"d","event_type":"form_response"}', "d", "form_response"),
    ("x", {}, b'{"id":"d"}', None, ""),
    ("pagerduty", {b"x-webhook-id": b"d"}, b'{"event":{"event_type":"incident.resolved"}}', "d", "incident.resolved"),
    ("calendly", {}, b'{"event":"invitee.created"}', None, "invitee.created"),
    ("sentry", {b"request-id": b"d", b"sentry-hook-resource": b"issue"}, b"", "d", "issue"),
    ("dropbox", {}, b'{"id":"d"}', None, ""),
    ("xero", {}, b'{"id":"d"}', None, ""),
    ("intercom", {}, b'{"id":"d","topic":"contact.created"}', "d", "contact.created"),
    ("vercel", {}, b'{"id":"d","type":"deployment.error"}', "d", "deployment.error"),
    ("webflow", {}, b'{"triggerType":"site_publish"}', None, "site_publish"),
    ("woocommerce", {b"x-wc-webhook-topic": b"order.new", b"x-wc-webhook-delivery-id": b"d"}, b"", None, "order.new"),
    ("elevenlabs", {}, b'{"type":"post_call_audio"}', None, "post_call_audio"),
    ("hookdeck", {b"x-hookdeck-eventid": b"evt_1"}, b'{"type":"t"}', "evt_1", ""),
    ("telegram", {}, b'{"update_id":7}', "7", ""),
    ("msgraph", {}, b'{"value":[{"changeType":"deleted"},{}]}', None, "deleted"),
    ("eventgrid", {}, b'[{"id":"d","eventType":"Storage.BlobCreated"}]', "d", "Storage.BlobCreated"),
    ("eventgrid", {}, b'[{"id":"d","eventType":"a"},{"id":"e"}]', None, "a"),
    ("eventgrid", {}, b'{"id":"d","eventType":"a"}', "d", "a"),
    ("cloudevents", {b"ce-id": b"d", b"ce-type": b"com.example.a"}, b'{"id":"x"}', "d", "com.example.a"),
    ("cloudevents", {}, b'{"id":"d","type":"com.example.a"}', "d", "com.example.a"),
    ("sns", {}, b'{"MessageId":"d","Type":"Notification"}', "d", ""),
    ("okta", {}, b'{"eventId":"d"}', None, ""),
    ("asana", {}, b'{"events":[{"action":"changed"}]}', None, "changed"),
    ("trello", {}, b'{"action":{"id":"d","type":"updateCard"}}', "d", "updateCard"),
    ("mandrill", {}, b"mandrill_events=%5B%5D", None, ""),
]  # fmt: skip


@pytest.mark.parametrize(("preset", "headers", "body", "delivery_id", "event_type"), CLAIMS)
def test_a_preset_knows_where_its_provider_says_what_it_sends(
    preset: str, headers: dict[bytes, bytes], body: bytes, delivery_id: str | None, event_type: str
) -> None:
    judgement = judge(preset, {}, [], list(headers.items()), body)
    assert (judgement.delivery_id, judgement.event_type) == (delivery_id, event_type)


@given(st.binary(max_size=300), st.lists(st.sampled_from(["[]", "[0]", "a", "[15]", "b"]), max_size=4))
def test_no_body_and_no_path_raise(body: bytes, steps: list[str]) -> None:
    path = "a" + "".join(step if step.startswith("[") else f".{step}" for step in steps)
    options = {"event_type": [f"body:{path}", f"body:[].{path}"], "delivery_id": "form:a"}
    headers: Headers = []
    assert judge("none", options, [], headers, body).verified is None


@pytest.mark.parametrize("name", ['a"b', "a\\b", "a\nb", "a\x00b", "x.a\x1fb"])
def test_a_member_whose_name_is_escaped_in_json_cannot_be_named(name: str) -> None:
    """It was taken, and then every message to the inbox ended in a defect."""
    for field in ("event_type", "delivery_id"):
        options = {"header": "X-S", field: f"body:{name}"}
        with pytest.raises(ApiError) as refused:
            check_verifier("hmac", options)
        assert refused.value.field == f"verifier_options.{field}"
