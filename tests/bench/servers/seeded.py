"""What the SDK's server answers from: a file that the benchmark writes from what Postroom has answered."""

from typing import Any

import msgspec


class Seeded(msgspec.Struct, frozen=True):
    """A tool's declaration, the messages of its inbox from the first one on, and the inbox's epoch."""

    tool: dict[str, Any]
    messages: list[dict[str, Any]]
    epoch: str
