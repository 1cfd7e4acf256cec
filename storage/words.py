"""Where words begin and end in a text, by Unicode's rules (UAX #29), as SQLite's own library applies them.

It stands here because only storage knows that library; the rules of matching and those of searching take their words
from this one place.
"""

from collections.abc import Iterator

from apsw.unicode import word_iter


def words(text: str) -> Iterator[str]:
    """Yield the words of a text, each holding a letter or a digit, as written and in order.

    Linear in the length of any text, combining marks, one endless word and lone surrogates included. Scripts that
    write no spaces come apart into their characters.
    """
    return word_iter(text)
