-- Agents on machines: the machines, who is there, whom to wake, what was served one by one, who has sent what.

CREATE TABLE machine (
  name TEXT PRIMARY KEY,
  inbox_id INTEGER NOT NULL UNIQUE,                 -- the inbox of its broadcasts; the machine goes with it
  created_at INTEGER NOT NULL
) STRICT;
CREATE INDEX agent_machine ON agent (machine, agent_id) WHERE machine IS NOT NULL;

CREATE TABLE presence (                             -- of the agent whose private inbox this is; gone with it
  inbox_id INTEGER PRIMARY KEY,
  card BLOB NOT NULL,                               -- JSON: what the agent says of itself
  last_activity_at INTEGER NOT NULL,
  ttl_seconds INTEGER NOT NULL,
  gone_at INTEGER                                   -- when it said farewell; NULL: it has not, or is back
) STRICT;

CREATE TABLE wake_target (                          -- of the agent whose private inbox this is; gone with it
  inbox_id INTEGER PRIMARY KEY,
  url TEXT NOT NULL,
  secret BLOB,                                      -- NULL: it is called unsigned
  key_id BLOB,                                      -- which key the secret is sealed with; NULL: it is plain
  failures INTEGER NOT NULL,                        -- in a row
  off_at INTEGER                                    -- since when it is not called any more
) STRICT;

-- JSON: [[low, high], …], runs of seqs above ack_cursor that were served one by one.
ALTER TABLE reader ADD COLUMN served BLOB NOT NULL DEFAULT x'5b5d';

-- What is still to be acknowledged of agents' messages, so that an inbox full of webhooks has nothing to look for.
CREATE INDEX receipt_open ON receipt (inbox_id, seq)
  WHERE seq IS NOT NULL AND acked_at IS NULL AND expired_at IS NULL;

CREATE TABLE sent_log (                             -- what agents have sent, to show what became of it
  sender INTEGER NOT NULL,                          -- the sender's own inbox: its id is never used again
  id BLOB NOT NULL,                                 -- of the message
  mid INTEGER NOT NULL,
  sent_at INTEGER NOT NULL,
  event_type TEXT NOT NULL,
  expires_at INTEGER,
  gone_at INTEGER,                                  -- when the message left its last inbox; its receipts stay a while
  PRIMARY KEY (sender, id)
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX sent_log_mid ON sent_log (mid);
CREATE INDEX sent_log_gone ON sent_log (gone_at) WHERE gone_at IS NOT NULL;
