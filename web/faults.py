"""What a fault below means to a client: the one table from exceptions of the actors and the store to error
codes.
"""

from actors.ask import InboxQuarantined, InboxStopped
from actors.commands import Refusal
from storage.errors import (
    BodyGone,
    InboxGone,
    NotStored,
    OutcomeUnknown,
    ReadersBusy,
    SecretUnreadable,
    SlugTaken,
    StorageClosed,
    StorageFull,
    UnitFailed,
)
from web.errors import ApiError, no_such_inbox

UNKNOWN_OUTCOME = (
    "The disk failed while this was being stored, so it is not known whether it was. "
    "Trying again is safe where the request carries the provider's delivery id or an idempotency key."
)


def as_api_error(error: BaseException) -> ApiError | None:
    """Return what the client is told, or None when the exception is a fault of our own (`internal`)."""
    match error:
        case ApiError():
            return error
        case Refusal():
            details = None if error.details is None else dict(error.details)
            return ApiError(error.code, error.message, field=error.field, details=details)
        case InboxGone():
            return no_such_inbox()
        case SlugTaken():
            return ApiError("conflict", "An inbox with this slug exists already.", field="slug")
        case InboxQuarantined():
            return ApiError(
                "busy", "This inbox keeps failing and waits for its administrator; nothing was stored."
            )
        case InboxStopped():
            return ApiError("busy", "The inbox could not take this now; nothing was stored. Try again.")
        case StorageClosed():
            return ApiError("shutting_down", "The server is shutting down; nothing was stored. Try again.")
        case StorageFull():
            return ApiError("insufficient_storage", "The server has no room for this; nothing was stored.")
        case OutcomeUnknown():
            return ApiError("busy", UNKNOWN_OUTCOME)
        case ReadersBusy():
            return ApiError("busy", "Too many reads are under way; try again.")
        case SecretUnreadable():
            return ApiError("busy", "A secret of this inbox cannot be read; it waits for its administrator.")
        case BodyGone():
            return ApiError("not_found", "The body of this message is no longer kept.")
        case UnitFailed():
            return None  # the unit's own bug: its cause belongs in the log, not in the answer
        case NotStored():
            return ApiError("busy", "The server cannot store at this moment; nothing was stored. Try again.")
    return None
