"""The verifiers by name: what an inbox's settings mean, and whether they mean anything.

`none` (nothing is checked), `hmac` (the generic template, from the inbox's options) and the presets with their
aliases. A new kind of scheme joins as another `Scheme`.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from storage.records import InboxSettings, Secret
from web.errors import invalid
from web.verify.credential_schemes import (
    Credential,
    CredentialScheme,
    NoScheme,
    TokenOrSigned,
    TokenOrSignedScheme,
)
from web.verify.describing import can_sign, checks_of
from web.verify.form_scheme import FormScheme
from web.verify.model import Verifier
from web.verify.presets import PRESETS
from web.verify.presets.model import Preset
from web.verify.schemes import UNTESTED, VERIFY_TOKEN, About, Evidence, Scheme
from web.verify.template import PresetTemplate
from web.verify.template_scheme import GenericScheme, TemplateScheme
from web.verify.urlforms import FormTemplate

_NONE = About("none", "nothing", (), signs=False)
_HMAC = About("hmac", "an HMAC as verifier_options describe it", ("official vector",))


def _scheme(preset: Preset, name: str) -> Scheme:
    about = About(
        preset.name,
        preset.checks or checks_of(preset.scheme),
        preset.evidence,
        preset.aliases,
        signs=can_sign(preset.scheme),
        in_body=isinstance(preset.scheme, Credential) and preset.scheme.place == "graph",
    )
    match preset.scheme:
        case FormTemplate() as template:
            return FormScheme(about, template, preset.sample)
        case Credential() as credential:
            return CredentialScheme(about, credential, preset.sample)
        case TokenOrSigned() as kind:
            return TokenOrSignedScheme(about, kind, preset.sample)
        case PresetTemplate() as template:
            templates: tuple[PresetTemplate, ...] = (template,)
        case several:
            templates = preset.orders.get(name, several)
    return TemplateScheme(about, templates, preset.sample, name=name, always_reject=preset.always_reject)


SCHEMES: dict[str, Scheme] = {
    "none": NoScheme(_NONE),
    "hmac": GenericScheme(_HMAC),
    **{name: _scheme(preset, name) for preset in PRESETS.values() for name in (preset.name, *preset.aliases)},
}
"""By every name that a user may type, aliases included."""


class Description(msgspec.Struct, frozen=True):
    """One verifier for a person to read. `signs`: whether a secret of the inbox can sign a sample."""

    name: str
    aliases: tuple[str, ...]
    checks: str
    evidence: tuple[Evidence, ...]
    signs: bool

    @property
    def tested(self) -> bool:
        """Whether a vector or the provider's own library stands behind it."""
        return bool(self.evidence) and self.evidence != UNTESTED


def described() -> tuple[Description, ...]:
    """Return all verifiers, aliases with what they stand for, in the order of their names."""
    abouts = {scheme.about.name: scheme.about for scheme in SCHEMES.values()}
    return tuple(
        Description(about.name, about.aliases, about.checks, about.evidence, about.signs)
        for _, about in sorted(abouts.items())
    )


def canonical(name: str) -> str:
    """Return the name of the preset that a name stands for: `meta` for `whatsapp`, itself for most. Raises as
    `scheme`.
    """
    return scheme(name).about.name


def compile_verifier(settings: InboxSettings, secrets: tuple[Secret, ...]) -> Verifier:
    """Return an inbox's verifier, to be kept and used for every request until settings or secrets change.

    Raises `ApiError` `invalid_argument` when the settings name an unknown verifier or bad options.
    """
    return scheme(settings.verifier).compile(settings.verifier_options, secrets)


def check_verifier(name: str, options: Mapping[str, Any]) -> None:
    """Raise `ApiError` `invalid_argument` naming `verifier`, or the option as `verifier_options.…`."""
    scheme(name).check(options)


def check_secret(
    name: str,
    options: Mapping[str, Any],
    value: bytes,
    secret_name: str = "",  # the name of a secret, not a secret # nosec B107
) -> None:
    """Raise `ApiError` `invalid_argument` (field `value`) when this verifier cannot use such a secret. One that belongs
    to a handshake may be anything.
    """
    if secret_name == VERIFY_TOKEN:
        scheme(name).check(options)
    else:
        scheme(name).check_secret(options, value)


def signs_url(name: str, options: Mapping[str, Any]) -> bool:
    """Whether this verifier's signatures cover the URL that the provider calls. Raises `ApiError`."""
    return scheme(name).signs_url(options)


def scheme(name: str) -> Scheme:
    """Return the scheme of a verifier's name. Raises `ApiError` naming `verifier`."""
    found = SCHEMES.get(name)
    if found is None:
        raise invalid("verifier", f"Expected one of {', '.join(sorted(SCHEMES))}.")
    return found
