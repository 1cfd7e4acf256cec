"""The schemes whose sender shows a secret (`web.verify.credentials`), and `none`."""

import base64
import re
from collections.abc import Mapping
from typing import Any, Literal
from urllib.parse import quote

import msgspec

from storage.records import Secret
from storage.secret import SecretBytes
from web.errors import invalid
from web.verify.check import SchemeVerifier, Unsigned
from web.verify.credentials import (
    AUTHORIZATION,
    BasicMethod,
    GraphMethod,
    HeaderMethod,
    PathMethod,
    TokenOrSignedMethod,
)
from web.verify.model import Method, Verifier
from web.verify.samples import Base, fill
from web.verify.schemes import (
    About,
    Sample,
    Signed,
    ToSign,
    Wanted,
    claim_headers,
    convert,
    refuse_others,
    values_of,
)
from web.verify.signatures import TemplateMethod
from web.verify.template import PresetTemplate, Sources, header_name
from web.verify.template_scheme import TemplateScheme, keys_of, sign_template

_VISIBLE = re.compile(rb"[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?")
_BASIC = re.compile(rb"[^:]*:.*", re.DOTALL)


class Credential(Sources, frozen=True, kw_only=True):
    """Where a preset's secret is shown: in a fixed `header`; in the `path`, or where the inbox's options say so in
    a header; as `basic` credentials; as the `clientState` of Microsoft `graph`; or in a header of the `options`.

    `claims`: the inbox's options may say where delivery id and event type are.
    """

    place: Literal["header", "path", "basic", "graph", "options"]
    header: str = ""
    claims: bool = False


class TokenOrSigned(Sources, frozen=True, kw_only=True):
    """A sender that signs by a `template` where it has a key for it, and else shows a token in a `header`. What a
    request with a token claims is found where `Sources` say; what is signed, where the template says.
    """

    header: str
    template: PresetTemplate


