"""What deliveries do to a private inbox: numbers and times, and nothing twice. One pure function.

A private inbox refuses no delivery, whatever its limits: the router reads one log for everybody, and one full inbox
would stop it. What is too much goes at the old end, as retention says.
"""

from collections.abc import Sequence, Set

import msgspec

from actors.commands import DeliveryDraft
from actors.rules.append import advanced
from storage.mail_records import NewDelivery
from storage.records import Head, Retention


class DeliveryPlan(msgspec.Struct, frozen=True):
    """What is to be written, the head after it, and the seq of each draft, None for those that are skipped."""

    head: Head
    deliveries: list[NewDelivery]
    seqs: tuple[int | None, ...]


def decide(
    head: Head,
    undelivered: Set[int],
    drafts: Sequence[DeliveryDraft],
    now_us: int,
    retention: Retention,
) -> DeliveryPlan:
    """Decide a group of deliveries, in their order. `undelivered`: the mids that may be delivered to this inbox."""
    left = set(undelivered)
    deliveries: list[NewDelivery] = []
    seqs: list[int | None] = []
    for draft in drafts:
        if draft.mid not in left:
            seqs.append(None)
            continue
        left.remove(draft.mid)
        at = max(now_us, head.last_at + 1)
        delivery = NewDelivery(
            head.latest_seq + 1,
            draft.mid,
            at,
            draft.event_type,
            draft.verified,
            draft.size,
            draft.origin,
            draft.expires_at,
            draft.delivery,
        )
        deliveries.append(delivery)
        seqs.append(delivery.seq)
        head = advanced(head, delivery.seq, at, draft.size, retention)
    return DeliveryPlan(head, deliveries, tuple(seqs))
