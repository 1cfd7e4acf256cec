-- The core: identity of the server, inboxes with their heads, messages and entries, dedupe keys, tokens, secrets.
-- Foreign keys are left out on purpose: each costs a probe per row on the hot tables; `verify` checks instead.

CREATE TABLE server (                               -- one row, rewritten by every transaction
  one INTEGER PRIMARY KEY CHECK (one = 1),
  lineage BLOB NOT NULL,                            -- 16 random bytes, drawn when the database was made
  commits INTEGER NOT NULL,
  last_mid INTEGER NOT NULL,
  routed_mid INTEGER NOT NULL
) STRICT;
INSERT INTO server VALUES (1, randomblob(16), 0, 0, 0);

CREATE TABLE inbox (                                -- cold: identity and settings
  inbox_id INTEGER PRIMARY KEY AUTOINCREMENT,       -- never reused: an old handle cannot reach a new life
  slug TEXT UNIQUE,                                 -- NULL from the moment of deletion
  kind TEXT NOT NULL CHECK (kind IN ('webhook', 'agent', 'machine', 'topic')),
  state TEXT NOT NULL DEFAULT 'live' CHECK (state IN ('live', 'deleting')),
  name TEXT NOT NULL DEFAULT '',
  created_at INTEGER NOT NULL,
  settings BLOB NOT NULL                            -- JSON of InboxSettings
) STRICT;

CREATE TABLE inbox_head (                           -- hot: what each turn advances; gone with the inbox at once
  inbox_id INTEGER PRIMARY KEY,
  epoch TEXT NOT NULL,
  latest_seq INTEGER NOT NULL DEFAULT 0,
  first_seq INTEGER NOT NULL DEFAULT 1,
  last_at INTEGER NOT NULL DEFAULT 0,
  live_rows INTEGER NOT NULL DEFAULT 0,
  live_bytes INTEGER NOT NULL DEFAULT 0,
  dropped_rows INTEGER NOT NULL DEFAULT 0,
  dropped_bytes INTEGER NOT NULL DEFAULT 0
) STRICT;

CREATE TABLE message (
  mid INTEGER PRIMARY KEY,                          -- global commit order, drawn from server.last_mid
  id BLOB NOT NULL,                                 -- the 16 bytes of a ULID
  home_inbox INTEGER NOT NULL,
  home_seq INTEGER NOT NULL,
  home_epoch TEXT NOT NULL,
  received_at INTEGER NOT NULL,
  size INTEGER NOT NULL,
  body_kind INTEGER NOT NULL,
  body_id INTEGER,                                  -- a large body, in body_chunk
  facts BLOB NOT NULL,
  said BLOB NOT NULL,
  body BLOB                                         -- a small body; last, so that reading a row without it
) STRICT;                                           -- does not walk its overflow pages
CREATE UNIQUE INDEX message_id ON message (id);

CREATE TABLE body_chunk (
  chunk_id INTEGER PRIMARY KEY,
  body_id INTEGER NOT NULL,
  n INTEGER NOT NULL,
  bytes BLOB NOT NULL
) STRICT;
CREATE UNIQUE INDEX body_chunk_at ON body_chunk (body_id, n);
CREATE TABLE body_staged (                          -- written, and not yet adopted by a message
  body_id INTEGER PRIMARY KEY AUTOINCREMENT,        -- never reused: an adopted body keeps its number
  started_at INTEGER NOT NULL
) STRICT;

CREATE TABLE entry (
  inbox_id INTEGER NOT NULL,
  seq INTEGER NOT NULL,
  mid INTEGER NOT NULL,
  received_at INTEGER NOT NULL,
  event_type TEXT NOT NULL DEFAULT '',
  verified INTEGER NOT NULL CHECK (verified IN (0, 1, 2)),
  size INTEGER NOT NULL,
  home INTEGER NOT NULL,                            -- 1 stored here, 0 delivered here
  origin INTEGER NOT NULL,                          -- the inbox whose read scope governs it
  expires_at INTEGER,
  delivery BLOB,
  PRIMARY KEY (inbox_id, seq)
) STRICT, WITHOUT ROWID;
-- Both are used by name: the planner prefers the primary key, a hundred times slower (study, S12).
CREATE INDEX entry_type ON entry (inbox_id, event_type, verified, seq);
CREATE INDEX entry_verified ON entry (inbox_id, verified, seq);
-- Exactly-once deliveries, and "was this the last entry of its message?"
CREATE UNIQUE INDEX entry_once ON entry (mid, inbox_id) WHERE home = 0;

CREATE TABLE erased (                               -- seqs erased one by one: holes that are known to be right
  inbox_id INTEGER NOT NULL,
  seq INTEGER NOT NULL,
  erased_at INTEGER NOT NULL,
  PRIMARY KEY (inbox_id, seq)
) STRICT, WITHOUT ROWID;
CREATE TABLE sweep_todo (                           -- what dropping and deleting left to be done in slices
  inbox_id INTEGER PRIMARY KEY,
  below_seq INTEGER NOT NULL
) STRICT;

CREATE TABLE seen_delivery (
  inbox_id INTEGER NOT NULL,
  key BLOB NOT NULL,
  seen_at INTEGER NOT NULL,
  seq INTEGER NOT NULL,
  id BLOB NOT NULL,
  PRIMARY KEY (inbox_id, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX seen_delivery_age ON seen_delivery (seen_at);

CREATE TABLE token (
  token_id TEXT PRIMARY KEY,
  hash BLOB NOT NULL UNIQUE,
  kind TEXT NOT NULL CHECK (kind IN ('admin', 'agent', 'machine')),
  scope BLOB NOT NULL,                              -- JSON: list of slugs, or null for all
  agent_id TEXT,
  machine TEXT,
  machines BLOB NOT NULL,                           -- JSON: list of names
  name TEXT,
  created_at INTEGER NOT NULL,
  expires_at INTEGER,
  revoked_at INTEGER,
  last_used_at INTEGER
) STRICT;

CREATE TABLE secret (
  inbox_id INTEGER NOT NULL,
  name TEXT NOT NULL,
  value BLOB NOT NULL,
  added_at INTEGER NOT NULL,
  PRIMARY KEY (inbox_id, name)
) STRICT, WITHOUT ROWID;
