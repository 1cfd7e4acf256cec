"""Machines, who is there on them, and where agents want to be woken: rows as records and back.

Presence and wake target of an agent are kept by its private inbox, so that they cannot outlive it; a machine likewise
by the inbox of its broadcasts. Deleting the inbox takes them away at once.

The secret of a wake target is kept as those of inboxes are (`storage.sealing`): sealed for its place, which is the
agent's inbox and a name that no inbox's secret has, and overwritten when it goes.
"""

import logging
from collections.abc import Iterable

from storage.errors import InboxGone, SecretUnreadable
from storage.mail_records import AgentRecord
from storage.mesh_records import MachineRecord, PresenceRecord, WakeTarget
from storage.sealing import Kept, Seal
from storage.sql import Sql

log = logging.getLogger("postroom.storage")

WAKE_SECRET = "wake target"  # noqa: S105 — a name, no secret # nosec B105
"""What the secret of a wake target is called where it is sealed. Names of inboxes' secrets have no space."""

AGENTS_OF = (
    "SELECT a.agent_id, a.inbox_id, a.machine, a.created_at, p.gone_at FROM agent a INDEXED BY agent_machine"
    " LEFT JOIN presence p ON p.inbox_id = a.inbox_id WHERE a.machine = ? ORDER BY a.agent_id"
)
"""Bindings: name of the machine."""

_PRESENCE = (
    "INSERT INTO presence (inbox_id, card, last_activity_at, ttl_seconds, gone_at)"
    " SELECT inbox_id, ?, ?, ?, ? FROM agent WHERE agent_id = ? ON CONFLICT (inbox_id) DO UPDATE SET"
)
PUT_PRESENCE = (
    f"{_PRESENCE} card = excluded.card, last_activity_at = excluded.last_activity_at,"
    " ttl_seconds = excluded.ttl_seconds, gone_at = excluded.gone_at"
)
TOUCH_PRESENCE = f"{_PRESENCE} last_activity_at = max(last_activity_at, excluded.last_activity_at)"
"""Bindings of both: card, time of the last activity, ttl, time of the farewell, agent id."""


# -- machines -----------------------------------------------------------------------------------------------
def create_machine(sql: Sql, machine: MachineRecord) -> None:
    """Store a new machine. Raises `InboxGone` when there is no live inbox to be its own."""
    made = sql.change(
        "INSERT INTO machine (name, inbox_id, created_at) SELECT ?, inbox_id, ? FROM inbox_head WHERE inbox_id = ?",
        (machine.name, machine.created_at, machine.inbox_id),
    )
    if made != 1:
        raise InboxGone(f"inbox {machine.inbox_id}")


def machines(sql: Sql) -> list[MachineRecord]:
    """Return every machine, in the order of their names."""
    rows = sql.rows("SELECT name, inbox_id, created_at FROM machine ORDER BY name")
    return [MachineRecord(*row) for row in rows]


def machine_agents(sql: Sql, name: str) -> list[tuple[AgentRecord, int | None]]:
    """Return the agents of a machine, in the order of their ids, each with its `gone_at`."""
    return [(AgentRecord(*agent), gone_at) for *agent, gone_at in sql.rows(AGENTS_OF, (name,))]


def leave(sql: Sql, inbox_id: int) -> None:
    """Delete what belongs to the machine of an inbox, or to its agent."""
    sql.change("DELETE FROM machine WHERE inbox_id = ?", (inbox_id,))
    sql.change("DELETE FROM presence WHERE inbox_id = ?", (inbox_id,))
    with sql.overwriting():
        sql.change("DELETE FROM wake_target WHERE inbox_id = ?", (inbox_id,))


# -- presence -----------------------------------------------------------------------------------------------
def put_presence(sql: Sql, presence: PresenceRecord) -> None:
    """Store a presence, in place of an agent's older one. Raises `InboxGone` when the agent is gone."""
    if sql.change(PUT_PRESENCE, _presence_row(presence)) != 1:
        raise InboxGone(f"agent {presence.agent_id}")


def touch_presences(sql: Sql, presences: Iterable[PresenceRecord]) -> None:
    """Move times of activity forward, as `MeshChanges.touch_presences` says."""
    for presence in presences:
        sql.change(TOUCH_PRESENCE, _presence_row(presence))


def _presence_row(presence: PresenceRecord) -> tuple[object, ...]:
    return (
        presence.card,
        presence.last_activity_at,
        presence.ttl_seconds,
        presence.gone_at,
        presence.agent_id,
    )


def presences(sql: Sql) -> list[PresenceRecord]:
    """Return every presence, in the order of the agents' ids."""
    rows = sql.rows(
        "SELECT a.agent_id, p.card, p.last_activity_at, p.ttl_seconds, p.gone_at"
        " FROM presence p JOIN agent a ON a.inbox_id = p.inbox_id ORDER BY a.agent_id"
    )
    return [PresenceRecord(*row) for row in rows]


# -- wake targets -------------------------------------------------------------------------------------------
def put_wake_target(sql: Sql, seal: Seal, target: WakeTarget) -> None:
    """Store a wake target, in place of an agent's older one. Raises `InboxGone`, `SecretUnreadable`."""
    inbox_id = _inbox_of(sql, target.agent_id)
    if inbox_id is None:
        raise InboxGone(f"agent {target.agent_id}")
    kept = Kept(b"", None) if target.secret is None else seal.keep(inbox_id, WAKE_SECRET, target.secret)
    value = None if target.secret is None else kept.value
    with sql.overwriting():
        sql.change(
            "INSERT OR REPLACE INTO wake_target (inbox_id, url, secret, key_id, failures, off_at)"
            " VALUES (?, ?, ?, ?, ?, ?)",
            (inbox_id, target.url, value, kept.key_id, target.failures, target.off_at),
        )


def drop_wake_target(sql: Sql, agent_id: str) -> bool:
    """Remove an agent's wake target; False when there is none."""
    inbox_id = _inbox_of(sql, agent_id)
    with sql.overwriting():
        return sql.change("DELETE FROM wake_target WHERE inbox_id = ?", (inbox_id,)) == 1


def wake_targets(sql: Sql, seal: Seal) -> list[WakeTarget]:
    """Return every wake target whose secret, if it has one, opens, in the order of the agents' ids.

    One that does not open is as good as none: an unsigned call would be another than the one that was asked for.
    """
    rows = sql.rows(
        "SELECT a.agent_id, w.url, w.failures, w.off_at, w.inbox_id, w.secret, w.key_id"
        " FROM wake_target w JOIN agent a ON a.inbox_id = w.inbox_id ORDER BY a.agent_id"
    )
    found: list[WakeTarget] = []
    for agent_id, url, failures, off_at, inbox_id, value, key_id in rows:
        try:
            secret = None if value is None else seal.open(inbox_id, WAKE_SECRET, Kept(value, key_id))
        except SecretUnreadable:
            log.warning("agent %s is not woken until it checks in with a wake target anew", agent_id)
            continue
        found.append(WakeTarget(agent_id, url, secret, failures, off_at))
    return found


def _inbox_of(sql: Sql, agent_id: str) -> int | None:
    found = sql.value("SELECT inbox_id FROM agent WHERE agent_id = ?", (agent_id,))
    return None if found is None else int(found)
