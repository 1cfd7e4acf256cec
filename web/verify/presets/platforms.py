"""Standards, clouds and relays, and the two credentials that any sender may use."""

from web.verify.credential_schemes import Credential
from web.verify.presets.model import Preset, standard
from web.verify.samples import Base
from web.verify.template import PresetTemplate as T

PLATFORMS = (
    Preset(
        "standard-webhooks",
        (*standard("webhook"), *standard("svix")),
        ("official vector", "derived vector", "SDK"),
        Base('{"type":"user.created","data":{"id":"user_1"}}'),
        aliases=("svix",),
        orders={"svix": (*standard("svix"), *standard("webhook"))},
        checks="webhook-signature or svix-signature: HMAC-SHA256 (v1) or ed25519 (v1a), base64, over {id}.{ts}.{body}, "
        "±300 s",
    ),
    Preset(
        "hookdeck",
        T(
            header="x-hookdeck-signature",
            second_header="x-hookdeck-signature-2",
            encoding="base64",
            delivery_id="header:x-hookdeck-eventid",
        ),
    ),
    Preset(
        "msgraph",
        Credential(place="graph", event_type="body:value[0].changeType"),
        sample=Base('{"value":[{"subscriptionId":"0","changeType":"created","resource":"me/messages"}]}'),
        checks="every clientState of the body's value list equals a secret",
    ),
    Preset(
        "eventgrid",
        Credential(
            place="path",
            delivery_id=("body:[].id", "body:id"),
            event_type=("body:[0].eventType", "body:eventType"),
        ),
        sample=Base('[{"eventType":"Sample.Created","subject":"sample","data":{},"dataVersion":"1"}]'),
    ),
    Preset(
        "cloudevents",
        Credential(
            place="path",
            delivery_id=("header:ce-id", "body:id", "body:[].id"),
            event_type=("header:ce-type", "body:type", "body:[0].type"),
        ),
    ),
    Preset(
        "sns",
        Credential(place="path", delivery_id="body:MessageId"),
        sample=Base('{"Type":"Notification","Message":"A sample"}', "text/plain; charset=UTF-8"),
    ),
    Preset(
        "okta",
        Credential(place="path"),
        sample=Base('{"eventType":"com.okta.event_hook","data":{"events":[]}}'),
    ),
    Preset(
        "websub",
        Credential(place="path"),
        sample=Base(
            "<feed xmlns='http://www.w3.org/2005/Atom'><title>A sample</title></feed>", "application/atom+xml"
        ),
    ),
    Preset(
        "basic",
        Credential(place="basic", claims=True),
        checks="Authorization: Basic with user and password of a secret (user:password)",
    ),
    Preset(
        "header",
        Credential(place="options"),
        checks="the header named by verifier_options.header equals a secret",
    ),
)
