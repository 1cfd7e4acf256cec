"""What agents on machines are shown: lines of the roster, what became of messages, pages of mail (surface, section 8).

Pure, but for what a page remembers of the rows that it has rendered.
"""

from collections.abc import Sequence

from actors.mesh import RosterLine, SentLine
from storage.mail_records import Delivered, Receipt
from web import render
from web.diffs import Place
from web.grammar import format_time, ulid_text
from web.mail_stream import as_message
from web.mesh_messages import is_mesh
from web.mesh_params import MAX_PAYLOAD_BYTES
from web.render import Cost

SECOND_US = 1_000_000

_HEAD = b'{"messages":['
_WIDEST = 2**63 - 1  # a count with as many digits as there can be


class MailView:
    """An agent's mail as messages, each rendered once: it is measured where it is read, and then sent."""

    def __init__(self, place: Place, inline_limit: int, cost: Cost) -> None:
        self._place = place
        self._inline_limit = inline_limit
        self._cost = cost
        self._comma = cost.measure(b",")
        self._made: dict[int, bytes] = {}

    def of(self, row: Delivered) -> bytes:
        """Return a delivery as a message of the inbox that it came to, with its body, and with any payload."""
        made = self._made.get(row.seq)
        if made is None:
            limit = self._inline_limit
            if is_mesh(row.said):
                limit = max(limit, MAX_PAYLOAD_BYTES)
            made = self._made[row.seq] = render.message(
                self._place.slug, self._place.epoch, as_message(row), bodies=True, inline_limit=limit
            )
        return made

    def measure(self, row: Delivered) -> int:
        """Return what a message costs as sent, in bytes."""
        return self._cost.measure(self.of(row)) + self._comma

    @property
    def frame_bytes(self) -> int:
        """What a page costs beside its messages, at most."""
        return self._cost.measure(_HEAD + _tail(_WIDEST))

    def page(self, rows: Sequence[Delivered], unread: int) -> bytes:
        """Return `{messages, unread}`."""
        return b"".join((_HEAD, b",".join(map(self.of, rows)), _tail(unread)))


def roster_line(line: RosterLine, now_us: int) -> dict[str, object]:
    """Return one agent as the roster shows it."""
    presence, card = line.presence, line.presence.card
    age = None if card.status_at is None else max(0, now_us - card.status_at) // SECOND_US
    return {
        "agent_id": line.agent.agent_id,
        "machine": line.agent.machine,
        "state": line.state,
        "last_activity_at": _time(presence.last_activity_at),
        "expires_at": _time(presence.expires_at),
        "status_age_s": age,
        "unread": line.unread,
        "untrusted": {"role": card.role, "repo": card.repo, "caps": card.caps, "status": card.status},
    }


def sent_line(line: SentLine) -> dict[str, object]:
    """Return one message as its sender is told of it."""
    return {
        "id": ulid_text(line.id),
        "sent_at": format_time(line.sent_at),
        "msg_type": line.msg_type,
        "recipients": [_receipt(agent_id, receipt) for agent_id, receipt in line.recipients],
    }


def _receipt(agent_id: str, receipt: Receipt) -> dict[str, object]:
    return {
        "agent_id": agent_id,
        "stored_at": _time(receipt.stored_at),
        "served_at": _time(receipt.served_at),
        "acked_at": _time(receipt.acked_at),
        "expired_at": _time(receipt.expired_at),
    }


def _time(time_us: int | None) -> str | None:
    return None if time_us is None else format_time(time_us)


def _tail(unread: int) -> bytes:
    return b'],"unread":%d}' % unread
