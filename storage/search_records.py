"""The values of search that cross the border between storage and the actors, as those of `storage.records`.

The store knows words, not texts: what the words of a message are, and which ones a search is about, is for the actors'
rules to say (`actors/rules/searching/`). A word is in lower case and has letters and digits only: of ASCII `0-9a-z`,
and whatever is not ASCII.
"""

import msgspec

from storage.records import Head, StoredMessage


class IndexState(msgspec.Struct, frozen=True, gc=False):
    """How far the search index of an inbox has come: every entry up to `indexed_seq` is in it."""

    inbox_id: int
    indexed_seq: int
    latest_seq: int


class Indexable(msgspec.Struct, frozen=True, gc=False):
    """What is indexed of an entry. `body`: its beginning, as many bytes as were asked for, also of a large one."""

    seq: int
    event_type: str
    said: bytes
    body_kind: int
    body: bytes | None


class Unindexed(msgspec.Struct, frozen=True):
    """The entries that follow what an index has. `after`: up to where it has come; `through`: up to where these take
    it, past what was erased or dropped; `more`: there are entries beyond.
    """

    after: int
    rows: list[Indexable]
    through: int
    more: bool


class IndexRow(msgspec.Struct, frozen=True, gc=False):
    """The words of an entry in their order, with one space between two of them; none is an empty text."""

    seq: int
    words: str


class Phrase(msgspec.Struct, frozen=True):
    """Words that stand one after the other. `prefix`: of the last one only the beginning is given."""

    words: tuple[str, ...]
    prefix: bool = False


class SearchQuery(msgspec.Struct, frozen=True):
    """Which entries of an inbox to find: those that have all of `wanted`, of which there is at least one, and none of
    `unwanted`; `seq` < `before` (from the newest when that is None), newest first.

    `byte_budget`: the row with which the rows' own bytes (facts and said; no body comes along) pass it is the last one.
    """

    inbox_id: int
    wanted: tuple[Phrase, ...]
    unwanted: tuple[Phrase, ...] = ()
    before: int | None = None
    limit: int = 20
    byte_budget: int = 1_048_576


class SearchPage(msgspec.Struct, frozen=True):
    """What was found, and the head of the same moment.

    `resume`: the `before` with which to look on; None when everything was looked at. A look takes a bounded time, so
    there may be fewer rows than were asked for, and none, though it is not None. `indexed_seq`: later entries are not
    found yet; None when the inbox has no index at all.
    """

    head: Head
    rows: list[StoredMessage]
    resume: int | None
    indexed_seq: int | None
