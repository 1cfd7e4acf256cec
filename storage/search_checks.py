"""What `verify` looks at of search: that an index belongs to its inbox, and has what it says that it has.

Whether the words are those of the texts nobody can tell without taking them from the texts again.
"""

from storage.mail_checks import Check
from storage.search_index import SEQ_BITS

SEARCH = 6
"""The schema step that made search."""

_SEQ = f"(d.id & {(1 << SEQ_BITS) - 1})"
_INDEX = f"(d.id >> {SEQ_BITS})"

SEARCH_CHECKS: tuple[Check, ...] = (
    Check(
        "search",
        "SELECT s.inbox_id FROM search_index s LEFT JOIN inbox_head h USING (inbox_id)"
        " WHERE s.inbox_id IS NOT NULL AND h.inbox_id IS NULL",
        "inbox {0}: it has a search index and does not exist",
        since=SEARCH,
    ),
    Check(
        "search",
        "SELECT slug, iif(index_id IS NULL, 'on', 'off'), iif(index_id IS NULL, 'no', 'an') FROM inbox"
        " LEFT JOIN search_index USING (inbox_id) WHERE state = 'live'"
        " AND coalesce(CAST(settings AS TEXT) ->> '$.search', 0) != (index_id IS NOT NULL)",
        "inbox {0}: its search is {1}, and it has {2} index",
        since=SEARCH,
    ),
    Check(
        "search",
        "SELECT s.inbox_id, indexed_seq, latest_seq FROM search_index s JOIN inbox_head USING (inbox_id)"
        " WHERE indexed_seq NOT BETWEEN 0 AND latest_seq",
        "inbox {0}: its search index has come to {1}, the last number is {2}",
        since=SEARCH,
    ),
    Check(
        "search",
        "SELECT s.inbox_id, e.seq FROM search_index s JOIN inbox_head h USING (inbox_id)"  # noqa: S608 — constants # nosec B608
        " JOIN entry e ON e.inbox_id = s.inbox_id AND e.seq BETWEEN h.first_seq AND s.indexed_seq"
        f" LEFT JOIN search_words_docsize d ON d.id = (s.index_id << {SEQ_BITS} | e.seq) WHERE d.id IS NULL",
        "inbox {0}: message {1} should be in the search index and is not",
        since=SEARCH,
    ),
    Check(
        "search",
        f"SELECT {_INDEX}, {_SEQ} FROM search_words_docsize d"  # noqa: S608 — constants # nosec B608
        f" LEFT JOIN search_index s ON s.index_id = {_INDEX}"
        f" LEFT JOIN entry e ON e.inbox_id = s.inbox_id AND e.seq = {_SEQ} WHERE s.index_id IS NULL"
        " OR s.inbox_id IS NOT NULL AND (e.seq IS NULL OR e.seq > s.indexed_seq)",
        "search index {0}: it has message {1}, which is gone or was not reached yet",
        since=SEARCH,
    ),
)
