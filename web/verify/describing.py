"""What a scheme checks, in a line for people: made from the scheme's own values, so that it cannot be wrong."""

from typing import TypeAlias

from web.verify.credential_schemes import Credential, TokenOrSigned
from web.verify.template import PresetTemplate
from web.verify.urlforms import FormTemplate

SchemeValue: TypeAlias = (
    PresetTemplate | tuple[PresetTemplate, ...] | FormTemplate | Credential | TokenOrSigned
)

_PUBLIC = {"ed25519": "ed25519", "ecdsa": "ECDSA on P-256"}


def can_sign(scheme: SchemeValue) -> bool:
    """Whether there is a template among them whose secret is no public key."""
    templates = (scheme,) if isinstance(scheme, PresetTemplate) else scheme
    return not isinstance(templates, tuple) or not all(template.public for template in templates)


def checks_of(scheme: SchemeValue) -> str:
    """Return header, algorithm, signed bytes and tolerance; of several templates, one after the other."""
    match scheme:
        case PresetTemplate():
            return _template(scheme)
        case FormTemplate():
            return f"{scheme.header}: HMAC-SHA1, base64, over the URL and the form's sorted fields"
        case TokenOrSigned():
            return f"{scheme.header} equals a secret; with a signing key {_template(scheme.template)}"
        case Credential(place="header"):
            return f"{scheme.header} equals a secret"
        case Credential():
            return "the first path segment after the slug, or the header verifier_options.header, equals a secret"
        case _:
            lines = [_template(template) for template in scheme]
            if scheme[0].version:
                return f"{lines[0]}; with the option versions also {'; '.join(lines[1:])}"
            return "; or ".join(lines)


def _template(template: PresetTemplate) -> str:
    over = template.signed
    if template.method == "hash":
        method, over = f"SHA-{template.algorithm.removeprefix('sha')}", f"the secret and {template.signed}"
    else:
        method = _PUBLIC.get(template.method, f"HMAC-{template.algorithm.upper()}")
    header = template.header
    if template.second_header is not None:
        header += f" or {template.second_header}"
    if template.when is not None:
        header += f" ({template.when[1]})"
    encoding = "base64 of DER" if template.method == "ecdsa" else template.encoding
    line = f"{header}: {method}, {encoding}, over {over}"
    if template.timestamp is None or template.tolerance_seconds == 0:
        return line
    return f"{line}, ±{template.tolerance_seconds} s"
