"""Inboxes whose provider signs the URL that it calls, on a server that does not know it.

Making one is refused (`web.inbox_params.check_signed_url`), but `PUBLIC_URL` may go away later. Then every message is a
mismatch, and nothing else would say why.
"""

from collections.abc import AsyncIterator

import structlog

from actors.service import Service
from storage.records import InboxRecord
from web.errors import ApiError
from web.verify.registry import SCHEMES, signs_url

PAGE_INBOXES = 500
"""Records that are in memory at a time."""

MAX_NAMED = 20
"""Inboxes that one line of the log names."""

log = structlog.get_logger("postroom.web")


async def warn_of_unknown_urls(service: Service, public_url: str | None) -> None:
    """Log the inboxes that need a `PUBLIC_URL` which is not there; for a start."""
    if public_url is not None:
        return
    found = sorted([record.slug async for record in _records(service) if _lacks_url(record)])
    if found:
        log.warning(
            "PUBLIC_URL is not set, so messages to these inboxes cannot be verified: their providers sign the URL"
            " that they call. Set it, or give each its signed_url",
            inboxes=found[:MAX_NAMED],
            more=max(0, len(found) - MAX_NAMED),
        )


def _may_sign_url(name: str) -> bool:
    try:
        return signs_url(name, {})
    except ApiError:  # it depends on its options
        return True


def _lacks_url(record: InboxRecord) -> bool:
    settings = record.settings
    try:
        return settings.signed_url is None and signs_url(settings.verifier, settings.verifier_options)
    except ApiError:  # of another version: said when the inbox is used
        return False


async def _records(service: Service) -> AsyncIterator[InboxRecord]:
    names = [name for name in SCHEMES if _may_sign_url(name)]
    after = 0
    while page := await service.list_verified_by(names, after, PAGE_INBOXES):
        for record in page:
            yield record
        after = page[-1].inbox_id
