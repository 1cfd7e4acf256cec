"""Where customers are kept: forms, appointments, files, sites."""

from web.verify.presets.model import Preset
from web.verify.samples import Base
from web.verify.template import PresetTemplate as T

_HUBSPOT_DECODED = ":/?@!$'()*,;"
"""HubSpot signs a URL with these characters as they are, also where the request has them percent-encoded."""

_HUBSPOT_EVENT = ("body:[0].subscriptionType", "body:subscriptionType")

BUSINESS = (
    Preset(
        "hubspot",
        (
            T(
                header="X-HubSpot-Signature-v3",
                encoding="base64",
                signed="{method}{url}{body}{ts}",
                timestamp="header:X-HubSpot-Request-Timestamp",
                timestamp_unit="milliseconds",
                decoded_in_url=_HUBSPOT_DECODED,
                event_type=_HUBSPOT_EVENT,
                version="v3",
            ),
            T(
                header="X-HubSpot-Signature",
                method="hash",
                signed="{method}{url}{body}",
                when=("x-hubspot-signature-version", "v2"),
                event_type=_HUBSPOT_EVENT,
                version="v2",
            ),
            T(
                header="X-HubSpot-Signature",
                method="hash",
                when=("x-hubspot-signature-version", "v1"),
                event_type=_HUBSPOT_EVENT,
                version="v1",
            ),
        ),
        ("official vector",),
        Base('[{"subscriptionType":"contact.creation","objectId":1,"attemptNumber":0}]'),
    ),
    Preset(
        "intercom",
        T(
            header="X-Hub-Signature",
            algorithm="sha1",
            prefix="sha1=",
            delivery_id="body:id",
            event_type="body:topic",
        ),
        sample=Base('{"type":"notification_event","topic":"contact.created","data":{"item":{}}}'),
    ),
    Preset(
        "typeform",
        T(
            header="Typeform-Signature",
            prefix="sha256=",
            encoding="base64",
            delivery_id="body:event_id",
            event_type="body:event_type",
        ),
        sample=Base('{"event_type":"form_response","form_response":{"form_id":"a","answers":[]}}'),
    ),
    Preset(
        "calendly",
        T(
            header="Calendly-Webhook-Signature",
            pair="v1",
            signed="{ts}.{body}",
            timestamp="pair:t",
            tolerance_seconds=180,
            event_type="body:event",
        ),
        sample=Base('{"event":"invitee.created","payload":{"name":"A sample"}}'),
    ),
    Preset(
        "dropbox",
        T(header="X-Dropbox-Signature"),
        sample=Base('{"list_folder":{"accounts":["dbid:A"]}}'),
    ),
    Preset(
        "webflow",
        T(
            header="x-webflow-signature",
            signed="{ts}:{body}",
            timestamp="header:x-webflow-timestamp",
            timestamp_unit="milliseconds",
            event_type="body:triggerType",
        ),
        sample=Base('{"triggerType":"form_submission","payload":{"name":"Contact"}}'),
    ),
    Preset(
        "elevenlabs",
        T(
            header="ElevenLabs-Signature",
            pair="v0",
            signed="{ts}.{body}",
            timestamp="pair:t",
            tolerance_seconds=1_800,
            event_type="body:type",
        ),
        sample=Base('{"type":"post_call_transcription","data":{"status":"done"}}'),
    ),
)
