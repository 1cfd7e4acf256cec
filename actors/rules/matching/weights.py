"""What a term is worth in a beacon. Pure, and a matter of fixed knowledge alone.

A word that nearly every message of a machine has (`common.WORN_WORDS`) weighs half of what any other one does: beside
one word that tells messages apart, it is never half of the weight, so it brings nothing alone.

Nothing else counts, and on purpose: a weight that depended on what others have placed would tell each agent of their
beacons, by the terms that it is shown and by every score, and would change under beacons that nobody touched. Counted
in halves as whole numbers, so that sums are exact.
"""

from actors.rules.matching.common import WORN_WORDS

ORDINARY, WORN = 2, 1
"""Weights, in halves."""


def weight_of(term: str) -> int:
    """Return the weight of a term, in halves."""
    return WORN if term in WORN_WORDS else ORDINARY


def shown_weight(term: str) -> float:
    """Return the weight of a term as it is shown: 1 for an ordinary word."""
    return weight_of(term) / ORDINARY
