"""What a person asks for: words, "phrases", -without, beginnings*. Pure.

Every word must be in a message, none of those after a minus. What is joined without spaces is a phrase, since it stands
so in the text that it was copied from: `payment_intent.failed`, `mail@example.com`. Nothing else means anything:
brackets, colons, AND, OR and NEAR are read as the words that they hold, and a quotation mark that is not closed is
closed at the end.
"""

import re

import msgspec

from actors.rules.searching.words import words
from storage.search_records import Phrase

MOST_WORDS = 32
"""In one question. Each is a list to be read."""

MOST_BEGINNINGS = 4
"""Words that end with a star: all words that begin so must be put together, in up to 30 ms each."""

_PART = re.compile(r'(?P<without>-*+)(?:"(?P<phrase>[^"]*+)"?+|(?P<word>[^\s"]++)|(?P<nothing>(?=\s|\Z)))')


class NoQuestion(ValueError):
    """What was asked cannot be looked for; the text is a sentence for whoever asked."""


class Asked(msgspec.Struct, frozen=True):
    """What a message must have, at least one phrase, and what it must not have."""

    wanted: tuple[Phrase, ...]
    unwanted: tuple[Phrase, ...]


def read(question: str) -> Asked:
    """Return what a question asks for. Raises `NoQuestion`."""
    wanted: dict[Phrase, None] = {}
    unwanted: dict[Phrase, None] = {}
    for part in _PART.finditer(question):
        text = part["phrase"] if part["phrase"] is not None else part["word"] or ""
        found = tuple(words(text))
        if found:
            begins = part["word"] is not None and text.endswith("*")
            (unwanted if part["without"] else wanted)[Phrase(found, begins)] = None
    asked = (*wanted, *unwanted)
    if not wanted:
        raise NoQuestion(
            "Expected at least one word to look for, and not only words to leave out."
            if unwanted
            else "Expected at least one word to look for: letters or digits."
        )
    if sum(len(phrase.words) for phrase in asked) > MOST_WORDS:
        raise NoQuestion(f"Expected at most {MOST_WORDS} words.")
    if sum(phrase.prefix for phrase in asked) > MOST_BEGINNINGS:
        raise NoQuestion(f"Expected at most {MOST_BEGINNINGS} words with a * at their end.")
    return Asked(tuple(wanted), tuple(unwanted))
