"""How good matching is on the labelled corpus: precision and recall, by threshold."""

import msgspec

from actors.rules.matching.beacons import DEFAULT_MIN_SCORE
from actors.rules.matching.index import MatchIndex
from tests.actors import corpus

THRESHOLDS = (DEFAULT_MIN_SCORE, *(hundredths / 100 for hundredths in range(50, 100, 5)))
"""Up to where hardly anything is left. Below the first there is nothing to see: half of a beacon's weight is needed
whatever the threshold, which with usual salience is a score of 0.5."""


class Quality(msgspec.Struct, frozen=True):
    """Deliveries at a threshold: `right` ones were wanted, `wrong` ones were not, `missed` ones were not made."""

    threshold: float
    right: int
    wrong: int
    missed: int

    @property
    def precision(self) -> float:
        """Which share of what was delivered was wanted."""
        return self.right / (self.right + self.wrong) if self.right + self.wrong else 1.0

    @property
    def recall(self) -> float:
        """Which share of what was wanted was delivered."""
        return self.right / (self.right + self.missed)


def curve() -> list[Quality]:
    """Return the quality at each threshold, as if it were the `min_score` of all beacons that ask for less."""
    index = MatchIndex(corpus.beacons())
    judged = [
        (sent.hears, index.match(message))
        for sent, message in zip(corpus.sent(), corpus.messages(), strict=True)
    ]
    points = []
    for threshold in THRESHOLDS:
        right = wrong = missed = 0
        for wanted, matches in judged:
            delivered = {match.name for match in matches if match.score >= threshold}
            right += len(wanted & delivered)
            wrong += len(delivered - wanted)
            missed += len(wanted - delivered)
        points.append(Quality(threshold, right, wrong, missed))
    return points
