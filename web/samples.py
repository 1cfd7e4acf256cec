"""Samples: messages that the server signs with a secret that it holds, and takes in as if their provider had sent them.

So a handler can be tested without the provider, by an administrator who does not know the secret. Secrets are never
shown again after they were given, and a credential in a header or in a path *is* the secret: so nothing that was made
with one leaves the server, and what would show it in a body (Microsoft Graph) is not made at all.

The request is made here and goes straight into the ingest handler, through every check that a sender's request passes;
what comes out is the message's place and the verdict.
"""

import base64
import binascii
import re
from typing import Annotated, Literal

import msgspec
from hypercorn.typing import HTTPRequestEvent
from msgspec import Meta

from actors.service import Service
from storage.clock import wall_clock_us
from storage.records import InboxRecord, Secret
from web.admin import require_admin
from web.decoding import from_json
from web.errors import ApiError, invalid, no_such_inbox
from web.grammar import NAME_PATTERN, ulid_text
from web.http import Answer, RawHeaders, Request
from web.inbox_params import check_signed_url
from web.ingest import PREFIX, Ingest, Taken
from web.limits import Incoming
from web.making import Made, Message, make
from web.openapi.about import About
from web.routes import Route
from web.verify.registry import canonical, scheme
from web.verify.schemes import VERIFY_TOKEN

MAX_HEADERS = 20
USER_AGENT = "postroom-sample"
"""What a sample says of itself: who looks at it does not take it for the provider's."""

_TARGET = re.compile(r"(?:[/?][\x21\x22\x24-\x7e]*)?")  # no `#`: a fragment is not sent
_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}")
_VALUE = re.compile(r"(?:[\x21-\x7e\x80-\xff](?:[\x20-\x7e\x80-\xff\t]*[\x21-\x7e\x80-\xff])?)?")
_OURS = ("content-length", "content-type", "transfer-encoding")
"""The first and the last follow from the body; the type is a member of its own."""


