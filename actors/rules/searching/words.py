"""What a word of a search is. A text and a question are taken apart by the same function, so they agree. Pure.

A word is a run of letters and digits, whatever joins it to the next: `payment_intent.failed`, "payment-intent failed"
and "Payment intent: failed" are the same three words. Case is folded, and so are compatibility forms and the accents of
European scripts: `CAFÉ` is `cafe`. Letters that Unicode does not take apart, though people write them without their
stroke or as two, are folded too: `Łódź` is `lodz`, `Ærø` is `aero`. Nothing is stemmed: who looks for `refunds` means
that word, and `refund*` finds both. Scripts that write no spaces come apart into their characters, so that each part of
a text is a phrase that can be found.

The common text is ASCII, and taken apart by one regular expression. In any other the runs between ASCII's own gaps are
taken apart by Unicode's rules, as far as they are not ASCII themselves; so both ways see ASCII alike.
"""

import re
import unicodedata
from functools import lru_cache

from storage.words import words as unicode_words

WORD_CHARS = 64
"""Of a longer word, a digest or an encoded blob, so many characters count. It bounds normalising, too, whose cost grows
with the square of a run of combining marks.
"""

REMEMBERED_WORDS = 16_384
"""Words of runs beyond ASCII whose folding is remembered: 5 MB when full."""

_ASCII_WORD = re.compile(rf"([0-9a-z]{{1,{WORD_CHARS}}}+)[0-9a-z]*+")
_RUN = re.compile("[0-9A-Za-z\x80-\U0010ffff]+")

# What Unicode counts as part of a word and no one writes to be found: accents, soft hyphens, marks of direction.
_UNSEEN = re.compile("[\u0300-\u036f\u00ad\u061c\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff]+")
# ASCII that normalising brings, and what joins words beyond ASCII: apostrophes, points and ties.
_JOINT = re.compile(
    "[\\x00-/:-@\\[-`{-\x7f"
    "\u00b7\u055f\u0589\u05f4\u060d\u066c\u2018\u2019\u2024\u2027\u203f\u2040\u2044\u2054]+"
)


_LIGATURES = {
    "æ": "ae",
    "œ": "oe",
    "ĳ": "ij",
    "þ": "th",
    "ð": "d",
    "ŋ": "n",
    "ĸ": "k",
    "ſ": "s",
    "ƿ": "w",
    "ə": "e",
}

# What such letters are called, the rest of the name being what they have more than the plain one.
_MODIFIED = re.compile(r"(LATIN|CYRILLIC) SMALL LETTER (?:DOTLESS (?P<only>[IJ])|(?P<base>\S+) WITH .+)")

_BLOCKS = (
    (0xDF, 0x250),
    (0x250, 0x2B0),
    (0x400, 0x530),
    (0x1D00, 0x1DC0),
    (0x2C60, 0x2C80),
    (0xA720, 0xA800),
)
"""Where letters of these scripts are that have no decomposition."""


def _plain_letters() -> dict[int, str]:
    """Return the folding of letters, in lower case, that normalising leaves as they are: by their names."""
    folded = {ord(letter): plain for letter, plain in _LIGATURES.items()}
    for low, high in _BLOCKS:
        for code in range(low, high):
            named = _MODIFIED.fullmatch(unicodedata.name(chr(code), ""))
            if named is None or unicodedata.decomposition(chr(code)):
                continue
            try:
                plain = unicodedata.lookup(f"{named[1]} SMALL LETTER {named['only'] or named['base']}")
            except KeyError:  # of no letter of its own
                continue
            folded.setdefault(code, plain)
    return folded


_PLAIN = _plain_letters()


def words(text: str) -> list[str]:
    """Return the words of a text, in order. Each has letters and digits only, of ASCII the lower case alone."""
    if text.isascii():
        return _ASCII_WORD.findall(text.lower())
    found: list[str] = []
    for run in _RUN.findall(text):
        if run.isascii():
            found.append(run[:WORD_CHARS].lower())
        else:
            for word in unicode_words(run):
                found += _folded(word[:WORD_CHARS])
    return found


@lru_cache(maxsize=REMEMBERED_WORDS)
def _folded(word: str) -> tuple[str, ...]:
    if word.isascii():
        return (word.lower(),)
    apart = unicodedata.normalize("NFKD", word).casefold()
    plain = unicodedata.normalize("NFC", _UNSEEN.sub("", apart).translate(_PLAIN))
    return tuple(part[:WORD_CHARS] for part in _JOINT.split(plain) if part)
