"""Which words tell no messages apart: stop words, words of the trade, and what recent traffic is full of. Pure.

Three tests, from the coldest start to a server that knows its traffic:

- *Stop words* are no terms at all: `about` loses them, and one that has nothing else is refused.
- *Worn words* (event, message, new, …) are in nearly every message that a machine writes. They are terms beside
  others, and weigh less (`weights.py`); a beacon that has nothing else is refused, unless its filters or the terms that
  it requires narrow it down.
- A term is *everywhere* when at least `EVERYWHERE` of a sample of recent messages hold it; such a word alone is refused
  as a worn one is, whatever language it is in. A sample of fewer than `FEWEST_TO_JUDGE` messages says nothing.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from actors.rules.matching.words import Word, stem

EVERYWHERE = 0.2
"""A beacon whose every word is in a fifth of all messages would, alone, use up the attention of its agent."""

FEWEST_TO_JUDGE = 50
"""With fewer messages a word in a fifth of them may be chance."""

_STOP = """
a about above after again all also although always am an and any are as at be because been before being below between
both but by can cannot could did do does doing done down during each either else ever every few for from further get
gets got had has have having he her here hers herself him himself his how however i if in into is it its itself just
let like ll may me might mine more most must my myself near neither no nor not now of off on once one only onto or other
others our ours ourselves out over own per please re really same say says shall she should since so some something
such t than that the their theirs them themselves then there these they thing things this those though through thus
to too toward towards under until up upon us use used uses using ve very via want wants was we were what whatever when
whenever where whether which while who whom whose why will with within without would yes yet you your yours yourself
interested interest interesting hear tell know anything everything concerning regarding related
"""

_WORN = """
action agent api app application data date default event events general hook http https id info information item items
json kind list log message messages name new notice notification number object payload received request response
server service state status subject system tag text time title type update url user value version webhook www com
create created delete deleted change changed add added send sent error ok true false null none message test run
"""

STOP_WORDS = frozenset(map(stem, _STOP.split()))
WORN_WORDS = frozenset(map(stem, _WORN.split()))


class Sample(msgspec.Struct, frozen=True):
    """Recent messages, as far as words go: how many they are, and how many of them hold a term."""

    messages: int
    holding: Mapping[str, int]

    @classmethod
    def of(cls, messages: Iterable[frozenset[str]]) -> "Sample":
        """Count the terms of messages."""
        number = 0
        holding: Counter[str] = Counter()
        for terms in messages:
            number += 1
            holding.update(terms)
        return cls(number, holding)

    def everywhere(self, term: str) -> bool:
        """Whether so many of the messages hold a term that it tells none of them apart."""
        if self.messages < FEWEST_TO_JUDGE:
            return False
        return self.holding.get(term, 0) >= EVERYWHERE * self.messages


NO_SAMPLE = Sample(0, {})


def telling(words: Iterable[Word]) -> list[Word]:
    """Return the words that are terms of a beacon: no stop words, no single letters or digits of the Latin script."""
    return [word for word in words if not _says_nothing(word.term)]


def tells_apart(term: str, sample: Sample = NO_SAMPLE) -> bool:
    """Whether a term tells messages apart: it is no stop word, not worn, and not everywhere."""
    return not (_says_nothing(term) or term in WORN_WORDS or sample.everywhere(term))


def too_common(words: Sequence[Word], sample: Sample = NO_SAMPLE) -> str | None:
    """Return why these words, all that a beacon has to tell messages apart by, are too common; None if they aren't."""
    if any(tells_apart(word.term, sample) for word in words):
        return None
    shown = ", ".join(word.shown for word in words)
    which = "is a word" if len(words) == 1 else "are words"
    return (
        f"{shown} {which} that most messages hold; add words that tell them apart, "
        "or name only some of the inboxes, types or kinds"
    )


def _says_nothing(term: str) -> bool:
    return term in STOP_WORDS or (len(term) == 1 and term.isascii())
