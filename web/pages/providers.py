"""What to enter at a provider so that its webhooks come to an inbox: words for the page of setting up.

From the providers' public documentation, as `docs/providers.md` tells it at length. In a step `**…**` is the name of
something on the provider's side, and `{url}` the address to enter there.
"""

import re
from typing import Literal

import msgspec

SecretKind = Literal["chosen", "given", "public", "path", "none"]

_MARK = re.compile(r"\*\*(.+?)\*\*|(\{url\})")

SECRET_WORDS: dict[str, str] = {
    "chosen": "You choose it: make one here, and enter the same at the provider.",
    "given": "The provider makes it once it knows the address: make the inbox first, and add the secret then.",
    "public": "The provider gives you its public key, which checks and cannot sign.",
    "path": "You choose it. It is the end of the address that you enter at the provider, or the value of a header.",
    "none": "None is needed.",
}


class Provider(msgspec.Struct, frozen=True):
    """One provider. `preset`: the verifier. `secret`: who makes it; `label`: what it is called there."""

    preset: str
    title: str
    secret: SecretKind
    label: str = "Secret"
    steps: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def words(self) -> str:
        """Where the secret comes from."""
        return SECRET_WORDS[self.secret]


class Part(msgspec.Struct, frozen=True):
    """A piece of a step: plain text, a name on the provider's side, or the address."""

    kind: Literal["text", "name", "url"]
    text: str


def parts(step: str) -> list[Part]:
    """Return the pieces of a step."""
    found: list[Part] = []
    at = 0
    for mark in _MARK.finditer(step):
        if mark.start() > at:
            found.append(Part("text", step[at : mark.start()]))
        found.append(Part("url", "") if mark[2] else Part("name", mark[1]))
        at = mark.end()
    if at < len(step):
        found.append(Part("text", step[at:]))
    return found


def _named(
    preset: str, title: str, secret: SecretKind, where: str, label: str = "Secret", *notes: str
) -> Provider:
    """Return a provider of whom the place of its form is all there is to say."""
    return Provider(preset, title, secret, label, (f"{where}: enter the address {{url}}",), notes)


_ADDRESS = "Enter the address {url}"

