"""Requests with signatures that others computed: what every verifier must accept, byte for byte.

`OFFICIAL` ones are printed in the provider's documentation or in the tests of its own libraries; `DERIVED` ones were
computed from the published algorithm, apart from this repository. All are facts; `where` says where one is found.
"""

from typing import Any, NamedTuple

OFFICIAL = "official vector"
DERIVED = "derived vector"


class Vector(NamedTuple):
    """One request. `url` is the URL that the provider knows, where it signs one; `signed_in` the header of the
    signature, `stamp_in` of a timestamp that is signed with it. `at` is the time of receipt in seconds.

    `id` and `type` are the claims that the message must show.
    """

    name: str
    preset: str
    source: str
    where: str
    secret: bytes
    body: bytes
    headers: dict[str, str]
    signed_in: str
    stamp_in: str | None = None
    at: int = 1_700_000_000
    url: str | None = None
    method: str = "POST"
    options: dict[str, Any] = {}  # noqa: RUF012 - never changed
    id: str | None = None
    type: str = ""

    @property
    def through_ingest(self) -> bool:
        """Whether it is a request that brings a message: ingest takes POST and PUT."""
        return self.method in ("POST", "PUT")


JSON = {"Content-Type": "application/json"}
FORM = {"Content-Type": "application/x-www-form-urlencoded"}

HUBSPOT_OLDER = {"versions": ["v1", "v2"]}
"""Signatures of these versions are taken only by an inbox that says so."""

TWILIO_CALL = (
    b"CallSid=CA1234567890ABCDE&Digits=1234&From=%2B14158675309&To=%2B18005551212&Caller=%2B14158675309"
)
TWILIO_WHERE = "Twilio's libraries, tests of the request validator"


def twilio(
    name: str, url: str, signature: str, body: bytes = TWILIO_CALL, kind: dict[str, str] = FORM
) -> Vector:
    headers = {**kind, "X-Twilio-Signature": signature}
    return Vector(
        name, "twilio", OFFICIAL, TWILIO_WHERE, b"12345", body, headers, "X-Twilio-Signature", url=url
    )


def standard(
    name: str, source: str, where: str, secret: bytes, body: bytes, headers: dict[str, str], at: int
) -> Vector:
    return Vector(
        name,
        "standard-webhooks",
        source,
        where,
        secret,
        body,
        {**JSON, **headers},
        "webhook-signature",
        "webhook-timestamp",
        at,
        id=headers["webhook-id"],
    )


