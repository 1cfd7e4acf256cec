"""The settings of an inbox as an administrator writes them: created, patched, validated. One set of rules for
both.

`null` is the default of a member, as in a merge patch (RFC 7396). For the members of `retention` and for
every limit that default is *no limit*; a whole `retention` that is null or absent is the server's own default
for new inboxes.
"""

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

import msgspec
from msgspec import Meta

from actors.commands import Refusal
from actors.housekeeping import DEDUPE_WINDOW_MAX_SECONDS
from actors.rules.scope import COMMONS
from storage.records import InboxRecord, InboxSettings, NewInbox, Response, Retention, Secret
from storage.secret import SecretBytes
from web.decoding import SAFE_INTEGER, from_object, json_object
from web.errors import ApiError, invalid
from web.grammar import NAME_PATTERN, SLUG_PATTERN, is_reserved_slug
from web.verify.registry import check_secret, check_verifier, signs_url

MAX_AGE_SECONDS = 100 * 366 * 86_400
MAX_RATE_PER_MINUTE = 1_000_000
MAX_RESPONSE_BYTES = 65_536
MAX_RESPONSE_HEADERS = 20
MAX_SECRETS = 10
"""Every active secret costs one HMAC over every body."""

MAX_SECRET_CHARS = 4_096
MAX_SHOWN_NAME = 100

_UNLIMITED = Retention()
_DECIDE_URL = {"verifier", "verifier_options", "signed_url"}

_TOKEN = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}")
_FIELD_VALUE = re.compile(r"[\x21-\x7e](?:[\x20-\x7e\t]{0,1022}[\x21-\x7e])?|")
_MEDIA_TYPE = re.compile(
    r"[A-Za-z0-9!#$&^_.+-]{1,60}/[A-Za-z0-9!#$&^_.+-]{1,100}"
    r"(?:; ?[A-Za-z0-9!#$&^_.+-]{1,60}=(?:[A-Za-z0-9!#$&^_.+'-]{1,70}|\"[\x20\x21\x23-\x5b\x5d-\x7e]{0,70}\"))*"
)
_URL = re.compile(r"[\x21-\x7e]{1,2048}")

_HOP_BY_HOP = {
    "connection",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
}
_OURS = {
    "cache-control",
    "content-length",
    "content-type",
    "date",
    "postroom-duplicate",
    "server",
    "x-content-type-options",
}
_EMPTY_STATUSES = (204, 205)

Slug = Annotated[str, Meta(pattern=SLUG_PATTERN)]
Name = Annotated[str, Meta(pattern=NAME_PATTERN)]
Title = Annotated[str, Meta(max_length=200)]


