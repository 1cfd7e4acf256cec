-- Agents: who they are, how far they have read, what they want to hear of, whom they have written to.

CREATE TABLE agent (
  agent_id TEXT PRIMARY KEY,
  inbox_id INTEGER NOT NULL UNIQUE,                 -- its private inbox; the agent goes with it
  machine TEXT,
  created_at INTEGER NOT NULL
) STRICT;

CREATE TABLE reader (                               -- how far one reader of an inbox has come
  inbox_id INTEGER NOT NULL,
  name TEXT NOT NULL,
  start_seq INTEGER NOT NULL,
  ack_cursor INTEGER NOT NULL,
  served_high INTEGER NOT NULL,
  acked BLOB NOT NULL,                              -- JSON: [[low, high], …], runs of seqs above ack_cursor
  PRIMARY KEY (inbox_id, name)
) STRICT, WITHOUT ROWID;

CREATE TABLE beacon (                               -- with a rowid: a spec is too large for an inner page
  agent_id TEXT NOT NULL,
  name TEXT NOT NULL,
  spec BLOB NOT NULL,                               -- JSON, as it was asked for
  placed_mid INTEGER NOT NULL,                      -- it hears of what was committed after this message
  placed_at INTEGER NOT NULL,
  expires_at INTEGER,
  day INTEGER NOT NULL,                             -- the counts are of this day, in days since the epoch
  delivered INTEGER NOT NULL,
  overflow INTEGER NOT NULL,                        -- matches that the daily limit kept back
  PRIMARY KEY (agent_id, name)
) STRICT;

CREATE TABLE sent_once (                            -- idempotency keys, per life of a sender
  sender INTEGER NOT NULL,                          -- the sender's own inbox: its id is never used again
  key BLOB NOT NULL,
  request BLOB NOT NULL,                            -- a hash: the same key with another request is an error
  answer BLOB NOT NULL,
  seen_at INTEGER NOT NULL,
  PRIMARY KEY (sender, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX sent_once_age ON sent_once (seen_at);

CREATE TABLE receipt (                              -- recipients of an agent's message; gone with the message
  mid INTEGER NOT NULL,
  inbox_id INTEGER NOT NULL,
  seq INTEGER,                                      -- NULL: the router has still to deliver it
  stored_at INTEGER,
  served_at INTEGER,
  acked_at INTEGER,
  expired_at INTEGER,
  PRIMARY KEY (mid, inbox_id)
) STRICT, WITHOUT ROWID;
-- So that what is still to be delivered costs nothing to find, however many receipts there are.
CREATE INDEX receipt_pending ON receipt (mid, inbox_id) WHERE seq IS NULL;