class SendSample(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`POST /v1/inboxes/{slug}:sample`. Without `body_base64` a body such as the provider sends is made."""

    verifier: Annotated[str, Meta(max_length=64)] | None = None
    secret_name: Annotated[str, Meta(pattern=NAME_PATTERN)] | None = None
    event_type: Annotated[str, Meta(min_length=1, max_length=200)] | None = None
    delivery_id: Annotated[str, Meta(min_length=1, max_length=200)] | None = None
    body_base64: str | None = None
    content_type: Annotated[str, Meta(min_length=1, max_length=200)] | None = None
    method: Literal["POST", "PUT"] = "POST"
    path: Annotated[str, Meta(max_length=4096)] = ""
    headers: Annotated[dict[str, str], Meta(max_length=MAX_HEADERS)] = {}

    def check(self) -> None:
        """Refuse what could not stand in a request."""
        if _TARGET.fullmatch(self.path) is None:
            raise invalid(
                "path", "Expected what follows the slug: / or ? and visible ASCII, percent-encoded."
            )
        for field in ("event_type", "delivery_id", "content_type"):
            text = getattr(self, field)
            if text is not None and _VALUE.fullmatch(text) is None:
                raise invalid(field, "Expected one line of text that can stand in a header.")
        for name, value in self.headers.items():
            if _NAME.fullmatch(name) is None or _VALUE.fullmatch(value) is None:
                raise invalid("headers", "Expected names of headers, and values that are one line of text.")
            if name.lower() in _OURS:
                raise invalid("headers", f"The header {name} is not set here.")

    def body(self) -> bytes | None:
        """Return the body's bytes, None for a sample. Raises `ApiError`."""
        if self.body_base64 is None:
            return None
        try:
            return base64.b64decode(self.body_base64, validate=True)
        except (binascii.Error, ValueError):
            raise invalid("body_base64", "Expected base64, padded.") from None


class SampleView(msgspec.Struct, frozen=True):
    """What became of a sample. `id` and `seq` are null when it was a handshake, which is answered and not stored;
    `status` is what its sender was answered with, the rest what verification found.
    """

    id: str | None
    seq: int | None
    duplicate: bool
    status: int
    verified: bool | None
    verify_error: str | None
    event_type: str | None
    delivery_id: str | None


class Samples:
    """The route over one service and the ingest handler of its server."""

    def __init__(self, service: Service, ingest: Ingest) -> None:
        self._service = service
        self._ingest = ingest

    def routes(self) -> tuple[Route, ...]:
        """Return the table of routes, for the plain adapter."""
        refuses = "conflict rate_limited insufficient_storage"
        about = About("Administration", "admin", SendSample, SampleView, 200, refuses, "send_sample")
        return (Route("POST", "/v1/inboxes/{slug}:sample", self.send, about),)

    async def send(self, request: Request) -> Answer:
        """`POST /v1/inboxes/{slug}:sample`: sign and store a message as the inbox's provider would send it."""
        require_admin(request)
        form = from_json(SendSample, await _read(request))
        inbox = await self._service.find(request.params["slug"])
        if inbox is None:
            raise no_such_inbox()
        verifier = inbox.settings.verifier
        if form.verifier is not None and canonical(form.verifier) != canonical(verifier):
            raise invalid("verifier", f"The verifier of this inbox is {verifier}.")
        _check_signable(inbox, self._ingest.public_url)
        made = self._made(inbox, form, form.body(), request)
        taken = await self._take(_request(inbox.slug, form, made, request), made.body)
        return Answer(200, msgspec.json.encode(_view(taken)), sent=taken.answer.sent)

    def _made(self, inbox: InboxRecord, form: SendSample, body: bytes | None, request: Request) -> Made:
        path, _, query = form.path.partition("?")
        target = _asked(request, form.method, _raw_path(inbox.slug, path), query.encode())
        message = Message(
            body=body,
            content_type=form.content_type,
            method=form.method,
            target=form.path,
            url=self._ingest.signed_url(inbox, target),
            event_type=form.event_type,
            delivery_id=form.delivery_id,
        )
        refusal: ApiError | None = None
        for secret in _secrets(inbox, form.secret_name):
            try:
                return make(
                    form.verifier or inbox.settings.verifier,  # an alias may have headers of its own
                    inbox.settings.verifier_options,
                    secret.value.reveal(),
                    message,
                    now_us=wall_clock_us(),
                )
            except ApiError as error:
                if error.field not in ("value", "verifier"):
                    raise _renamed(error)  # noqa: B904 - the same refusal, in the words of this route
                refusal = refusal or _renamed(error)
        raise refusal or invalid("secret_name", "The inbox holds no secret to sign with: add one first.")

    async def _take(self, request: Request, body: bytes) -> Taken:
        async def receive() -> HTTPRequestEvent:
            return {"type": "http.request", "body": body, "more_body": False}

        try:
            return await self._ingest.take(request, Incoming(request.headers, receive))
        except ApiError as error:
            if error.code != "unauthenticated":
                raise
            # 401 would say that the administrator's own token is not good.
            raise ApiError("conflict", f"The inbox does not take its own sample. {error.message}") from None


async def _read(request: Request) -> bytes:
    """Return the body of the request, which is not the sample's. Raises `ApiError`."""
    try:
        return await request.read_body()
    except ApiError as error:
        if error.code != "payload_too_large":
            raise
        message = (
            "This request is too large: it takes samples of up to about 700 KiB, in base64. Sign a larger one with a"
            " secret of your own (postroom send --sign … --secret-env NAME)."
        )
        raise ApiError(error.code, message) from None


def _check_signable(inbox: InboxRecord, public_url: str | None) -> None:
    """Refuse what the server cannot sign as the provider does, or must not. Raises `ApiError`."""
    settings = inbox.settings
    if scheme(settings.verifier).about.in_body:
        raise invalid(
            "verifier",
            f"{settings.verifier} shows its secret in the body, and a body is stored as it comes, so who reads the"
            " inbox would see the secret that the server holds. Send one with the secret yourself"
            f" (postroom send --sign {settings.verifier} --secret-env NAME).",
        )
    check_signed_url(settings, public_url)


def _secrets(inbox: InboxRecord, name: str | None) -> list[Secret]:
    """Return the secrets to try: the one of this name, or all that can sign, the newest first."""
    if name is None:
        return [secret for secret in reversed(inbox.secrets) if secret.name != VERIFY_TOKEN]
    if name == VERIFY_TOKEN:
        raise invalid("secret_name", f"{VERIFY_TOKEN} belongs to the handshake and signs nothing.")
    found = [secret for secret in inbox.secrets if secret.name == name]
    if not found:
        raise invalid("secret_name", "The inbox holds no secret of this name.")
    return found


def _renamed(error: ApiError) -> ApiError:
    """Return a refusal of signing with the field as this route calls it."""
    names = {"value": "secret_name", "body": "body_base64"}
    return ApiError(error.code, error.message, field=names.get(error.field or "", error.field))


def _request(slug: str, form: SendSample, made: Made, caller: Request) -> Request:
    """Return the request as the provider's, from the administrator's address."""
    named = {name.lower(): value for name, value in form.headers.items()}
    headers: RawHeaders = [] if "user-agent" in named else [(b"user-agent", USER_AGENT.encode())]
    headers += [_raw(name, value) for name, value in (*named.items(), *made.headers)]
    headers.append((b"content-length", b"%d" % len(made.body)))
    return _asked(caller, made.method, _raw_path(slug, made.path), made.query.encode("latin-1"), headers)


def _asked(
    caller: Request, method: str, raw_path: bytes, raw_query: bytes, headers: RawHeaders | None = None
) -> Request:
    return Request(method, raw_path, raw_query, headers or [], caller.source_ip, caller.read_body)


def _raw_path(slug: str, path: str) -> bytes:
    return PREFIX + slug.encode() + path.encode("latin-1")


def _raw(name: str, value: str) -> tuple[bytes, bytes]:
    return name.lower().encode("latin-1"), value.encode("latin-1", "replace")


def _view(taken: Taken) -> SampleView:
    appended, judgement = taken.appended, taken.judgement
    return SampleView(
        id=None if appended is None else ulid_text(appended.id),
        seq=None if appended is None else appended.seq,
        duplicate=appended is not None and appended.duplicate,
        status=taken.answer.status,
        verified=None if judgement is None else judgement.verified,
        verify_error=None if judgement is None else judgement.error,
        event_type=None if judgement is None else judgement.event_type or None,
        delivery_id=None if judgement is None else judgement.delivery_id,
    )
