"""The handshakes by the preset's name: adding one is adding a function, a row of the table and a row of the tests.

Where a provider demands a valid signature (Discord, Xero), the row says so. All others are answered without looking at
one: the address is often entered at the provider before the secret is here. An answer gives away nothing that the asker
did not send, or (Zoom, X) a signature on a text that no message can be.

Slack signs its `url_verification` as it signs everything, and its documentation says to check that, but does not demand
a refusal. It is answered whether or not the signature is right: the challenge is the asker's own, events are verified
one by one, and a secret that is entered late would otherwise look like an address that is dead.

Trello and Mandrill look with HEAD and Mailchimp with GET whether the address is alive, which every inbox answers. A
`SubscriptionConfirmation` of SNS is a message: its owner decides whether to open the `SubscribeURL`.
"""

import hmac
import re
from base64 import b64encode
from typing import Annotated, Any, Literal

import msgspec

from storage.records import InboxSettings, Secret
from storage.secret import SecretBytes
from web.errors import ApiError, unauthenticated
from web.handshakes.model import Adoption, Asked, Handshake, Recipe, Reply, Setup
from web.handshakes.reading import challenge, document, header, is_clear, parameter, shaped
from web.http import Answer
from web.verify.registry import canonical
from web.verify.schemes import VERIFY_TOKEN

HOOK_SECRET = b"x-hook-secret"

_TOKEN = re.compile(r"[A-Za-z0-9+/=_.~-]{1,256}")
"""What Zoom and X have us sign. Whoever asks gets the signature, so no signed message may be spelled in this alphabet:
Zoom's begin with `v0:`, and X's are JSON objects."""

_RATE = re.compile(rb"[1-9][0-9]{0,8}")
_WRONG_TOKEN = ApiError("permission_denied", "The verify token is not that of this inbox.").answer()
_PONG = Answer(
    204, headers=((b"content-type", b"application/json"),)
)  # Discord wants the header without a body
_XERO_REFUSAL = Answer(401, headers=unauthenticated(sent=False).headers)


class _SlackUrl(msgspec.Struct):
    type: Literal["url_verification"]
    challenge: str


class _ZoomToken(msgspec.Struct):
    plain_token: str = msgspec.field(name="plainToken")


class _ZoomUrl(msgspec.Struct):
    event: Literal["endpoint.url_validation"]
    payload: _ZoomToken


class _GridCode(msgspec.Struct):
    validation_code: str = msgspec.field(name="validationCode")


class _GridEvent(msgspec.Struct):
    event_type: Literal["Microsoft.EventGrid.SubscriptionValidationEvent"] = msgspec.field(name="eventType")
    data: _GridCode


class _DiscordPing(msgspec.Struct):
    type: Literal[0, 1]
    event: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


class _XeroIntent(msgspec.Struct):
    events: Annotated[list[msgspec.Raw], msgspec.Meta(max_length=0)]


# -- by GET and OPTIONS ----------------------------------------------------------------------------------------
def meta(asked: Asked, setup: Setup) -> Reply:
    """Send `hub.challenge` back as text if `hub.verify_token` is the inbox's secret of that name; else 403."""
    if (text := parameter(asked.query, b"hub.challenge")) is None:
        return None
    return _text(text) if _is_token(asked, setup.verify_token) else _WRONG_TOKEN


def websub(asked: Asked, setup: Setup) -> Reply:
    """Do as `meta`, but believe a hub where the inbox has no such secret: most hubs have no token."""
    if (text := parameter(asked.query, b"hub.challenge")) is None:
        return None
    return _text(text) if setup.verify_token is None or _is_token(asked, setup.verify_token) else _WRONG_TOKEN


def x(asked: Asked, setup: Setup) -> Reply:
    """Send `crc_token` back signed, in base64."""
    token = parameter(asked.query, b"crc_token")
    if token is None or _TOKEN.fullmatch(token) is None or setup.key is None:
        return None
    return _json({"response_token": "sha256=" + b64encode(_hmac(setup.key, token)).decode()})


def okta(asked: Asked, setup: Setup) -> Reply:
    """Send the challenge of a header back in JSON."""
    value = header(asked.headers, b"x-okta-verification-challenge")
    return None if value is None else _json({"verification": value.decode()})


def dropbox(asked: Asked, setup: Setup) -> Reply:
    """Send `challenge` back as text, which no browser may take for anything else (every answer says so)."""
    text = parameter(asked.query, b"challenge")
    return None if text is None else _text(text)


def cloudevents(asked: Asked, setup: Setup) -> Reply:
    """Allow the asking origin, at the rate that it asks for, or at the inbox's own if that is lower."""
    origin = header(asked.headers, b"webhook-request-origin")
    if origin is None:
        return None
    rates = [] if setup.rate_per_minute is None else [setup.rate_per_minute]
    wanted = header(asked.headers, b"webhook-request-rate")
    if wanted is not None and _RATE.fullmatch(wanted):
        rates.append(int(wanted))
    rate = b"%d" % min(rates) if rates else b"*"
    allowed = ((b"webhook-allowed-origin", origin), (b"webhook-allowed-rate", rate), (b"allow", b"POST"))
    return Answer(200, headers=allowed)


