"""What a beacon's filters leave out of all that its agent may be routed. Pure.

A filter that names everything narrows nothing down: all the inboxes in the agent's scope, all kinds that messages in
them can have or, where only agents publish, all their event types. Those of webhooks are without number.
"""

from collections.abc import Mapping

import msgspec

from actors.rules.letters import MESSAGE, WEBHOOK
from actors.rules.matching.beacons import Beacon
from actors.rules.scope import OPEN_KINDS
from storage.records import InboxKind

PUBLISHED_KINDS = frozenset({"note", "decision", "fact", "task", "alert", "question"})
"""Kinds of what agents publish; they are its event types, too."""

_KINDS: Mapping[InboxKind, frozenset[str]] = {
    "topic": PUBLISHED_KINDS,
    "webhook": frozenset({WEBHOOK}),
    "machine": frozenset({MESSAGE}),
}


class Reach(msgspec.Struct, frozen=True):
    """Inboxes that an agent may be routed, by slug, and whether all others of the open kinds are as well, also those
    that do not exist yet.
    """

    inboxes: Mapping[str, InboxKind]
    everything: bool = False


def leaves_out(beacon: Beacon, reach: Reach) -> bool:
    """Whether the filters of a beacon keep something from it that its agent may be routed.

    Of a reach of everything one inbox more than the beacon names is enough to know.
    """
    homes = set(reach.inboxes.values()) | (OPEN_KINDS if reach.everything else set())
    kinds = frozenset().union(*(_KINDS.get(home, frozenset()) for home in homes))
    if beacon.inboxes and not reach.inboxes.keys() <= beacon.inboxes:
        return True
    if beacon.kinds and not kinds <= beacon.kinds:
        return True
    return bool(beacon.types) and not (homes == {"topic"} and beacon.types >= PUBLISHED_KINDS)
