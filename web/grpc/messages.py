"""Between the messages of `inbox.proto` and the values of pulling. Pure functions."""

import msgspec

from web.grpc.postroom.v1.inbox_pb2 import Delivery, Item, PullInboxRequest, PullInboxResponse
from web.pulling import PullPage

ARGUMENTS = ("since", "ack", "limit")


class _DeliveryRecord(msgspec.Struct, frozen=True, gc=False):
    """The delivery record, as its JSON has it (surface, section 3)."""

    delivery_seq: int
    score: float
    via: str
    also_via: list[str]
    matched_terms: list[str]
    delivered_at: str


_decode_delivery = msgspec.json.Decoder(_DeliveryRecord).decode


def arguments_of(request: PullInboxRequest) -> dict[str, int]:
    """Return the arguments that were given, by the names that REST and MCP have for them."""
    return {name: getattr(request, name) for name in ARGUMENTS if request.HasField(name)}


def response_of(page: PullPage) -> PullInboxResponse:
    """Return a page as a message. The diff's JSON stays as it is; the delivery record, also JSON, is taken apart."""
    return PullInboxResponse(
        items=[
            Item(delivery_seq=i.delivery_seq, diff_json=i.diff, delivery=_delivery(i.delivery))
            for i in page.items
        ],
        cursor=page.cursor,
        window_high=page.window_high,
        has_more=page.has_more,
    )


def _delivery(record_json: bytes) -> Delivery:
    record = _decode_delivery(record_json)
    return Delivery(
        delivery_seq=record.delivery_seq,
        score=record.score,
        via=record.via,
        also_via=record.also_via,
        matched_terms=record.matched_terms,
        delivered_at=record.delivered_at,
    )
