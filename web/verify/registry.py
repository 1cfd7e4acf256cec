"""The verifiers by name: what an inbox's settings mean, and whether they mean anything.

`none` (nothing is checked), `hmac` (the generic template, from the inbox's options) and the presets. A new
kind of scheme joins as another `Scheme`.
"""

from collections.abc import Mapping
from typing import Any, Protocol, TypeVar

import msgspec

from storage.records import InboxSettings, Secret
from web.decoding import argument_error
from web.errors import invalid
from web.verify.check import TemplateVerifier, Unsigned
from web.verify.model import Verifier
from web.verify.presets import PRESETS
from web.verify.template import BadTemplate, Sources, Template

S = TypeVar("S", bound=Sources)
OPTIONS_FIELD = "verifier_options"


class Scheme(Protocol):
    """What one verifier's name stands for. Every method raises `ApiError` `invalid_argument` for bad
    options.
    """

    def check(self, options: Mapping[str, Any]) -> None:
        """Accept or refuse the options of an inbox."""

    def check_secret(self, options: Mapping[str, Any], value: bytes) -> None:
        """Accept or refuse a secret's value (field `value`)."""

    def compile(self, options: Mapping[str, Any], secrets: tuple[bytes, ...]) -> Verifier:
        """Return the verifier; secrets that the scheme cannot use are passed over."""


class TemplateScheme:
    """A template: a preset's own, or without one whatever the options describe."""

    def __init__(self, name: str, template: Template | None) -> None:
        self._name = name
        self._template = template

    def template(self, options: Mapping[str, Any]) -> Template:
        """Return the template in force."""
        if self._template is None:
            return _convert(Template, options)
        if options:
            unknown = next(iter(options))
            raise invalid(
                f"{OPTIONS_FIELD}.{unknown}",
                f"The verifier {self._name} takes no options; drop those of an earlier one with "
                f'"{OPTIONS_FIELD}": null.',
            )
        return self._template

    def check(self, options: Mapping[str, Any]) -> None:
        """Accept or refuse the options."""
        self.template(options)

    def check_secret(self, options: Mapping[str, Any], value: bytes) -> None:
        """Refuse a secret that does not decode to a key."""
        try:
            self.template(options).decode_key(value)
        except ValueError as error:
            raise invalid("value", f"{error}.") from None

    def compile(self, options: Mapping[str, Any], secrets: tuple[bytes, ...]) -> Verifier:
        """Return the template with the secrets' keys."""
        template = self.template(options)
        keys = []
        for secret in secrets:
            try:
                keys.append(template.decode_key(secret))
            except ValueError:  # it was added for another verifier; it can sign nothing here
                continue
        return TemplateVerifier(self._name, template, keys)


class NoScheme:
    """The verifier `none`. Its options may still say where an event type and a delivery id are found."""

    def check(self, options: Mapping[str, Any]) -> None:
        """Accept or refuse the options."""
        _convert(Sources, options)

    def check_secret(self, options: Mapping[str, Any], value: bytes) -> None:
        """Accept any secret: it may be meant for the verifier that is set next."""

    def compile(self, options: Mapping[str, Any], secrets: tuple[bytes, ...]) -> Verifier:
        """Return the verifier that checks nothing."""
        return Unsigned(_convert(Sources, options))


SCHEMES: dict[str, Scheme] = {
    "none": NoScheme(),
    "hmac": TemplateScheme("hmac", None),
    **{name: TemplateScheme(name, preset.template) for name, preset in PRESETS.items()},
}


def compile_verifier(settings: InboxSettings, secrets: tuple[Secret, ...]) -> Verifier:
    """Return an inbox's verifier, to be kept and used for every request until settings or secrets change.

    Raises `ApiError` `invalid_argument` when the settings name an unknown verifier or bad options.
    """
    values = tuple(secret.value.reveal() for secret in secrets)
    return scheme(settings.verifier).compile(settings.verifier_options, values)


def check_verifier(name: str, options: Mapping[str, Any]) -> None:
    """Raise `ApiError` `invalid_argument` naming `verifier`, or the option as `verifier_options.…`."""
    scheme(name).check(options)


def check_secret(name: str, options: Mapping[str, Any], value: bytes) -> None:
    """Raise `ApiError` `invalid_argument` (field `value`) when this verifier cannot use such a secret."""
    scheme(name).check_secret(options, value)


def scheme(name: str) -> Scheme:
    """Return the scheme of a verifier's name. Raises `ApiError` naming `verifier`."""
    found = SCHEMES.get(name)
    if found is None:
        raise invalid("verifier", f"Expected one of {', '.join(sorted(SCHEMES))}.")
    return found


def _convert(into: type[S], options: Mapping[str, Any]) -> S:
    try:
        return msgspec.convert(options, into)
    except msgspec.ValidationError as error:
        if isinstance(error.__cause__, BadTemplate):
            bad = error.__cause__
            raise invalid(f"{OPTIONS_FIELD}.{bad.field}", f"{bad.message}.") from None
        raise argument_error(error, into, OPTIONS_FIELD) from None
