"""What a preset is."""

from collections.abc import Mapping

import msgspec

from web.verify.credential_schemes import Credential, TokenOrSigned
from web.verify.samples import JSON_BASE, Base
from web.verify.schemes import UNTESTED, Evidence
from web.verify.template import PresetTemplate
from web.verify.urlforms import FormTemplate


class Preset(msgspec.Struct, frozen=True):
    """A provider's scheme under the name that a user types, and `aliases` of it.

    `scheme`: templates (several: those of the first signature header that is there apply), a form's signature, or a
    credential. `checks` says in a line what is checked where the value cannot say it itself (`registry.described`).
    `sample` is what a body of the provider looks like. `orders` has the templates in another order under some of the
    names: the first whose key a secret is makes samples, and of two signatures the first counts.
    """

    name: str
    scheme: PresetTemplate | tuple[PresetTemplate, ...] | FormTemplate | Credential | TokenOrSigned
    evidence: tuple[Evidence, ...] = UNTESTED
    sample: Base = JSON_BASE
    aliases: tuple[str, ...] = ()
    always_reject: bool = False
    checks: str = ""
    orders: Mapping[str, tuple[PresetTemplate, ...]] = {}


def standard(
    brand: str, *, prefix_required: bool = False, event_type: str = "body:type"
) -> tuple[PresetTemplate, PresetTemplate]:
    """Return the two signatures of Standard Webhooks, `v1` and `v1a`, in the headers `{brand}-…`.

    `prefix_required`: a secret for `v1` is one only with its `whsec_`.
    """
    symmetric = PresetTemplate(
        header=f"{brand}-signature",
        prefix="v1,",
        separator=" ",
        encoding="base64",
        signed="{id}.{ts}.{body}",
        timestamp=f"header:{brand}-timestamp",
        key="base64",
        key_prefix="whsec_",
        key_prefix_required=prefix_required,
        key_bytes=(24, 64),
        delivery_id=f"header:{brand}-id",
        event_type=event_type,
    )
    asymmetric = msgspec.structs.replace(
        symmetric,
        prefix="v1a,",
        method="ed25519",
        key_prefix="whpk_",
        key_prefix_required=True,
        key_bytes=(32, 32),
    )
    return symmetric, asymmetric
