"""The providers, as values of the template: adding one is adding a value and a row in the tests."""

from typing import Literal

import msgspec

from web.verify.template import Template


class Preset(msgspec.Struct, frozen=True):
    """A provider's scheme under the name that a user types.

    `evidence` is what the tests hold it to: a vector that the provider published, one computed from the
    published algorithm, or the provider's documentation alone.
    """

    name: str
    template: Template
    evidence: Literal["official vector", "derived vector", "documentation"]


PRESETS: dict[str, Preset] = {
    preset.name: preset
    for preset in (
        Preset(
            "github",
            Template(
                header="x-hub-signature-256",
                prefix="sha256=",
                delivery_id="header:x-github-delivery",
                event_type="header:x-github-event",
            ),
            "official vector",
        ),
    )
}
