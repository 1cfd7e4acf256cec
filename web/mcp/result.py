"""Results as bytes, spliced from what the reads have rendered: nothing is encoded twice.

A result carries its data twice, as structured content and as the same JSON in a text block. The text block is those
very bytes as a JSON string, so the size of a page is measured with both (`DOUBLED`).
"""

from collections.abc import Callable

import msgspec

from web.mcp.jsonrpc import encode
from web.render import Cost

QUOTES_BYTES = 2


def measure(fragment: bytes) -> int:
    """Return what a fragment of structured content costs as sent: itself, and itself inside a string."""
    return len(fragment) + len(encode(fragment.decode())) - QUOTES_BYTES


DOUBLED = Cost(measure, copies=2, most=3)
"""Escaping at most doubles a byte of valid JSON, which has quotes, backslashes and white space to escape and no other
control characters."""


class Outcome(msgspec.Struct, frozen=True):
    """What came of a call: the members of its result, joined on sending. `release`: what to call once it is sent."""

    members: tuple[bytes, ...]
    release: Callable[[], None] | None = None


def structured(json: bytes, release: Callable[[], None] | None = None) -> Outcome:
    """Return the outcome of a tool that answers with a JSON object."""
    text = encode(json.decode())
    return Outcome(
        (b'"content":[{"type":"text","text":', text, b'}],"structuredContent":', json, b',"isError":false'),
        release,
    )


def failed(text: str) -> Outcome:
    """Return the outcome of a tool that could not do it: text only, because several clients validate structured content
    and hide the error.
    """
    return Outcome((b'"content":[{"type":"text","text":', encode(text), b'}],"isError":true'))
