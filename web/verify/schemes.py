"""What one verifier's name stands for: the protocol of schemes, and the values that go in and out of them."""

from collections.abc import Mapping
from typing import Any, Literal, Protocol, TypeVar

import msgspec

from storage.records import Secret
from storage.secret import SecretBytes
from web.decoding import argument_error
from web.errors import invalid
from web.verify.model import Verifier
from web.verify.template import BadTemplate, Sources

S = TypeVar("S", bound=msgspec.Struct)
OPTIONS_FIELD = "verifier_options"

VERIFY_TOKEN = "verify_token"  # noqa: S105 - the name of a secret # nosec B105
"""A secret of this name belongs to a handshake (meta, websub) and never verifies a message."""

Evidence = Literal["official vector", "derived vector", "SDK", "documentation"]
"""What the tests hold a scheme to: a vector that the provider published, one computed from the published algorithm,
the provider's own library as the signer, or its documentation alone.
"""

UNTESTED: tuple[Evidence, ...] = ("documentation",)


class About(msgspec.Struct, frozen=True):
    """What a scheme says of itself. `aliases` are further names of it, `checks` one line; `signs`: whether a secret of
    an inbox can make a request; `in_body`: it then stands in the body, which is stored as it came.
    """

    name: str
    checks: str
    evidence: tuple[Evidence, ...] = UNTESTED
    aliases: tuple[str, ...] = ()
    signs: bool = True
    in_body: bool = False


class ToSign(msgspec.Struct, frozen=True, kw_only=True):
    """A request that a provider would send. `content_type` is the header's value, `url` the URL that the provider
    knows; `now_us` its clock.
    """

    body: bytes
    content_type: str
    now_us: int
    method: str
    url: str
    delivery_id: str | None
    event_type: str | None


class Signed(msgspec.Struct, frozen=True, kw_only=True):
    """What makes the request valid: `headers` (name, value) to add, `path` (with its `/`) to add right after the
    inbox's slug, `query` (without `?`) to add to the URL, and the `body` to send, which is another one only for
    Microsoft Graph.
    """

    body: bytes
    headers: tuple[tuple[str, str], ...] = ()
    path: str = ""
    query: str = ""


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """What a sample should be: `now_us` is for bodies that hold a time."""

    event_type: str | None
    delivery_id: str | None
    now_us: int


class Sample(msgspec.Struct, frozen=True):
    """A body such as the provider sends, and its content type."""

    body: bytes
    content_type: str


class Scheme(Protocol):
    """What one verifier's name stands for. Every method raises `ApiError` `invalid_argument` for bad
    options.
    """

    about: About

    def check(self, options: Mapping[str, Any]) -> None:
        """Accept or refuse the options of an inbox."""

    def check_secret(self, options: Mapping[str, Any], value: bytes) -> None:
        """Accept or refuse a secret's value (field `value`)."""

    def signs_url(self, options: Mapping[str, Any]) -> bool:
        """Whether the URL that the provider calls is signed, so that it must be known here."""

    def compile(self, options: Mapping[str, Any], secrets: tuple[Secret, ...]) -> Verifier:
        """Return the verifier; secrets that the scheme cannot use, and `VERIFY_TOKEN`, are passed over."""

    def sign(self, options: Mapping[str, Any], secret: bytes, request: ToSign) -> Signed:
        """Return what makes a request valid. Raises `ApiError` when it cannot be made so."""

    def sample(self, options: Mapping[str, Any], wanted: Wanted) -> Sample:
        """Return a body with event type and delivery id where this scheme looks for them in one."""


def values_of(secrets: tuple[Secret, ...]) -> tuple[SecretBytes, ...]:
    """Return the secrets that verify messages."""
    return tuple(secret.value for secret in secrets if secret.name != VERIFY_TOKEN)


def convert(into: type[S], options: Mapping[str, Any]) -> S:
    """Return options as a struct. Raises `ApiError` naming the option as `verifier_options.…`."""
    try:
        return msgspec.convert(options, into)
    except msgspec.ValidationError as error:
        if isinstance(error.__cause__, BadTemplate):
            bad = error.__cause__
            raise invalid(f"{OPTIONS_FIELD}.{bad.field}", f"{bad.message}.") from None
        raise argument_error(error, into, OPTIONS_FIELD) from None


def refuse_others(name: str, options: Mapping[str, Any], known: tuple[str, ...] = ()) -> None:
    """Raise `ApiError` when there is an option that the verifier does not take."""
    for option in options:
        if option not in known:
            takes = f"takes only {', '.join(known)}" if known else "takes no options"
            raise invalid(
                f"{OPTIONS_FIELD}.{option}",
                f'The verifier {name} {takes}; drop those of an earlier one with "{OPTIONS_FIELD}": null.',
            )


def claim_headers(sources: Sources, request: ToSign) -> list[tuple[str, str]]:
    """Return the headers of delivery id and event type, where they (first) are in headers."""
    return [
        (places[0].name.decode(), claim)
        for places, claim in (
            (sources.find("delivery_id"), request.delivery_id),
            (sources.find("event_type"), request.event_type),
        )
        if claim is not None and places and places[0].kind == "header"
    ]