class RetentionForm(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How much an inbox keeps; null is without limit."""

    max_age_seconds: Annotated[int, Meta(ge=1, le=MAX_AGE_SECONDS)] | None = None
    max_messages: Annotated[int, Meta(ge=1, le=SAFE_INTEGER)] | None = None
    max_bytes: Annotated[int, Meta(ge=1, le=SAFE_INTEGER)] | None = None
    policy: Literal["drop_oldest", "refuse"] = "drop_oldest"


class ResponseForm(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The answer to a sender that was heard: always a success (200 to 299), for senders that demand a certain
    one.

    Header names are tokens and values visible ASCII on one line. Hop-by-hop headers and those that every
    answer carries anyway are refused; the content type has a member of its own.
    """

    status: Annotated[int, Meta(ge=200, le=299)] = 200
    content_type: str = "text/plain; charset=utf-8"
    body: Annotated[str, Meta(max_length=MAX_RESPONSE_BYTES)] = ""
    headers: Annotated[dict[str, str], Meta(max_length=MAX_RESPONSE_HEADERS)] = {}

    def check(self) -> None:
        """Refuse what could split or confuse an answer."""
        if _MEDIA_TYPE.fullmatch(self.content_type) is None:
            raise invalid(
                "response.content_type", "Expected a media type, such as text/plain; charset=utf-8."
            )
        if len(self.body.encode()) > MAX_RESPONSE_BYTES:
            raise invalid("response.body", f"Expected at most {MAX_RESPONSE_BYTES} bytes.")
        if self.body and self.status in _EMPTY_STATUSES:
            raise invalid("response.body", f"An answer with status {self.status} has no body.")
        lowered = [name.lower() for name in self.headers]
        for name, value in self.headers.items():
            if _TOKEN.fullmatch(name) is None:
                raise invalid("response.headers", "A header's name is made of letters, digits and hyphens.")
            if name.lower() in _HOP_BY_HOP or name.lower() in _OURS:
                raise invalid("response.headers", f"The server itself decides about the header {name}.")
            if lowered.count(name.lower()) > 1:
                raise invalid("response.headers", f"The header {name} is given twice.")
            if _FIELD_VALUE.fullmatch(value) is None:
                raise invalid("response.headers", f"The value of {name} must be one line of visible ASCII.")


class SettingsForm(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What may be changed about an inbox: its name and its settings."""

    name: Title = ""
    verifier: str = "none"
    verifier_options: dict[str, Any] = {}
    on_unverified: Literal["store", "reject"] = "store"
    dedupe_window_seconds: Annotated[int, Meta(ge=0, le=DEDUPE_WINDOW_MAX_SECONDS)] = 86_400
    retention: RetentionForm | None = None
    response: ResponseForm | None = None
    rate_per_minute: Annotated[int, Meta(ge=1, le=MAX_RATE_PER_MINUTE)] | None = None
    max_body_bytes: Annotated[int, Meta(ge=1, le=SAFE_INTEGER)] | None = None
    signed_url: str | None = None
    search: bool = False

    def check(self) -> None:
        """Check the verifier's options, the response and the URL."""
        check_verifier(self.verifier, self.verifier_options)
        if self.response is not None:
            self.response.check()
        if self.signed_url is not None:
            _check_url(self.signed_url)

    def settings(self, default_retention: Retention) -> InboxSettings:
        """Return the settings to store."""
        return InboxSettings(
            verifier=self.verifier,
            verifier_options=self.verifier_options,
            on_unverified=self.on_unverified,
            dedupe_window_seconds=self.dedupe_window_seconds,
            retention=default_retention
            if self.retention is None
            else Retention(**msgspec.structs.asdict(self.retention)),
            response=None if self.response is None else Response(**msgspec.structs.asdict(self.response)),
            rate_per_minute=self.rate_per_minute,
            max_body_bytes=self.max_body_bytes,
            signed_url=self.signed_url,
            search=self.search,
        )


class PutSecret(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`POST …/secrets`: a named secret, as text; it replaces one of the same name."""

    name: Name = "default"
    value: Annotated[str, Meta(min_length=1, max_length=MAX_SECRET_CHARS)]


class CreateInbox(SettingsForm, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`POST /v1/inboxes`: settings, and what is given once only. `secret` is one secret named `default`."""

    slug: Slug | None = None
    kind: Literal["webhook", "topic"] = "webhook"
    secrets: Annotated[tuple[PutSecret, ...], Meta(max_length=MAX_SECRETS)] = ()
    secret: Annotated[str, Meta(min_length=1, max_length=MAX_SECRET_CHARS)] | None = None
    issue_token: bool = False

    def check(self) -> None:
        """Check the settings; refuse reserved slugs, and secrets that share a name or cannot be used."""
        super().check()
        if self.slug is not None and is_reserved_slug(self.slug):
            raise invalid("slug", "Slugs that begin with agent. or machine. are the server's own.")
        if self.slug == COMMONS and self.kind != "topic":
            raise invalid("kind", f"{COMMONS} is a topic inbox: every agent reads and writes it.")
        if self.kind != "webhook" and self.verifier != "none":
            raise invalid("verifier", "Only webhook inboxes verify what arrives.")
        names = [form.name for form in self.secrets] + (["default"] if self.secret is not None else [])
        if len(set(names)) < len(names):
            raise invalid("secrets", "Two secrets have the same name; secret is the one named default.")
        for n, form in enumerate(self.secrets):
            self._check_secret(f"secrets[{n}].value", form.value, form.name)
        if self.secret is not None:
            self._check_secret("secret", self.secret)

    def _check_secret(self, field: str, value: str, name: str = "default") -> None:
        try:
            check_secret(self.verifier, self.verifier_options, value.encode(), name)
        except ApiError as error:
            raise invalid(field, error.message) from None


def decode_create(body: bytes, default_retention: Retention) -> CreateInbox:
    """Decode the body of `POST /v1/inboxes`, as a merge patch onto the defaults of a new inbox.

    So `{"retention": {"max_messages": 5}}` keeps the server's other limits, and a null limit is none. Raises
    `ApiError` `invalid_argument` naming the field.
    """
    start = {"retention": msgspec.to_builtins(default_retention)}
    return from_object(CreateInbox, _merged(start, json_object(body)))


def new_inbox(form: CreateInbox, *, slug: str, default_retention: Retention, now_us: int) -> NewInbox:
    """Return what the store needs; `slug` is the one asked for, or the one drawn for it."""
    secrets = [secret_record(secret, now_us) for secret in form.secrets]
    if form.secret is not None:
        secrets.append(secret_record(PutSecret(value=form.secret), now_us))
    return NewInbox(
        slug=slug,
        kind=form.kind,
        name=form.name,
        settings=form.settings(default_retention),
        secrets=tuple(secrets),
    )


def secret_record(form: PutSecret, now_us: int) -> Secret:
    """Return the secret to add to an inbox, or to replace there."""
    return Secret(name=form.name, value=SecretBytes(form.value.encode()), added_at=now_us)


def check_new_secret(secret: Secret, inbox: InboxRecord) -> None:
    """Raise `Refusal` (field `value` or `name`) when the secret has no place in the inbox. For
    `actors.commands.PutSecret(check=…)`.
    """
    others = [other for other in inbox.secrets if other.name != secret.name]
    if len(others) >= MAX_SECRETS:
        message = f"An inbox has at most {MAX_SECRETS} secrets: remove one first."
        raise Refusal("invalid_argument", message, "name")
    try:
        settings = inbox.settings
        check_secret(settings.verifier, settings.verifier_options, secret.value.reveal(), secret.name)
    except ApiError as error:
        raise Refusal(error.code, error.message, error.field) from None


def check_signed_url(settings: InboxSettings, public_url: str | None) -> None:
    """Raise `ApiError` when the verifier needs the URL that the provider calls, and nobody has told it: every message
    would be a mismatch.
    """
    unknown = settings.signed_url is None and public_url is None
    if unknown and signs_url(settings.verifier, settings.verifier_options):
        message = (
            f"{settings.verifier} signs the URL that it calls: give it, or set PUBLIC_URL on the server."
        )
        raise invalid("signed_url", message)


def decode_patch(body: bytes) -> dict[str, Any]:
    """Decode the body of `PATCH /v1/inboxes/{slug}`: a JSON object without unknown members. Raises
    `ApiError`.
    """
    patch = json_object(body)
    for name in patch:
        if name not in SettingsForm.__struct_fields__:
            raise invalid(name[:MAX_SHOWN_NAME], "An inbox has no member of this name that can be changed.")
    return patch


def apply_patch(
    inbox: InboxRecord,
    patch: Mapping[str, Any],
    default_retention: Retention = _UNLIMITED,
    public_url: str | None = None,
) -> tuple[str, InboxSettings]:
    """Apply a merge patch (RFC 7396) to an inbox's name and settings: null puts a member back to its default.

    Pure, for use as `actors.commands.ChangeInbox(change=…)`. Raises `Refusal` `invalid_argument` naming the
    field; also when a secret of the inbox could no longer be used, which would lose messages without a word.
    """
    current = {"name": inbox.name, **msgspec.to_builtins(inbox.settings)}
    present = {member: value for member, value in current.items() if value is not None}
    try:
        form = from_object(SettingsForm, _merged(present, patch))
        settings = form.settings(default_retention)
        if not _DECIDE_URL.isdisjoint(
            patch
        ):  # else a server whose PUBLIC_URL is gone would refuse every change
            check_signed_url(settings, public_url)
    except ApiError as error:
        raise Refusal(error.code, error.message, error.field) from None
    if inbox.kind in ("agent", "machine") and settings.retention.policy == "refuse":
        message = "The inbox of an agent or a machine refuses nothing: what is too much goes at its old end."
        raise Refusal("invalid_argument", message, "retention.policy")
    for secret in inbox.secrets:
        try:
            check_secret(form.verifier, form.verifier_options, secret.value.reveal(), secret.name)
        except ApiError:
            message = (
                f"The secret {secret.name} cannot be used with this verifier: replace or remove it first."
            )
            raise Refusal("invalid_argument", message, "verifier") from None
    return form.name, settings


def _merged(target: Any, patch: Mapping[str, Any]) -> dict[str, Any]:
    """Return the target with the patch applied, as RFC 7396, section 2, has it."""
    result = dict(target) if isinstance(target, dict) else {}
    for member, value in patch.items():
        if value is None:
            result.pop(member, None)
        elif isinstance(value, dict):
            result[member] = _merged(result.get(member), value)
        else:
            result[member] = value
    return result


def _check_url(url: str) -> None:
    try:
        parts = urlsplit(url) if _URL.fullmatch(url) else None
        good = parts is not None and parts.scheme in ("http", "https") and bool(parts.hostname)
        good = good and parts is not None and not parts.fragment and (parts.port is None or parts.port > 0)
    except ValueError:
        good = False
    if not good:
        raise invalid("signed_url", "Expected an absolute http or https URL, as the provider knows it.")
