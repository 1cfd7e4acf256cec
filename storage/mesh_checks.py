"""What `verify` looks at of agents on machines: machines, presence, wake targets, and what was sent."""

from storage.mail_checks import Check, broken_runs
from storage.sealing import NONCE_BYTES, TAG_BYTES

MESH = 5
"""The schema step that made machines."""

MESH_CHECKS: tuple[Check, ...] = (
    Check(
        "machines",
        "SELECT m.name FROM machine m LEFT JOIN inbox USING (inbox_id) WHERE slug IS NULL OR kind != 'machine'",
        "machine {0}: it has no inbox",
        since=MESH,
    ),
    Check(
        "machines",
        "SELECT slug FROM inbox LEFT JOIN machine m USING (inbox_id)"
        " WHERE kind = 'machine' AND state = 'live' AND m.name IS NULL",
        "inbox {0}: it is a machine's, and there is no machine for it",
        since=MESH,
    ),
    Check(
        "machines",
        "SELECT agent_id, machine FROM agent LEFT JOIN machine m ON m.name = machine"
        " WHERE machine IS NOT NULL AND m.name IS NULL",
        "agent {0}: the machine {1}, which it is on, does not exist",
        since=MESH,
    ),
    Check(
        "presence",
        "SELECT inbox_id FROM presence LEFT JOIN agent USING (inbox_id) WHERE agent_id IS NULL",
        "inbox {0}: an agent is said to be there, and the inbox has none",
        since=MESH,
    ),
    Check(
        "wake targets",
        "SELECT inbox_id FROM wake_target LEFT JOIN agent USING (inbox_id) WHERE agent_id IS NULL",
        "inbox {0}: an agent is to be woken, and the inbox has none",
        since=MESH,
    ),
    Check(
        "wake targets",
        "SELECT inbox_id, iif(key_id IS NULL, 'plain', 'sealed with a key of its own') FROM wake_target"
        " WHERE secret IS NOT NULL AND key_id IS NOT (SELECT key_id FROM sealing)",
        "inbox {0}: the secret of its wake target is {1}, unlike what the database says of all",
        since=MESH,
    ),
    Check(
        "wake targets",
        "SELECT inbox_id FROM wake_target"  # noqa: S608 — constants # nosec B608
        f" WHERE key_id IS NOT NULL AND coalesce(length(secret), 0) <= {NONCE_BYTES + TAG_BYTES}",
        "inbox {0}: the secret of its wake target is too short for a sealed one",
        since=MESH,
    ),
    Check(
        "readers",
        broken_runs("served"),
        "inbox {0}: what the reader {1} was served one by one makes no sense",
        since=MESH,
    ),
    Check(
        "receipts",
        "SELECT r.mid, r.inbox_id FROM receipt r LEFT JOIN message m USING (mid)"
        " WHERE m.mid IS NULL AND NOT EXISTS (SELECT 1 FROM sent_log WHERE mid = r.mid)",
        "message {0}: it is gone, and there is a receipt of inbox {1} for it",
        since=MESH,
    ),
    Check(
        "receipts",
        "SELECT mid, inbox_id FROM receipt WHERE acked_at IS NOT NULL AND served_at IS NULL"
        " OR seq IS NULL AND coalesce(stored_at, served_at, acked_at, expired_at) IS NOT NULL",
        "message {0}: the receipt of inbox {1} says what cannot have been yet",
        since=MESH,
    ),
    Check(
        "what was sent",
        "SELECT s.mid, iif(m.mid IS NULL, 'is gone', 'is there') FROM sent_log s LEFT JOIN message m USING (mid)"
        " WHERE (m.mid IS NULL) != (s.gone_at IS NOT NULL) OR m.id != s.id",
        "message {0}: it {1}, unlike what its sender would be told",
        since=MESH,
    ),
    Check(
        "what was sent",
        "SELECT s.mid, s.sender FROM sent_log s LEFT JOIN inbox i ON i.inbox_id = s.sender WHERE i.inbox_id IS NULL",
        "message {0}: inbox {1} is said to have sent it, and does not exist",
        since=MESH,
    ),
)