# -- by POST, before verification --------------------------------------------------------------------------------
def slack(asked: Asked, setup: Setup) -> Reply:
    """Send the challenge of a `url_verification` back in JSON."""
    found = document(asked.body, _SlackUrl)
    if found is None or challenge(found.challenge) is None:
        return None
    return _json({"challenge": found.challenge})


def zoom(asked: Asked, setup: Setup) -> Reply:
    """Send the token of an `endpoint.url_validation` back together with its signature, in hex."""
    found = document(asked.body, _ZoomUrl)
    if found is None or setup.key is None:
        return None
    token = found.payload.plain_token
    if _TOKEN.fullmatch(token) is None:
        return None
    return _json({"plainToken": token, "encryptedToken": _hmac(setup.key, token).hex()})


def eventgrid(asked: Asked, setup: Setup) -> Reply:
    """Send the code of a `SubscriptionValidationEvent`, which comes alone, back in JSON. Its URL is not opened."""
    found = document(asked.body, list[_GridEvent])
    if found is None or len(found) != 1 or challenge(found[0].data.validation_code) is None:
        return None
    return _json({"validationResponse": found[0].data.validation_code})


def msgraph(asked: Asked, setup: Setup) -> Reply:
    """Send `validationToken` of the query back as text, decoded and not escaped."""
    text = parameter(asked.query, b"validationToken")
    return None if text is None else _text(text)


def asana(asked: Asked, setup: Setup) -> Reply:
    """Send `X-Hook-Secret` back as a header, once the inbox has a secret: this one, if it had none."""
    value = header(asked.headers, HOOK_SECRET)
    if value is None:
        return None
    return Adoption(SecretBytes(value), Answer(200, headers=((HOOK_SECRET, value),)))


# -- by POST, with the verdict -----------------------------------------------------------------------------------
def discord(asked: Asked, setup: Setup) -> Reply:
    """Answer a valid PING, of interactions (type 1, without an event) or of webhook events (type 0)."""
    found = shaped(asked.body, _DiscordPing) if asked.verified else None
    if found is None or (found.type == 1 and found.event is not msgspec.UNSET) or not is_clear(asked.body):
        return None
    if found.type == 1:
        return _json({"type": 1})
    return _PONG


def xero(asked: Asked, setup: Setup) -> Reply:
    """Answer the intent to receive, an empty list of events, rightly signed and wrongly. No body may come back."""
    if document(asked.body, _XeroIntent) is None:
        return None
    return Answer(200) if asked.verified else _XERO_REFUSAL


def is_token(body: bytes) -> bool:
    """Whether a body could be a `crc_token`: anybody can have those signed, and X's own messages are JSON objects."""
    return len(body) <= 256 and _TOKEN.fullmatch(body.decode("latin-1")) is not None


HANDSHAKES: dict[str, Recipe] = {
    "asana": Recipe("POST", asana, secret_headers=frozenset({HOOK_SECRET})),
    "cloudevents": Recipe("OPTIONS", cloudevents),
    "discord": Recipe("POST", discord, on_verdict=True),
    "dropbox": Recipe("GET", dropbox),
    "eventgrid": Recipe("POST", eventgrid),
    "meta": Recipe("GET", meta),
    "msgraph": Recipe("POST", msgraph),
    "okta": Recipe("GET", okta),
    "slack": Recipe("POST", slack),
    "websub": Recipe("GET", websub),
    "x": Recipe("GET", x, forgeable=is_token),
    "xero": Recipe("POST", xero, on_verdict=True),
    "zoom": Recipe("POST", zoom),
}
"""By the preset's own name."""


def compile_handshake(settings: InboxSettings, secrets: tuple[Secret, ...]) -> Handshake | None:
    """Return an inbox's handshake, None when its verifier has none. `secrets` are the inbox's, the oldest first.

    Where several are active, the newest answers (zoom, x): it is the one that a rotation is moving to, and the provider
    asks again when it gets another.
    """
    recipe = HANDSHAKES.get(canonical(settings.verifier))
    if recipe is None:
        return None
    keys = [secret.value for secret in secrets if secret.name != VERIFY_TOKEN]
    tokens = [secret.value for secret in secrets if secret.name == VERIFY_TOKEN]
    return Handshake(
        recipe,
        Setup(
            key=keys[-1] if keys else None,
            verify_token=tokens[0] if tokens else None,
            rate_per_minute=settings.rate_per_minute,
        ),
    )


def _is_token(asked: Asked, token: SecretBytes | None) -> bool:
    given = parameter(asked.query, b"hub.verify_token")
    return token is not None and given is not None and token.matches(given.encode())


def _hmac(key: SecretBytes, text: str) -> bytes:
    return hmac.digest(key.reveal(), text.encode(), "sha256")


def _json(document: dict[str, Any]) -> Answer:
    return Answer(200, msgspec.json.encode(document))


def _text(text: str) -> Answer:
    return Answer(200, text.encode(), b"text/plain")
