"""The parameters of reading one's own inbox, one struct each, shared by REST, MCP and gRPC (surface, section 7).

A struct's annotations are its ranges and its JSON Schema, as in `web/params.py`.
"""

from typing import Annotated

import msgspec
from msgspec import Meta

from web.decoding import MAX_SEQ, time_argument
from web.params import (
    DEFAULT_WAIT_SECONDS,
    MAX_LIMIT,
    MAX_WAIT_SECONDS,
    Bodies,
    Cursor,
    Epoch,
    Limit,
    Time,
    Types,
)

Since = Annotated[
    Cursor,
    Meta(description="Look above this delivery_seq instead of your cursor."),
]
Ack = Annotated[
    Cursor,
    Meta(description="Acknowledge up to here first: the last answer's window_high, once that is handled."),
]
PageLimit = Annotated[int, Meta(ge=1, le=MAX_SEQ, description="Never more than the server's own cap.")]
LastSeen = Annotated[
    Time, Meta(description="Only later than this RFC 3339 time: last_seen of the last answer.")
]


class PullInbox(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`POST /v1/inbox:pull`, `pull_inbox`, `PullInbox`: acknowledge, then read a page."""

    since: Since | None = None
    ack: Ack | None = None
    limit: PageLimit | None = None


class WaitInbox(PullInbox, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`POST /v1/inbox:wait`: a pull that waits for something to come, for `timeout_seconds` at most; 0 looks once."""

    timeout_seconds: Annotated[int, Meta(ge=0, le=MAX_WAIT_SECONDS, description="0 looks once.")] = (
        DEFAULT_WAIT_SECONDS
    )


class ReadInbox(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`GET /v1/inbox`, `inbox`: read again what was delivered after a time, oldest first."""

    last_seen: LastSeen | None = None
    limit: Limit = MAX_LIMIT

    def check(self) -> None:
        """Refuse a time that is none."""
        if self.last_seen is not None:
            self.after_us()

    def after_us(self) -> int:
        """Return the time in µs since the epoch, before every message when there is none."""
        return 0 if self.last_seen is None else time_argument("last_seen", self.last_seen)


class StreamInbox(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`GET /v1/inbox:stream`: it begins after `after`, else now. `Last-Event-ID` wins over `after` and `epoch`."""

    after: Cursor | None = None
    types: Types = ()
    bodies: Bodies = False
    epoch: Epoch | None = None
