"""Made-up messages and beacons, as many as wanted, from a seed: words as frequent as in real text (Zipf).

Words are pronounceable and end in `x`, so that none of them has an ending to lose: what is drawn is what is compared.
"""

import random
from itertools import accumulate

from actors.rules.matching.beacons import Beacon, Spec, beacon_of
from actors.rules.matching.judging import MatchInput
from actors.rules.matching.texts import published_terms

MESSAGE_WORDS = 60
VOCABULARY = 20_000
FLATTENING = 3
"""Added to a rank: the stop words, which beacons never have, would stand before the first."""

FEWEST_TERMS, MOST_TERMS = 3, 12

CONSONANTS, VOWELS = "bcdfgklmnprtvz", "aiou"


class Synthetic:
    """A source of texts and beacons; the same seed gives the same ones."""

    def __init__(self, seed: int, vocabulary: int = VOCABULARY) -> None:
        self.random = random.Random(seed)
        self._words = [_word(number) for number in range(vocabulary)]
        self._up_to = list(accumulate(1 / (rank + FLATTENING) for rank in range(vocabulary)))
        self._rank = {word: rank for rank, word in enumerate(self._words)}
        self._beacons = 0

    def words(self, number: int) -> list[str]:
        return self.random.choices(self._words, cum_weights=self._up_to, k=number)

    def text(self) -> str:
        return " ".join(self.words(MESSAGE_WORDS))

    def beacon(self, agent_id: str | None = None) -> Beacon:
        """Return a beacon about 3 to 12 words, one per agent unless the agent is given."""
        number = self.random.randint(FEWEST_TERMS, MOST_TERMS)
        drawn = list(dict.fromkeys(self.words(2 * number)))[:number]
        return self._about(drawn, agent_id)

    def beacon_for(self, text: str) -> Beacon:
        """Return a beacon that matches a text: some of its rarest words."""
        rarest = sorted(set(text.split()), key=lambda word: -self._rank[word])[: 2 * FEWEST_TERMS]
        return self._about(self.random.sample(rarest, FEWEST_TERMS + 1))

    def _about(self, words: list[str], agent_id: str | None = None) -> Beacon:
        self._beacons += 1
        return beacon_of(agent_id or f"agent-{self._beacons}", Spec("interest", about=" ".join(words)))


def as_input(text: str, mid: int = 1) -> MatchInput:
    """Return a note with this text."""
    return MatchInput(mid, mid, "commons", "note", "note", 0.5, published_terms("", text, (), "note"))


def _word(number: int) -> str:
    word = ""
    while True:
        number, consonant = divmod(number, len(CONSONANTS))
        number, vowel = divmod(number, len(VOWELS))
        word += CONSONANTS[consonant] + VOWELS[vowel]
        if not number:
            return word + "x"