VECTORS = (
    Vector(
        "github",
        "github",
        OFFICIAL,
        "GitHub's documentation, Validating webhook deliveries",
        b"It's a Secret to Everybody",
        b"Hello, World!",
        {
            "X-Hub-Signature-256": "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17",
            "X-GitHub-Event": "push",
            "X-GitHub-Delivery": "72d3162e",
        },
        "X-Hub-Signature-256",
        id="72d3162e",
        type="push",
    ),
    Vector(
        "bitbucket",
        "bitbucket",
        OFFICIAL,
        "Bitbucket's documentation, Manage webhooks, secure a webhook",
        b"It's a Secret to Everybody",
        b"Hello World!",
        {
            "X-Hub-Signature": "sha256=a4771c39fbe90f317c7824e83ddef3caae9cb3d976c214ace1f2937e133263c9",
            "X-Event-Key": "repo:push",
            "X-Request-UUID": "1ab2",
        },
        "X-Hub-Signature",
        id="1ab2",
        type="repo:push",
    ),
    Vector(
        "slack",
        "slack",
        OFFICIAL,
        "Slack's documentation, Verifying requests from Slack",
        b"8f742231b10e8888abcd99yyyzzz85a5",
        b"token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow&channel_id=G8PSS9T3V"
        b"&channel_name=foobar&user_id=U2CERLKJA&user_name=roadrunner&command=%2Fwebhook-collect&text="
        b"&response_url=https%3A%2F%2Fhooks.slack.com%2Fcommands%2FT1DC2JH3J%2F397700885554%2F"
        b"96rGlfmibIGlgcZRskXaIFfN&trigger_id=398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c",
        {
            **FORM,
            "X-Slack-Request-Timestamp": "1531420618",
            "X-Slack-Signature": "v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503",
        },
        "X-Slack-Signature",
        "X-Slack-Request-Timestamp",
        1_531_420_618,
    ),
    standard(
        "standard-webhooks v1",
        OFFICIAL,
        "the Standard Webhooks specification's reference libraries, their tests",
        b"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
        b'{"test": 2432232314}',
        {
            "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
            "webhook-timestamp": "1614265330",
            "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
        },
        1_614_265_330,
    ),
    standard(
        "standard-webhooks v1 again",
        OFFICIAL,
        "Svix's documentation, Verifying webhooks manually",
        b"whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD",
        b'{"email":"test@example.com","username":"test_user"}',
        {
            "webhook-id": "msg_27UH4WbU6Z5A5EzD8u03UvzRbpk",
            "webhook-timestamp": "1649367553",
            "webhook-signature": "v1,tZ1I4/hDygAJgO5TYxiSd6Sd0kDW6hPenDe+bTa3Kkw=",
        },
        1_649_367_553,
    ),
    standard(
        "standard-webhooks v1a",
        DERIVED,
        "the specification's ed25519 signatures, with the key of RFC 8032, section 7.1, test 1",
        b"whpk_11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=",
        b'{"test": 2432232314}',
        {
            "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
            "webhook-timestamp": "1614265330",
            "webhook-signature": "v1a,fldxM4gAKugP6nnt1hdz3sgGfZ6d99nzrMFnZOELIxbzEHoVmAb2ADpkJK7zgPePmPsle0zV9jSe"
            "GlHFG2NVAw==",
        },
        1_614_265_330,
    ),
    Vector(
        "stripe",
        "stripe",
        DERIVED,
        "Stripe's documentation, Verify webhook signatures manually",
        b"whsec_test_secret",
        b'{"id":"evt_test_webhook","object":"event"}',
        {
            **JSON,
            "Stripe-Signature": "t=1700000000,v1=d95c6b7477fbd7e9f90b1b0ef5f9c7ac25abca5382460e0d988c2b2a5b71b990",
        },
        "Stripe-Signature",
        "Stripe-Signature",
        id="evt_test_webhook",
    ),
    Vector(
        "shopify",
        "shopify",
        DERIVED,
        "Shopify's documentation, Verify the webhook",
        b"hush",
        b'{"id":1}',
        {**JSON, "X-Shopify-Hmac-SHA256": "VnKUjZsLuN5iZWjn5EntcBVCF9kMN43LglzCE1/GSeY="},
        "X-Shopify-Hmac-SHA256",
    ),
    Vector(
        "square",
        "square",
        OFFICIAL,
        "Square's libraries, tests of their webhooks helper",
        b"Ibxx_5AKakO-3qeNVR61Dw",
        b'{"merchant_id":"MLEFBHHSJGVHD","type":"webhooks.test_notification",'
        b'"event_id":"ac3ac95b-f97d-458c-a6e6-18981597e05f","created_at":"2022-07-13T20:30:59.037339943Z",'
        b'"data":{"type":"webhooks","id":"bc368e64-01aa-407e-b46e-3231809b1129"}}',
        {**JSON, "x-square-hmacsha256-signature": "GF4YkrJgGBDZ9NIYbNXBnMzqb2HoL4RW/S6vkZ9/2N4="},
        "x-square-hmacsha256-signature",
        url="https://webhook.site/679a4f3a-dcfa-49ee-bac5-9d0edad886b9",
        id="ac3ac95b-f97d-458c-a6e6-18981597e05f",
        type="webhooks.test_notification",
    ),
    twilio("twilio", "https://mycompany.com/myapp.php?foo=1&bar=2", "RSOYDt4T1cUTdK1PDd93/VVr8B8="),
    twilio(
        "twilio, a field three times",
        "https://mycompany.com/myapp.php?foo=1&bar=2",
        "IK+Dwps556ElfBT0I3Rgjkr1wJU=",
        b"Sid=CA123&SidAccount=AC123&Digits=5678&Digits=1234&Digits=1234",
    ),
    twilio(
        "twilio, port 1234", "http://mycompany.com:1234/myapp.php?foo=1&bar=2", "Zmvh+3yNM1Phv2jhDCwEM3q5ebU="
    ),
    twilio(
        "twilio, port 443", "https://mycompany.com:443/myapp.php?foo=1&bar=2", "kvajT1Ptam85bY51eRf/AJRuM3w="
    ),
    twilio(
        "twilio, port 80", "http://mycompany.com:80/myapp.php?foo=1&bar=2", "0ZXoZLH/DfblKGATFgpif+LLRf4="
    ),
    twilio(
        "twilio, JSON",
        "https://mycompany.com/myapp.php?foo=1&bar=2"
        "&bodySHA256=0a1ff7634d9ab3b95db5c9a2dfe9416e41502b283a80c7cf19632632f96e6620",
        "a9nBmqA0ju/hNViExpshrM61xv4=",
        b'{"property": "value", "boolean": true}',
        JSON,
    ),
    Vector(
        "hubspot v2, GET",
        "hubspot",
        OFFICIAL,
        "HubSpot's documentation, v2 request validation",
        b"yyyyyyyy-yyyy-yyyy-yyyy-yyyyyyyyyyyy",
        b"",
        {
            "X-HubSpot-Signature-Version": "v2",
            "X-HubSpot-Signature": "eee2dddcc73c94d699f5e395f4b9d454a069a6855fbfa152e91e88823087200e",
        },
        "X-HubSpot-Signature",
        url="https://www.example.com/webhook_uri",
        method="GET",
        options=HUBSPOT_OLDER,
    ),
    Vector(
        "hubspot v2, POST",
        "hubspot",
        OFFICIAL,
        "HubSpot's documentation, v2 request validation",
        b"yyyyyyyy-yyyy-yyyy-yyyy-yyyyyyyyyyyy",
        b'{"example_field":"example_value"}',
        {
            **JSON,
            "X-HubSpot-Signature-Version": "v2",
            "X-HubSpot-Signature": "9569219f8ba981ffa6f6f16aa0f48637d35d728c7e4d93d0d52efaa512af7900",
        },
        "X-HubSpot-Signature",
        url="https://www.example.com/webhook_uri",
        options=HUBSPOT_OLDER,
    ),
    Vector(
        "hubspot v1",
        "hubspot",
        OFFICIAL,
        "HubSpot's documentation, v1 request validation",
        b"yyyyyyyy-yyyy-yyyy-yyyy-yyyyyyyyyyyy",
        b'[{"eventId":1,"subscriptionId":12345,"portalId":62515,"occurredAt":1564113600000,'
        b'"subscriptionType":"contact.creation","attemptNumber":0,"objectId":123,"changeSource":"CRM",'
        b'"changeFlag":"NEW","appId":54321}]',
        {
            **JSON,
            "X-HubSpot-Signature-Version": "v1",
            "X-HubSpot-Signature": "232db2615f3d666fe21a8ec971ac7b5402d33b9a925784df3ca654d05f4817de",
        },
        "X-HubSpot-Signature",
        url="https://www.example.com/webhook_uri",
        options=HUBSPOT_OLDER,
        type="contact.creation",
    ),
    Vector(
        "discord",
        "discord",
        DERIVED,
        "Discord's documentation, Validating security request headers, with the key of RFC 8032, section 7.1, test 1",
        b"d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a",
        b'{"type":1}',
        {
            **JSON,
            "X-Signature-Timestamp": "1700000000",
            "X-Signature-Ed25519": "1695961a47c91a1ec033b819b7e87e3dbc583dd0cee6d1fd0216f58ac87b6228"
            "ae531ddbf91fb7bc28d7edf7f08604da16f54624f38a6bc0614e4dc13cd47f0f",
        },
        "X-Signature-Ed25519",
        "X-Signature-Timestamp",
        type="1",
    ),
    Vector(
        "sendgrid",
        "sendgrid",
        OFFICIAL,
        "SendGrid's libraries, tests of the event webhook",
        b"MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE83T4O/n84iotIvIW4mdBgQ/7dAfSmpqIM8kF9mN1flpVKS3GRqe62gw+2fNN"
        b"RaINXvVpiglSI8eNEc6wEA3F+g==",
        b'[{"email":"hello@world.com","event":"dropped","reason":"Bounced Address",'
        b'"sg_event_id":"ZHJvcC0xMDk5NDkxOS1MUnpYbF9OSFN0T0doUTRrb2ZTbV9BLTA",'
        b'"sg_message_id":"LRzXl_NHStOGhQ4kofSm_A.filterdrecv-p3mdw1-756b745b58-kmzbl-18-5F5FC76C-9.0",'
        b'"smtp-id":"<LRzXl_NHStOGhQ4kofSm_A@ismtpd0039p1iad1.sendgrid.net>","timestamp":1600112492}]\r\n',
        {
            **JSON,
            "X-Twilio-Email-Event-Webhook-Timestamp": "1600112502",
            "X-Twilio-Email-Event-Webhook-Signature": "MEUCIGHQVtGj+Y3LkG9fLcxf3qfI10QysgDWmMOVmxG0u6ZUAiEAyBiXDWzM"
            "+uOe5W0JuG+luQAbPIqHh89M15TluLtEZtM=",
        },
        "X-Twilio-Email-Event-Webhook-Signature",
        "X-Twilio-Email-Event-Webhook-Timestamp",
        id="ZHJvcC0xMDk5NDkxOS1MUnpYbF9OSFN0T0doUTRrb2ZTbV9BLTA",
        type="dropped",
    ),
    Vector(
        "hmac, SHA-512",
        "hmac",
        OFFICIAL,
        "Convoy's documentation of its signatures",
        b"Convoy",
        b"Test Payload Body",
        {
            "X-Signature": "83306382f5361d35351d6de45998f23b52f40bcf96befe4e92f137c0f1bf4a7119388b238d8f9d502ac77e6f"
            "1a8849a4778272667ed88d530cac8050bd1fee2d"
        },
        "X-Signature",
        options={"header": "X-Signature", "algorithm": "sha512"},
    ),
)
