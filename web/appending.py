"""Appending a message whose body may be large: a large one is staged first and adopted by the message, or dropped."""

import io
from collections.abc import Callable

import msgspec

from actors.commands import Appended, Draft
from actors.fanout import Ticket
from actors.service import Service
from storage.records import BodyKind, InboxRecord


async def append_draft(
    service: Service,
    inbox: InboxRecord,
    draft: Draft,
    open_body: Callable[[], io.BufferedIOBase],
    ticket: Ticket | None = None,
) -> Appended:
    """Append a message durably. Of a draft whose `body_kind` is `LARGE`, the body is read from what `open_body` opens.

    Raises as `Service.append` and `Service.stage_body`; then nothing of the body is left.
    """
    if draft.body_kind != BodyKind.LARGE:
        return await service.append(inbox, draft, ticket)
    body_id = await service.stage_body(open_body())
    adopted = False
    try:
        appended = await service.append(inbox, msgspec.structs.replace(draft, body_id=body_id), ticket)
        adopted = not appended.duplicate
        return appended
    finally:
        # Also when the outcome is unknown: a body that a message has adopted is not touched.
        if not adopted:
            await service.discard_body(body_id)
