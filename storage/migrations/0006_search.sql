-- Search: which inboxes have an index, how far each has come, and the words (`storage/search_index.py`).

CREATE TABLE search_index (
  index_id INTEGER PRIMARY KEY AUTOINCREMENT,       -- never reused: what is left of a dropped index is nobody else's
  inbox_id INTEGER UNIQUE,                          -- NULL: it was dropped, and its rows are to be swept
  indexed_seq INTEGER NOT NULL                      -- up to this seq every entry is in it
) STRICT;

-- Without a copy of the text: messages have it. Words are taken from texts by us, and come to it separated by spaces.
CREATE VIRTUAL TABLE search_words USING fts5 (
  words, content = '', contentless_delete = 1, tokenize = "ascii tokenchars ':'"
);
-- Left alone, it would merge its segments inside the unit that makes one too many, for as long as that takes.
INSERT INTO search_words (search_words, rank) VALUES ('automerge', 0), ('crisismerge', 1000), ('usermerge', 8);

-- Whether words of erased entries may still be in it: 0 no, 1 they may, 2 it is being rewritten without them.
CREATE TABLE search_upkeep (
  one INTEGER PRIMARY KEY CHECK (one = 1),
  erased INTEGER NOT NULL CHECK (erased IN (0, 1, 2))
) STRICT;
INSERT INTO search_upkeep VALUES (1, 0);

-- `search` could be set before there was any.
INSERT INTO search_index (inbox_id, indexed_seq)
  SELECT inbox_id, 0 FROM inbox WHERE state = 'live' AND CAST(settings AS TEXT) ->> '$.search' ORDER BY inbox_id;