PROVIDERS: tuple[Provider, ...] = (
    Provider(
        "none",
        "Anything, not verified",
        "none",
        steps=("Have it send POST or PUT requests to {url}",),
        notes=("Whoever knows the address can send: messages are stored as unchecked.",),
    ),
    Provider(
        "github",
        "GitHub",
        "chosen",
        steps=(
            "In the repository, the organization or the GitHub App: **Settings → Webhooks → Add webhook**.",
            "**Payload URL**: {url}",
            "**Content type**: application/json. **Secret**: the secret of this inbox.",
            "Leave SSL verification on, choose the events, **Add webhook**. GitHub sends a ping first.",
        ),
        notes=("GitHub does not try again by itself; **Recent Deliveries** can send a delivery once more.",),
    ),
    Provider(
        "gitlab",
        "GitLab",
        "chosen",
        "Secret token",
        (
            "In the project or group: **Settings → Webhooks → Add new webhook**.",
            "**URL**: {url}",
            "**Secret token**: the secret of this inbox. Choose the triggers, **Add webhook**.",
            "A **signing token**, which newer versions have, can be added as a second secret: then signatures count.",
        ),
    ),
    Provider(
        "stripe",
        "Stripe",
        "given",
        "Signing secret (whsec_…)",
        (
            "In the Dashboard: **Workbench → Webhooks → Create an event destination**, **Webhook endpoint**.",
            "**Endpoint URL**: {url}",
            "The destination's page then shows the **Signing secret**, whsec_…: add it below, whole.",
        ),
        ("Sandboxes have destinations and secrets of their own: use an inbox for each.",),
    ),
    Provider(
        "slack",
        "Slack",
        "given",
        "Signing Secret",
        (
            "At api.slack.com/apps, your app: **Basic Information → App Credentials** has the **Signing Secret**."
            " Add it first.",
            "**Event Subscriptions**: switch **Enable Events** on. **Request URL**: {url}",
            "Choose bot events, **Save Changes**, and reinstall the app if Slack says so.",
        ),
    ),
    Provider(
        "shopify",
        "Shopify",
        "given",
        "Webhook secret, or the app's client secret",
        (
            "In the shop's admin: **Settings → Notifications → Webhooks → Create webhook**, format **JSON**.",
            "**URL**: {url}",
            "Below the list stands the secret that all webhooks of that page are signed with: add it below.",
        ),
    ),
    Provider(
        "twilio",
        "Twilio",
        "given",
        "Auth Token",
        (
            "The first page of the Console has the **Auth Token** of the account: that is the secret.",
            "**Phone Numbers → Manage → Active numbers**, the number, **Messaging Configuration**."
            " **A message comes in**: **Webhook**, {url} **HTTP POST**.",
        ),
        (
            "Twilio signs the address: it must be exactly this one.",
            "Twilio takes the answer for instructions: give the inbox the response <Response/> of the type text/xml.",
        ),
    ),
    Provider(
        "discord",
        "Discord",
        "public",
        "Public Key",
        (
            "In the Developer Portal, your application: **General Information** has the **Public Key**. Add it first.",
            "**Webhooks**, **Endpoint**: {url} Switch **Events** on, choose them, **Save Changes**.",
        ),
        ("What does not verify is refused, as Discord wants it.",),
    ),
    Provider(
        "standard-webhooks",
        "Standard Webhooks: OpenAI, Clerk, Resend, Svix and others",
        "given",
        "Signing secret (whsec_…)",
        (
            "Make an endpoint at the provider, often under **Webhooks → Add Endpoint**, with the address {url}",
            "Its page then shows the **signing secret**: add it below. One that begins with whpk_ is a public key.",
        ),
    ),
    Provider(
        "meta",
        "WhatsApp, Messenger, Instagram (Meta)",
        "given",
        "App secret",
        (
            "In the App Dashboard, **App settings → Basic** has the **App secret**: add it below.",
            "Add a second secret with the name verify_token, which you choose.",
            "**WhatsApp → Configuration → Webhook → Edit**: **Callback URL**: {url}"
            " **Verify token**: the one that you chose. **Verify and save**.",
            "**Manage** the fields, and subscribe to those that you want.",
        ),
    ),
    Provider(
        "linear",
        "Linear",
        "given",
        "Signing secret",
        (
            "As an administrator: **Settings → API → New webhook**, with the address {url}",
            "The webhook's page shows the **Signing secret**: add it below.",
        ),
    ),
    _named(
        "asana",
        "Asana",
        "none",
        "With the API's **POST /webhooks**",
        "Secret",
        "The secret comes along when the webhook is made.",
    ),
    _named(
        "basic", "HTTP basic credentials", "chosen", "Wherever basic credentials are entered", "user:password"
    ),
    _named("bitbucket", "Bitbucket", "chosen", "**Repository settings → Webhooks → Add webhook**"),
    _named("calendly", "Calendly", "chosen", "With the API's **POST /webhook_subscriptions**", "signing_key"),
    _named("cloudevents", "CloudEvents", "path", "Wherever a webhook for CloudEvents is entered"),
    _named("dropbox", "Dropbox", "given", "**App Console**, the app, **Webhooks**", "App secret"),
    _named("elevenlabs", "ElevenLabs", "given", "**Developers → Webhooks**", "Secret, shown once"),
    _named(
        "eventgrid",
        "Azure Event Grid",
        "path",
        "In an event subscription with the endpoint type **Web Hook**",
    ),
    _named("gitea", "Gitea, Forgejo", "chosen", "**Settings → Webhooks → Add webhook**"),
    _named("header", "A secret in a header", "chosen", "Wherever a header can be set", "Value of the header"),
    _named("hmac", "Any HMAC signature", "chosen", "Wherever a signature is described", "Secret"),
    _named(
        "hookdeck",
        "Hookdeck",
        "given",
        "As a destination; **Project settings → Secrets** has the secret",
        "Signing secret",
    ),
    _named(
        "hubspot",
        "HubSpot",
        "given",
        "In the app, **Webhooks**",
        "The app's client secret",
        "HubSpot signs the address: it must be exactly this one.",
    ),
    _named(
        "intercom", "Intercom", "given", "**Developer Hub**, the app, **Webhooks**", "The app's client secret"
    ),
    _named("mailchimp", "Mailchimp", "path", "**Audience → Settings → Webhooks**"),
    _named(
        "mandrill",
        "Mandrill",
        "given",
        "**Settings → Webhooks**",
        "Key of the webhook",
        "Mandrill signs the address: it must be exactly this one.",
    ),
    _named(
        "msgraph",
        "Microsoft Graph",
        "chosen",
        "With the API's **POST /subscriptions**",
        "clientState",
        "The secret is in every body, and is stored with it.",
    ),
    _named("okta", "Okta", "path", "**Workflow → Event Hooks**"),
    _named(
        "paddle", "Paddle", "given", "**Developer tools → Notifications → New destination**", "Secret key"
    ),
    _named(
        "pagerduty", "PagerDuty", "given", "**Integrations → Generic Webhooks (v3)**", "Secret, shown once"
    ),
    _named(
        "sendgrid",
        "SendGrid",
        "public",
        "**Settings → Mail Settings → Event Webhook**, **Signed Event Webhook**",
        "Verification Key",
    ),
    _named(
        "sentry",
        "Sentry",
        "given",
        "**Settings → Developer Settings**, an internal integration",
        "Client Secret",
    ),
    _named(
        "sns",
        "Amazon SNS",
        "path",
        "In a subscription with the protocol **HTTPS**",
        "Secret",
        "The confirmation comes as a message: open its SubscribeURL yourself.",
    ),
    _named(
        "square",
        "Square",
        "given",
        "**Developer Console**, the application, **Webhooks → Subscriptions**",
        "Signature key",
        "Square signs the address: it must be exactly this one.",
    ),
    _named("telegram", "Telegram", "chosen", "With the Bot API's **setWebhook**", "secret_token"),
    _named(
        "trello",
        "Trello",
        "given",
        "With the API's **POST /webhooks**",
        "Secret of the Power-Up's API key",
        "Trello signs the address: it must be exactly this one.",
    ),
    _named("typeform", "Typeform", "chosen", "In the form, **Connect → Webhooks**"),
    _named("vercel", "Vercel", "given", "**Team Settings → Webhooks**", "Secret, shown once"),
    _named(
        "webflow",
        "Webflow",
        "given",
        "With the API's **POST /sites/{site_id}/webhooks**",
        "The app's client secret",
    ),
    _named("websub", "WebSub", "path", "As **hub.callback** of a hub's subscription"),
    _named("woocommerce", "WooCommerce", "chosen", "**WooCommerce → Settings → Advanced → Webhooks**"),
    _named("x", "X (Twitter)", "given", "With the API for webhooks", "The app's consumer secret"),
    _named(
        "xero",
        "Xero",
        "given",
        "In the app, **Webhooks**",
        "Webhooks key",
        "What does not verify is always refused.",
    ),
    _named(
        "zoom",
        "Zoom",
        "given",
        "In the app, **Feature → Event Subscriptions**",
        "Secret Token",
        "Add the secret before Zoom looks at the address.",
    ),
)
"""All of them, those that are told of at length first."""

BY_PRESET = {provider.preset: provider for provider in PROVIDERS}
