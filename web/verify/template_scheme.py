"""Schemes that are templates: a preset's own, or for `hmac` whatever the options describe."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import msgspec

from storage.records import Secret
from storage.secret import SecretBytes
from web.errors import invalid
from web.verify.check import SchemeVerifier
from web.verify.keys import Key, MacKey, mac, make_key
from web.verify.lone import LoneVerifier, is_lone
from web.verify.model import Verifier
from web.verify.samples import Base, fill
from web.verify.schemes import (
    OPTIONS_FIELD,
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
from web.verify.signatures import method_of
from web.verify.template import PresetTemplate, Template

_TOLERANCE = "tolerance_seconds"
_VERSIONS = "versions"
_UNIT_US = {"seconds": 1_000_000, "milliseconds": 1_000}


class TemplateScheme:
    """One or several templates; of several, those of the first signature header that a request has apply."""

    def __init__(
        self,
        about: About,
        templates: Sequence[PresetTemplate],
        base: Base,
        *,
        name: str | None = None,
        always_reject: bool = False,
    ) -> None:
        """`name` is the name that the user typed, where that is an alias."""
        self.about = about
        self._name = name or about.name
        self._templates = tuple(templates)
        self._base = base
        self._always_reject = always_reject
        stamped = any(template.timestamp is not None for template in templates)
        self._versions = tuple(template.version for template in templates if template.version)
        self._options = (*((_TOLERANCE,) if stamped else ()), *((_VERSIONS,) if self._versions else ()))

    def templates(self, options: Mapping[str, Any]) -> tuple[PresetTemplate, ...]:
        """Return the templates in force. Raises `ApiError`."""
        refuse_others(self._name, options, self._options)
        templates = self._of_versions(options)
        if _TOLERANCE not in options:
            return templates
        # Converted as an option of the generic template, whose range and wording it has.
        given = convert(Template, {"header": "x", _TOLERANCE: options[_TOLERANCE]}).tolerance_seconds
        return tuple(
            template
            if template.timestamp is None
            else msgspec.structs.replace(template, tolerance_seconds=given)
            for template in templates
        )

    def _of_versions(self, options: Mapping[str, Any]) -> tuple[PresetTemplate, ...]:
        """Return the templates of the versions that the options name, by default of the first alone."""
        if not self._versions:
            return self._templates
        given = options.get(_VERSIONS, [self._versions[0]])
        if (
            not isinstance(given, list | tuple)
            or not given
            or any(version not in self._versions for version in given)
        ):
            known = ", ".join(self._versions)
            raise invalid(f"{OPTIONS_FIELD}.{_VERSIONS}", f"Expected a list of one or several of {known}.")
        return tuple(template for template in self._templates if template.version in given)

    def check(self, options: Mapping[str, Any]) -> None:
        """Accept or refuse the options."""
        self.templates(options)

    def check_secret(self, options: Mapping[str, Any], value: bytes) -> None:
        """Refuse a secret that is a key of none of the templates."""
        self._template_for(self.templates(options), value)

    def signs_url(self, options: Mapping[str, Any]) -> bool:
        """Look for the URL in what is signed."""
        return any("{url}" in template.signed for template in self.templates(options))

    def compile(self, options: Mapping[str, Any], secrets: tuple[Secret, ...]) -> Verifier:
        """Return the templates with the secrets' keys."""
        templates = self.templates(options)
        long_way = partial(self._general, templates, secrets)
        if is_lone(templates):
            keys = keys_of(templates[0], values_of(secrets))
            if len(keys) == 1 and isinstance(keys[0], MacKey):
                rejects = self._always_reject
                return LoneVerifier(self._name, templates[0], keys[0], long_way, always_reject=rejects)
        return long_way()

    def _general(self, templates: Sequence[PresetTemplate], secrets: tuple[Secret, ...]) -> SchemeVerifier:
        keys = [keys_of(template, values_of(secrets)) for template in templates]
        return SchemeVerifier(
            self._name, method_of(templates, keys), templates, always_reject=self._always_reject
        )

    def sign(self, options: Mapping[str, Any], secret: bytes, request: ToSign) -> Signed:
        """Sign by the first template whose key the secret is."""
        return sign_template(self._template_for(self.templates(options), secret), secret, request)

    def sample(self, options: Mapping[str, Any], wanted: Wanted) -> Sample:
        """Return a sample; a timestamp in the body is put there."""
        return sample_template(self._name, self.templates(options)[0], self._base, wanted)

    @staticmethod
    def _template_for(templates: Sequence[PresetTemplate], secret: bytes) -> PresetTemplate:
        refusal = ""
        for template in templates:
            try:
                make_key(template, SecretBytes(secret))
            except ValueError as error:
                refusal = refusal or str(error)
            else:
                return template
        raise invalid("value", f"{refusal}.")


class GenericScheme(TemplateScheme):
    """The verifier `hmac`: the options are the template."""

    def __init__(self, about: About) -> None:
        super().__init__(about, (), Base())

    def templates(self, options: Mapping[str, Any]) -> tuple[PresetTemplate, ...]:
        """Return the template that the options describe. Raises `ApiError`."""
        return (PresetTemplate(**msgspec.structs.asdict(convert(Template, options))),)


def keys_of(template: PresetTemplate, secrets: Sequence[SecretBytes]) -> list[Key]:
    """Return the keys of the secrets that are some for this template."""
    keys = []
    for secret in secrets:
        try:
            keys.append(make_key(template, secret))
        except ValueError:  # it was added for another verifier or template; it can sign nothing here
            continue
    return keys


def sample_template(name: str, template: PresetTemplate, base: Base, wanted: Wanted) -> Sample:
    """Return a sample for a template; a timestamp in the body is put there."""
    source = template.timestamp_source
    stamped = source is not None and source.kind == "body"
    stamp = (source, wanted.now_us // _UNIT_US[template.timestamp_unit]) if stamped and source else None
    return fill(name, base, template, wanted, stamp)


def sign_template(template: PresetTemplate, secret: bytes, request: ToSign) -> Signed:
    """Return the signed headers of one template. Raises `ApiError` as `web.verify.signing.sign`."""
    if template.public:
        raise invalid(
            "verifier", "This inbox holds the provider's public key, which can verify and cannot sign."
        )
    stamp = str(request.now_us // _UNIT_US[template.timestamp_unit])
    parts = template.signed_parts
    if "id" in parts[1::2] and not request.delivery_id:
        raise invalid("delivery_id", "This scheme signs the delivery id: give one.")
    known = {
        "body": request.body,
        "ts": stamp.encode(),
        "id": (request.delivery_id or "").encode("latin-1", "replace"),
        "url": request.url.encode("latin-1", "replace"),
        "method": request.method.encode("latin-1", "replace"),
    }
    keyed = mac(template, template.decode_key(secret))
    keyed.update(b"".join(known[part] if n % 2 else part.encode() for n, part in enumerate(parts)))
    value = template.prefix + template.encode(keyed.digest()).decode()
    headers: list[tuple[str, str]] = []
    source = template.timestamp_source
    if template.pair is not None:
        separator = (template.list_separator or b",").decode()
        stamped = f"{source.name.decode()}={stamp}{separator}" if source and source.kind == "pair" else ""
        value = f"{stamped}{template.pair}={value}"
    if source is not None and source.kind == "header":
        headers.append((source.name.decode(), stamp))
    if template.when is not None:
        headers.append(template.when)
    headers += claim_headers(template, request)
    headers.append((template.header.lower(), value))
    return Signed(body=request.body, headers=tuple(headers))
