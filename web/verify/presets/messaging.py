"""Where people and bots talk: chats, calls, mail."""

from web.verify.credential_schemes import Credential
from web.verify.presets.model import Preset
from web.verify.samples import FORM, Base
from web.verify.template import PresetTemplate as T
from web.verify.urlforms import FormTemplate

MESSAGING = (
    Preset(
        "slack",
        T(
            header="X-Slack-Signature",
            prefix="v0=",
            signed="v0:{ts}:{body}",
            timestamp="header:X-Slack-Request-Timestamp",
            delivery_id="body:event_id",
            event_type=("body:event.type", "body:type"),
        ),
        ("official vector", "SDK"),
        Base('{"type":"event_callback","event":{"type":"app_mention","text":"Hello"}}'),
    ),
    Preset(
        "discord",
        T(
            header="X-Signature-Ed25519",
            method="ed25519",
            signed="{ts}{body}",
            timestamp="header:X-Signature-Timestamp",
            tolerance_seconds=0,
            key="hex",
            delivery_id="body:id",
            event_type="body:type",
        ),
        ("derived vector",),
        Base('{"application_id":"0","type":2,"data":{"name":"ping"}}'),
        always_reject=True,
    ),
    Preset(
        "telegram",
        Credential(place="header", header="X-Telegram-Bot-Api-Secret-Token", delivery_id="body:update_id"),
        sample=Base('{"update_id":1,"message":{"message_id":1,"text":"Hello"}}'),
    ),
    Preset(
        "zoom",
        T(
            header="x-zm-signature",
            prefix="v0=",
            signed="v0:{ts}:{body}",
            timestamp="header:x-zm-request-timestamp",
            event_type="body:event",
        ),
        sample=Base('{"event":"meeting.started","payload":{"object":{"topic":"A sample"}}}'),
    ),
    Preset(
        "meta",
        T(header="X-Hub-Signature-256", prefix="sha256=", event_type="body:object"),
        sample=Base('{"object":"page","entry":[{"id":"0","time":1700000000,"changes":[]}]}'),
        aliases=("whatsapp",),
    ),
    Preset(
        "x",
        T(header="X-Twitter-Webhooks-Signature", prefix="sha256=", encoding="base64"),
        sample=Base('{"for_user_id":"0","tweet_create_events":[]}'),
        aliases=("twitter",),
    ),
    Preset(
        "twilio",
        FormTemplate(
            header="X-Twilio-Signature",
            settings="X-Twilio-Webhooks-Signature-Settings",
            hashed_body=True,
            ports=True,
            delivery_id="header:I-Twilio-Idempotency-Token",
            event_type=(
                "form:MessageStatus",
                "form:CallStatus",
                "form:SmsStatus",
                "form:EventType",
                "body:MessageStatus",
                "body:EventType",
            ),
        ),
        ("official vector", "SDK"),
        Base("MessageSid=SM0&MessageStatus=delivered&From=%2B15550100&To=%2B15550101", FORM),
        checks="X-Twilio-Signature: HMAC-SHA1 (or HMAC-SHA256, where X-Twilio-Webhooks-Signature-Settings says so), "
        "base64, over the URL and the form's sorted fields, or the URL with the body's SHA-256",
    ),
    Preset(
        "sendgrid",
        T(
            header="X-Twilio-Email-Event-Webhook-Signature",
            method="ecdsa",
            encoding="base64",
            signed="{ts}{body}",
            timestamp="header:X-Twilio-Email-Event-Webhook-Timestamp",
            tolerance_seconds=0,
            key="base64",
            delivery_id=("body:[].sg_event_id", "body:sg_event_id"),
            event_type=("body:[0].event", "body:event"),
        ),
        evidence=("official vector",),
        sample=Base('[{"event":"delivered","email":"someone@example.com","timestamp":1700000000}]'),
    ),
    Preset(
        "mailchimp",
        Credential(place="path"),
        sample=Base("type=subscribe&data%5Bemail%5D=someone%40example.com", FORM),
    ),
    Preset(
        "mandrill",
        FormTemplate(header="X-Mandrill-Signature"),
        sample=Base("mandrill_events=%5B%7B%22event%22%3A%22send%22%7D%5D", FORM),
        checks="X-Mandrill-Signature: HMAC-SHA1, base64, over the URL and the form's sorted fields",
    ),
)
