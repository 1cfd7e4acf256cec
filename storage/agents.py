"""Agents, their beacons, and what they were answered: rows as records and back.

An agent lives as long as its private inbox. Deleting that takes the agent, its beacons and its readers away at once;
the idempotency keys of what it sent go in slices, with the rest of the inbox (`storage.sweep`).
"""

from storage.errors import InboxGone
from storage.mail_records import AgentRecord, BeaconRecord, Sent
from storage.sql import Sql

_AGENT = "SELECT agent_id, inbox_id, machine, created_at FROM agent"
_BEACON = (
    "SELECT agent_id, name, spec, placed_mid, placed_at, expires_at, day, delivered, overflow FROM beacon"
)

FORGET_SENT = (
    "DELETE FROM sent_once WHERE (sender, key) IN"
    " (SELECT sender, key FROM sent_once WHERE seen_at < ? ORDER BY seen_at LIMIT ?)"
)
"""Bindings: a moment, limit."""


# -- agents -------------------------------------------------------------------------------------------------
def create(sql: Sql, agent: AgentRecord) -> None:
    """Store a new agent. Raises `InboxGone` when there is no live inbox to be its own."""
    made = sql.change(
        "INSERT INTO agent (agent_id, inbox_id, machine, created_at) SELECT ?, inbox_id, ?, ? FROM inbox_head"
        " WHERE inbox_id = ?",
        (agent.agent_id, agent.machine, agent.created_at, agent.inbox_id),
    )
    if made != 1:
        raise InboxGone(f"inbox {agent.inbox_id}")


def agent(sql: Sql, agent_id: str) -> AgentRecord | None:
    """Return an agent."""
    row = sql.row(f"{_AGENT} WHERE agent_id = ?", (agent_id,))
    return None if row is None else AgentRecord(*row)


def agents(sql: Sql) -> list[AgentRecord]:
    """Return every agent, in the order of their ids."""
    return [AgentRecord(*row) for row in sql.rows(f"{_AGENT} ORDER BY agent_id")]


def leave(sql: Sql, inbox_id: int) -> None:
    """Delete what belongs to the agent of an inbox, and to the inbox's readers."""
    sql.change("DELETE FROM reader WHERE inbox_id = ?", (inbox_id,))
    agent_id = sql.value("DELETE FROM agent WHERE inbox_id = ? RETURNING agent_id", (inbox_id,))
    if agent_id is not None:
        sql.change("DELETE FROM beacon WHERE agent_id = ?", (agent_id,))


# -- beacons ------------------------------------------------------------------------------------------------
def beacons(sql: Sql, agent_id: str | None) -> list[BeaconRecord]:
    """Return the beacons of one agent, or of all, in the order of agents and names."""
    if agent_id is None:
        return [BeaconRecord(*row) for row in sql.rows(f"{_BEACON} ORDER BY agent_id, name")]
    rows = sql.rows(f"{_BEACON} WHERE agent_id = ? ORDER BY name", (agent_id,))
    return [BeaconRecord(*row) for row in rows]


def put_beacon(sql: Sql, beacon: BeaconRecord) -> None:
    """Store a beacon, in place of one of the same name. Raises `InboxGone` when its agent is gone."""
    put = sql.change(
        "INSERT INTO beacon (agent_id, name, spec, placed_mid, placed_at, expires_at, day, delivered, overflow)"
        " SELECT agent_id, ?, ?, ?, ?, ?, ?, ?, ? FROM agent WHERE agent_id = ?"
        " ON CONFLICT (agent_id, name) DO UPDATE SET spec = excluded.spec, placed_mid = excluded.placed_mid,"
        " placed_at = excluded.placed_at, expires_at = excluded.expires_at, day = excluded.day,"
        " delivered = excluded.delivered, overflow = excluded.overflow",
        (
            beacon.name,
            beacon.spec,
            beacon.placed_mid,
            beacon.placed_at,
            beacon.expires_at,
            beacon.day,
            beacon.delivered,
            beacon.overflow,
            beacon.agent_id,
        ),
    )
    if put != 1:
        raise InboxGone(f"agent {beacon.agent_id}")


def drop_beacon(sql: Sql, agent_id: str, name: str) -> bool:
    """Remove a beacon; False when there is none of that name."""
    return sql.change("DELETE FROM beacon WHERE agent_id = ? AND name = ?", (agent_id, name)) == 1


def count_beacon(sql: Sql, agent_id: str, name: str, day: int, delivered: int, overflow: int) -> None:
    """Count for a beacon, as `MailChanges.count_beacon` says."""
    sql.change(
        "UPDATE beacon SET delivered = iif(?1 > day, 0, delivered) + ?2, overflow = iif(?1 > day, 0, overflow) + ?3,"
        " day = max(day, ?1) WHERE agent_id = ?4 AND name = ?5",
        (day, delivered, overflow, agent_id, name),
    )


# -- what was sent ------------------------------------------------------------------------------------------
def sent(sql: Sql, sender: int, key: bytes) -> Sent | None:
    """Return what was answered to a sender's request with this key."""
    row = sql.row(
        "SELECT request, answer, seen_at FROM sent_once WHERE sender = ? AND key = ?", (sender, key)
    )
    return None if row is None else Sent(*row)


def remember_sent(sql: Sql, sender: int, key: bytes, answered: Sent) -> None:
    """Remember an answer, in place of an older one to the same key."""
    sql.change(
        "INSERT INTO sent_once (sender, key, request, answer, seen_at) VALUES (?, ?, ?, ?, ?)"
        " ON CONFLICT (sender, key) DO UPDATE SET"
        " request = excluded.request, answer = excluded.answer, seen_at = excluded.seen_at",
        (sender, key, answered.request, answered.answer, answered.seen_at),
    )


def forget_sent(sql: Sql, before_us: int, max_rows: int) -> int:
    """Forget keys, oldest first, at most `max_rows`; return how many."""
    return sql.change(FORGET_SENT, (before_us, max_rows))
