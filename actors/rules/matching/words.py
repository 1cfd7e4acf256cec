"""What a term is: the words of a text, brought to one spelling each. Pure, and bounded whatever the text is.

A word (by Unicode's boundaries) is split where programmers join words, at `_` and at `.` and `:` beside a letter, so
that `payment_intent.failed`, "payment-intent failed" and "Payment intent: failed" have the same terms. `1.2.3` stays
whole. Compatibility forms and case are folded, English endings go (`stem`).

Messages give more than beacons: of a word in camel case they have the whole and its parts, so that a beacon about
"GitHub" is about `github` only, while one about "replication lag" hears of `PostgresqlReplicationLag`.
"""

import re
import unicodedata
from collections.abc import Iterator
from functools import lru_cache
from itertools import islice
from sys import intern

import msgspec

from storage.words import words

WORD_CHARS = 64
"""A longer word is no word but an encoded blob, a digest or an attack: it is passed over. It also bounds normalising,
whose cost grows with the square of a run of combining marks."""

MESSAGE_WORDS = 4_096
"""Different words of one message that are read, the first ones: no honest 64 KiB have many more, and words made up to
take long take 7 µs each."""

REMEMBERED_WORDS = 32_768
"""Words whose terms are remembered, each at most `WORD_CHARS` long: about 10 MB when full. Traffic repeats itself."""

FEWEST_TO_STEM = 4
"""Shorter words are acronyms (`dns`, `aws`, `ids`) more often than plurals."""

_JOINT = re.compile(r"[_:'’‘\s]+|(?<!\d)\.")
_CAMEL = re.compile(r"[a-z][A-Z]|[A-Z][A-Z][a-z]")
_HUMPS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_ENDING = re.compile(
    r"(?P<y>.{2,}?)ie[sd]"
    r"|(?P<long>.{4,}?)(?:ment|ion|ure)s?"
    r"|(?P<short>.{3,}?)(?:ings?|(?<!e)ed|es|(?<![su])s|e)"
)
_DOUBLED = re.compile(r"([bcdfghjklmnpqrstvwxz])\1$")


class Word(msgspec.Struct, frozen=True):
    """A word of a beacon: the term that is compared, and how its author wrote it, in lower case."""

    term: str
    shown: str


def terms(text: str) -> frozenset[str]:
    """Return the terms of a message's text."""
    found: set[str] = set()
    for word in islice(dict.fromkeys(words(text)), MESSAGE_WORDS):
        found.update(_of_message(word))
    return frozenset(found)


def beacon_words(text: str) -> list[Word]:
    """Return the words of a beacon's text, in order, each term once."""
    found: dict[str, Word] = {}
    for word in words(text):
        for shown in _pieces(word):
            term = stem(shown)
            found.setdefault(term, Word(intern(term), shown))
    return list(found.values())


@lru_cache(maxsize=REMEMBERED_WORDS)
def _of_message(word: str) -> tuple[str, ...]:
    found = [stem(piece) for piece in _pieces(word)]
    if word.isascii() and len(word) <= WORD_CHARS and _CAMEL.search(word):
        found += [stem(hump.lower()) for hump in _HUMPS.findall(word)]
    return tuple(map(intern, found))


def _pieces(word: str) -> Iterator[str]:
    """Yield the parts of one word between its joints, normalised and in lower case."""
    if len(word) > WORD_CHARS:
        return
    if not word.isascii():
        word = unicodedata.normalize("NFKC", word)
    for piece in _JOINT.split(word.casefold()):
        if piece:
            yield piece


def stem(word: str) -> str:
    """Return a word in lower case without its English ending: `failure`, `failed` and `fails` are all `fail`.

    Light on purpose: no dictionary, one ending at most. Different words may meet, and some forms of one word do not;
    both cost a little precision or recall, and the figures of `make bench` say how much. Anything but ASCII letters
    is returned as it is.
    """
    if len(word) < FEWEST_TO_STEM or not (word.isascii() and word.isalpha()):
        return word
    found = _ENDING.fullmatch(word)
    if found is not None:
        word = found["long"] or found["short"] or found["y"] + "y"
    return _DOUBLED.sub(r"\1", word)
