"""Where money moves: payments, shops, books."""

from web.verify.presets.model import Preset
from web.verify.samples import Base
from web.verify.template import PresetTemplate as T

COMMERCE = (
    Preset(
        "stripe",
        T(
            header="Stripe-Signature",
            pair="v1",
            signed="{ts}.{body}",
            timestamp="pair:t",
            delivery_id="body:id",
            event_type="body:type",
        ),
        ("derived vector", "SDK"),
        Base('{"object":"event","type":"payment_intent.succeeded","data":{"object":{"amount":1250}}}'),
    ),
    Preset(
        "shopify",
        T(
            header="X-Shopify-Hmac-SHA256",
            encoding="base64",
            delivery_id="header:X-Shopify-Webhook-Id",
            event_type="header:X-Shopify-Topic",
        ),
        ("derived vector",),
        Base('{"id":1,"total_price":"12.50"}'),
    ),
    Preset(
        "square",
        T(
            header="x-square-hmacsha256-signature",
            encoding="base64",
            signed="{url}{body}",
            delivery_id="body:event_id",
            event_type="body:type",
        ),
        evidence=("official vector",),
        sample=Base('{"type":"payment.created","data":{"type":"payment","id":"0"}}'),
    ),
    Preset(
        "paddle",
        T(
            header="Paddle-Signature",
            pair="h1",
            separator=";",
            signed="{ts}:{body}",
            timestamp="pair:ts",
            tolerance_seconds=5,
            delivery_id="body:event_id",
            event_type="body:event_type",
        ),
        sample=Base('{"event_type":"transaction.completed","data":{"status":"completed"}}'),
    ),
    Preset(
        "woocommerce",
        T(
            header="X-WC-Webhook-Signature",
            encoding="base64",
            event_type="header:X-WC-Webhook-Topic",
        ),
        sample=Base('{"id":1,"status":"processing","total":"12.50"}'),
    ),
    Preset(
        "xero",
        T(header="x-xero-signature", encoding="base64"),
        sample=Base('{"events":[{"eventType":"UPDATE","eventCategory":"CONTACT"}],"firstEventSequence":1}'),
        always_reject=True,
    ),
)
