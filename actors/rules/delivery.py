"""What is delivered to an agent, and why: entries with their records, JSON as `storage.mail_records` says. Pure."""

import msgspec

from actors.commands import DeliveryDraft
from actors.rules.matching.scoring import WEBHOOK_SALIENCE, Heard, score
from storage.mail_records import Pending, Routable

DIRECT = "direct"
BROADCAST = "broadcast"
BEACON = "beacon:"

_encode = msgspec.json.Encoder().encode


class Record(msgspec.Struct, frozen=True, gc=False):
    """What is stored, and shown as it is. `score` and `matched_terms` are those of what `via` names."""

    score: float
    via: str
    also_via: tuple[str, ...] = ()
    matched_terms: tuple[str, ...] = ()


def by_beacons(heard: Heard) -> bytes:
    """Return the record of a message that beacons brought: by the best of them."""
    best = heard.best
    also = tuple([BEACON + match.name for match in heard.also])
    return _encode(Record(best.score, BEACON + best.name, also, best.matched_terms))


def direct(salience: float = WEBHOOK_SALIENCE) -> bytes:
    """Return the record of a message that was sent to the agent itself: as if it matched in full."""
    return _encode(Record(score(1.0, 1.0, salience), DIRECT))


def broadcast() -> bytes:
    """Return the record of a message that was sent to all on the agent's machine: it counts as sent to it."""
    return _encode(Record(score(1.0, 1.0, WEBHOOK_SALIENCE), BROADCAST))


def drafted(row: Routable, record: bytes) -> DeliveryDraft:
    """Return the delivery of a message that is read where it is at home: its reader may read that inbox."""
    return DeliveryDraft(
        row.mid, row.event_type, row.verified, row.size, row.inbox_id, row.expires_at, record
    )


def addressed(pending: Pending) -> DeliveryDraft:
    """Return the delivery of a message to one more of those whom it was sent to, which is their own to read."""
    record = direct() if pending.delivery is None else pending.delivery
    return DeliveryDraft(
        pending.mid,
        pending.event_type,
        pending.verified,
        pending.size,
        pending.inbox_id,
        pending.expires_at,
        record,
    )
