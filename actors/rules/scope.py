"""What an agent may be routed: the inboxes of its live tokens, all together. Pure.

A private inbox is in nobody's scope but its agent's own, whatever a token names; nothing is routed out of it. A
machine's inbox is in a scope that names it.
"""

from collections.abc import Iterable

import msgspec

from storage.records import InboxKind, TokenRecord

COMMONS = "commons"
"""The topic inbox that every agent with a token may read, and that messages without an address go to."""

OPEN_KINDS = frozenset[InboxKind]({"webhook", "topic"})
"""What a token for all inboxes reads."""


class Scope(msgspec.Struct, frozen=True):
    """The slugs that are in it, and whether every webhook and topic inbox is."""

    everything: bool = False
    slugs: frozenset[str] = frozenset()

    def covers(self, slug: str, kind: InboxKind) -> bool:
        """Whether messages of this inbox may be routed to whoever has the scope."""
        if kind == "agent":
            return False
        return slug in self.slugs or (self.everything and kind in OPEN_KINDS)

    def sees(self, origin: str | None, kind: InboxKind | None) -> bool:
        """Whether what comes from an inbox may be seen; nothing may that comes from a deleted one (None)."""
        return origin is not None and kind is not None and self.covers(origin, kind)


NOTHING = Scope()


def scope_of(tokens: Iterable[TokenRecord]) -> Scope:
    """Return the union of what the live tokens of one agent name; nothing when there are none."""
    everything, slugs, bound = False, set[str](), False
    for token in tokens:
        bound = True
        if token.inboxes is None:
            everything = True
        else:
            slugs.update(token.inboxes)
    return Scope(everything, frozenset({COMMONS, *slugs})) if bound else NOTHING


def seen_by(visible: frozenset[str] | None) -> Scope:
    """Return the scope of one token that may read these slugs; None: every webhook and topic inbox."""
    return Scope(everything=True) if visible is None else Scope(slugs=visible)
