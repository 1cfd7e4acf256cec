"""Drafts for the actor tests."""

from itertools import count

from actors.commands import Append, Draft
from storage.records import BodyKind, Verdict

_numbers = count(1)
WINDOW_US = 86_400 * 1_000_000


def draft(body: bytes = b"{}", *, key: bytes | None = None, event_type: str = "") -> Draft:
    """Return a draft with an id of its own."""
    return Draft(
        id=next(_numbers).to_bytes(16, "big"),
        size=len(body),
        facts=b'{"method":"POST"}',
        said=b'{"path":""}',
        body_kind=BodyKind.JSON,
        body=body,
        body_id=None,
        event_type=event_type,
        verified=Verdict.VERIFIED if key else Verdict.NONE,
        dedupe_key=key,
    )


def append(body: bytes = b"{}", *, key: bytes | None = None, window_us: int = WINDOW_US) -> Append:
    """Return an append of a new draft."""
    return Append(draft(body, key=key), window_us)
