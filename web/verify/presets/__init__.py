"""The providers, as values: adding one is adding a value here and a row in the tests.

Names, and places of delivery ids and event types, are those of the providers' documentation. A header is written as
the provider writes it; comparison is in lower case.
"""

from collections.abc import Mapping

from web.verify.presets.business import BUSINESS
from web.verify.presets.commerce import COMMERCE
from web.verify.presets.development import DEVELOPMENT
from web.verify.presets.messaging import MESSAGING
from web.verify.presets.model import Preset
from web.verify.presets.platforms import PLATFORMS

PRESETS: Mapping[str, Preset] = {
    preset.name: preset for preset in (*DEVELOPMENT, *COMMERCE, *MESSAGING, *BUSINESS, *PLATFORMS)
}
"""By their own names; aliases are in the values."""
