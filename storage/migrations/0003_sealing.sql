-- Secrets at rest. A secret whose `key_id` is NULL is plain; the others are sealed (`storage/sealing.py`) with the key of
-- that id.
ALTER TABLE secret ADD COLUMN key_id BLOB;
CREATE TABLE sealing (                              -- one row while the secrets are sealed, else none
  one INTEGER PRIMARY KEY CHECK (one = 1),
  salt BLOB NOT NULL,                               -- what POSTROOM_SECRET_KEY is stretched with
  key_id BLOB NOT NULL                              -- which key comes of it; tells nothing of the key
) STRICT;