class HeaderOptions(Sources, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Options of the verifier `header`."""

    header: str

    def __post_init__(self) -> None:
        super().__post_init__()
        header_name("header", self.header)


class PlaceOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Options of the presets whose secret is in the path, or else in this header."""

    header: str | None = None

    def __post_init__(self) -> None:
        if self.header is not None:
            header_name("header", self.header)


class CredentialScheme:
    """A preset of this kind."""

    def __init__(self, about: About, credential: Credential, base: Base) -> None:
        self.about = about
        self._credential = credential
        self._base = base

    def resolve(self, options: Mapping[str, Any]) -> tuple[Credential, Sources]:
        """Return where the secret is shown for these options, and where the claims are. Raises `ApiError`."""
        credential, name = self._credential, self.about.name
        if credential.place == "options":
            given = convert(HeaderOptions, options)
            return msgspec.structs.replace(credential, place="header", header=given.header), given
        if credential.place == "path":
            refuse_others(name, options, ("header",))
            header = convert(PlaceOptions, options).header
            if header is not None:
                return msgspec.structs.replace(credential, place="header", header=header), credential
        elif credential.claims:
            return credential, convert(Sources, options)
        else:
            refuse_others(name, options)
        return credential, credential

    def check(self, options: Mapping[str, Any]) -> None:
        """Accept or refuse the options."""
        self.resolve(options)

    def check_secret(self, options: Mapping[str, Any], value: bytes) -> None:
        """Refuse a secret that cannot be shown where this scheme looks for it."""
        place = self.resolve(options)[0].place
        fault = _unusable(place, value)
        if fault is not None:
            raise invalid("value", f"{fault}.")

    def signs_url(self, options: Mapping[str, Any]) -> bool:
        """Say no."""
        return False

    def compile(self, options: Mapping[str, Any], secrets: tuple[Secret, ...]) -> Verifier:
        """Return the method with the secrets."""
        credential, sources = self.resolve(options)
        usable = [
            value for value in values_of(secrets) if _unusable(credential.place, value.reveal()) is None
        ]
        header = credential.header.lower().encode()
        method: Method
        secret_headers: frozenset[bytes] = frozenset()
        if credential.place == "header":
            method, secret_headers = HeaderMethod(header, usable), frozenset({header})
        elif credential.place == "basic":
            method, secret_headers = BasicMethod(usable), BasicMethod.headers
        elif credential.place == "graph":
            method = GraphMethod(usable)
        else:
            method = PathMethod(usable)
        return SchemeVerifier(
            self.about.name,
            method,
            [sources],
            secret_headers=secret_headers,
            secret_path=credential.place == "path",
        )

    def sign(self, options: Mapping[str, Any], secret: bytes, request: ToSign) -> Signed:
        """Show the secret."""
        self.check_secret(options, secret)
        credential, sources = self.resolve(options)
        headers = claim_headers(sources, request)
        path, body = "", request.body
        if credential.place == "header":
            headers.append((credential.header.lower(), secret.decode("ascii")))
        elif credential.place == "basic":
            headers.append((AUTHORIZATION.decode(), f"Basic {base64.b64encode(secret).decode()}"))
        elif credential.place == "graph":
            body = _with_client_state(body, secret)
        else:
            path = "/" + quote(secret, safe="")
        return Signed(body=body, headers=tuple(headers), path=path)

    def sample(self, options: Mapping[str, Any], wanted: Wanted) -> Sample:
        """Return a sample."""
        return fill(self.about.name, self._base, self.resolve(options)[1], wanted)


class TokenOrSignedScheme:
    """GitLab's: a secret is a key of the template (a signing token, `whsec_…`), or else a token."""

    def __init__(self, about: About, kind: TokenOrSigned, base: Base) -> None:
        self.about = about
        self._header = kind.header.lower()
        self._token = kind
        self._signing = TemplateScheme(about, [kind.template], base)

    def check(self, options: Mapping[str, Any]) -> None:
        """Accept or refuse the options."""
        self._signing.check(options)

    def check_secret(self, options: Mapping[str, Any], value: bytes) -> None:
        """Refuse what can be neither."""
        [template] = self._signing.templates(options)
        fault = _unusable("header", value)
        if fault is not None and not keys_of(template, [SecretBytes(value)]):
            raise invalid("value", f"{fault}.")

    def signs_url(self, options: Mapping[str, Any]) -> bool:
        """Say no."""
        return False

    def compile(self, options: Mapping[str, Any], secrets: tuple[Secret, ...]) -> Verifier:
        """Return the method with the secrets."""
        [template] = self._signing.templates(options)
        values = values_of(secrets)
        keys = keys_of(template, values)
        tokens = [value for value in values if _unusable("header", value.reveal()) is None]
        signed = TemplateMethod(template, keys) if keys else None
        shown = HeaderMethod(self._header.encode(), tokens, which=1)
        return SchemeVerifier(
            self.about.name,
            TokenOrSignedMethod(signed, shown),
            [template, self._token],
            secret_headers=shown.headers,
        )

    def sign(self, options: Mapping[str, Any], secret: bytes, request: ToSign) -> Signed:
        """Sign with a signing token, show a secret token."""
        self.check_secret(options, secret)
        [template] = self._signing.templates(options)
        if not keys_of(template, [SecretBytes(secret)]):
            shown = (self._header, secret.decode("ascii"))
            return Signed(body=request.body, headers=(*claim_headers(self._token, request), shown))
        return sign_template(template, secret, request)

    def sample(self, options: Mapping[str, Any], wanted: Wanted) -> Sample:
        """Return a sample."""
        return self._signing.sample(options, wanted)


class NoScheme:
    """The verifier `none`. Its options may still say where an event type and a delivery id are found."""

    def __init__(self, about: About) -> None:
        self.about = about

    def check(self, options: Mapping[str, Any]) -> None:
        """Accept or refuse the options."""
        convert(Sources, options)

    def check_secret(self, options: Mapping[str, Any], value: bytes) -> None:
        """Accept any secret: it may be meant for the verifier that is set next."""

    def signs_url(self, options: Mapping[str, Any]) -> bool:
        """Say no."""
        return False

    def compile(self, options: Mapping[str, Any], secrets: tuple[Secret, ...]) -> Verifier:
        """Return the verifier that checks nothing."""
        return Unsigned(convert(Sources, options))

    def sign(self, options: Mapping[str, Any], secret: bytes, request: ToSign) -> Signed:
        """Refuse: there is nothing to sign."""
        raise invalid("verifier", "The verifier none has no signature to make.")

    def sample(self, options: Mapping[str, Any], wanted: Wanted) -> Sample:
        """Return a sample."""
        return fill("none", Base(), convert(Sources, options), wanted)


def _unusable(place: str, value: bytes) -> str | None:
    """Return why a secret cannot be shown in a place, None if it can."""
    if not value:
        return "The secret is empty"
    if place == "header" and _VISIBLE.fullmatch(value) is None:
        return "A secret that is a header's value is visible ASCII, without spaces at its ends"
    if place == "basic" and _BASIC.fullmatch(value) is None:
        return "Expected user:password"
    return None


def _with_client_state(body: bytes, secret: bytes) -> bytes:
    try:
        root = msgspec.json.decode(body)
        notifications = root["value"]
        root["value"] = [{**one, "clientState": secret.decode()} for one in notifications]
    except (msgspec.DecodeError, RecursionError, KeyError, TypeError, UnicodeDecodeError):
        raise invalid("body", 'A body of Microsoft Graph is {"value": […]}, a list of objects.') from None
    return msgspec.json.encode(root)
