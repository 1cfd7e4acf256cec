"""What a preset is."""

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
    `sample` is what a body of the provider looks like.
    """

    name: str
    scheme: PresetTemplate | tuple[PresetTemplate, ...] | FormTemplate | Credential | TokenOrSigned
    evidence: tuple[Evidence, ...] = UNTESTED
    sample: Base = JSON_BASE
    aliases: tuple[str, ...] = ()
    always_reject: bool = False
    checks: str = ""


def standard(
    brand: str, *, delivery_id: tuple[str, ...] = (), event_type: str = "body:type"
) -> tuple[PresetTemplate, PresetTemplate]:
    """Return the two signatures of Standard Webhooks, `v1` and `v1a`, in the headers `{brand}-…`."""
    symmetric = PresetTemplate(
        header=f"{brand}-signature",
        prefix="v1,",
        separator=" ",
        encoding="base64",
        signed="{id}.{ts}.{body}",
        timestamp=f"header:{brand}-timestamp",
        key="base64",
        key_prefix="whsec_",
        key_bytes=(24, 64),
        delivery_id=delivery_id or f"header:{brand}-id",
        signed_id=f"{brand}-id" if delivery_id else None,
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
