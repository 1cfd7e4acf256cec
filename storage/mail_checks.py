"""What `verify` looks at of agents and their mail, and what a check is."""

import msgspec

AGENTS = 4
"""The schema step that made agents."""


class Check(msgspec.Struct, frozen=True):
    """One check: what it looks at, the statement that yields a row per fault, and the sentence for such a row.

    `since`: the schema step that made what the statement names; `until`: the last one for which it holds.
    """

    name: str
    statement: str
    finding: str
    since: int = 1
    until: int | None = None

    def concerns(self, schema: int) -> bool:
        """Whether it is made of a database at this schema step."""
        return self.since <= schema and (self.until is None or schema <= self.until)


_RUNS = """
SELECT r.inbox_id, r.name, r.ack_cursor, h.latest_seq, run.value ->> 0 AS low, run.value ->> 1 AS high,
lag(run.value ->> 1) OVER (PARTITION BY r.inbox_id, r.name ORDER BY run.key) AS before FROM reader r
JOIN inbox_head h USING (inbox_id),
json_each(iif(json_valid(CAST(r.acked AS TEXT)), CAST(r.acked AS TEXT), '[[0, 0]]')) run
"""


def broken_runs(column: str) -> str:
    """Return the statement for readers whose runs in a column are no runs above their cursor, ascending."""
    runs = _RUNS.replace("r.acked", f"r.{column}")
    return (
        f"SELECT DISTINCT inbox_id, name FROM ({runs}) WHERE coalesce(low <= coalesce(before + 1, ack_cursor)"  # noqa: S608 — constants # nosec B608
        " OR high < low OR high > latest_seq, true)"
    )


MAIL_CHECKS: tuple[Check, ...] = (
    Check(
        "agents",
        "SELECT agent_id FROM agent LEFT JOIN inbox USING (inbox_id) WHERE slug IS NULL OR kind != 'agent'",
        "agent {0}: it has no private inbox",
        since=AGENTS,
    ),
    Check(
        "agents",
        "SELECT slug FROM inbox LEFT JOIN agent USING (inbox_id)"
        " WHERE kind = 'agent' AND state = 'live' AND agent_id IS NULL",
        "inbox {0}: it is private, and there is no agent for it",
        since=AGENTS,
    ),
    Check(
        "beacons",
        "SELECT agent_id, name FROM beacon LEFT JOIN agent USING (agent_id) WHERE inbox_id IS NULL",
        "agent {0}: it has the beacon {1} and does not exist",
        since=AGENTS,
    ),
    Check(
        "beacons",
        "SELECT agent_id, name, placed_mid, last_mid FROM beacon, server WHERE placed_mid > last_mid",
        "agent {0}: the beacon {1} was placed at {2}, beyond the last message of the log, {3}",
        since=AGENTS,
    ),
    Check(
        "readers",
        "SELECT r.inbox_id, name FROM reader r LEFT JOIN inbox_head h USING (inbox_id) WHERE h.inbox_id IS NULL",
        "inbox {0}: the reader {1} belongs to no inbox",
        since=AGENTS,
    ),
    Check(
        "readers",
        "SELECT inbox_id, name, ack_cursor, served_high, latest_seq FROM reader JOIN inbox_head USING (inbox_id)"
        " WHERE ack_cursor NOT BETWEEN 0 AND latest_seq OR served_high NOT BETWEEN 0 AND latest_seq"
        " OR start_seq NOT BETWEEN 0 AND latest_seq",
        "inbox {0}: the reader {1} has acknowledged up to {2} and was served up to {3}, the last number is {4}",
        since=AGENTS,
    ),
    Check(
        "readers",
        broken_runs("acked"),
        "inbox {0}: what the reader {1} has acknowledged one by one makes no sense",
        since=AGENTS,
    ),
    Check(
        "deliveries",
        "SELECT e.inbox_id, e.seq FROM entry e JOIN message m USING (mid)"
        " WHERE e.home = 0 AND (e.delivery IS NULL OR m.home_inbox = e.inbox_id)",
        "inbox {0}: message {1} was delivered without a reason, or to where it is at home",
        since=AGENTS,
    ),
    Check(
        "receipts",
        "SELECT r.mid, r.inbox_id FROM receipt r LEFT JOIN message m USING (mid) WHERE m.mid IS NULL",
        "message {0}: it is gone, and there is a receipt of inbox {1} for it",
        since=AGENTS,
        until=AGENTS,  # from then on `storage.mesh_checks` knows better
    ),
    Check(
        "receipts",
        "SELECT r.mid, r.inbox_id, r.seq FROM receipt r JOIN entry e USING (inbox_id, seq) WHERE e.mid != r.mid",
        "message {0}: it is not message {2} of inbox {1}, where its receipt says that it is",
        since=AGENTS,
    ),
    Check(
        "receipts",
        "SELECT r.mid, r.inbox_id FROM receipt r INDEXED BY receipt_pending WHERE r.seq IS NULL AND EXISTS"
        " (SELECT 1 FROM entry INDEXED BY entry_once WHERE mid = r.mid AND inbox_id = r.inbox_id AND home = 0)",
        "message {0}: inbox {1} has it, and its receipt says that it is still to come",
        since=AGENTS,
    ),
)
