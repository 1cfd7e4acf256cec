-- Words are taken from texts in another way than before: more letters are folded, more character sets are read. So every
-- index is made anew, as if search had just been switched on. The old ones are taken away slice by slice.

UPDATE search_index SET inbox_id = NULL;

INSERT INTO search_index (inbox_id, indexed_seq)
  SELECT inbox_id, 0 FROM inbox WHERE state = 'live' AND CAST(settings AS TEXT) ->> '$.search' ORDER BY inbox_id;
