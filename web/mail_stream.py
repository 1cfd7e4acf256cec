"""A private inbox in a stream, as its own agent is told of it: what its token may see, each message with the record of
its delivery. (An administrator's stream of such an inbox is one as of every other.)
"""

from actors.feed import Feed
from actors.mail import Mail
from actors.pulling import Sight
from actors.tail import TailEntry
from storage.mail_records import AgentRecord, Delivered
from storage.records import Page, StoredMessage
from web import render
from web.diffs import delivery
from web.private import Visible
from web.stream import PIECE_BYTES, PIECE_MESSAGES, Place


class PrivatePlace(Place):
    """Where a stream is in a private inbox. `visible` is asked before each look."""

    __slots__ = ("_agent", "_mail", "_records", "_visible")

    def __init__(self, slug: str, feed: Feed, mail: Mail, agent: AgentRecord, visible: Visible) -> None:
        super().__init__(slug, feed)
        self._mail = mail
        self._agent = agent
        self._visible = visible
        self._records: dict[int, bytes] = {}

    async def read(self, types: tuple[str, ...], body_limit: int) -> tuple[Page, list[TailEntry]]:
        """Return what comes next and is to be told. Raises as `Mail.follow`."""
        self._due = False
        after = self.after
        while True:
            self.feed.attach()
            sight = Sight(PIECE_MESSAGES, self._visible(), body_limit, PIECE_BYTES)
            span = await self._mail.follow(self._agent, after, sight)
            told = [row for row in span.rows if not types or row.event_type in types]
            if told or not span.more:
                self._records = {row.seq: delivery(row) for row in told}
                return Page(span.head, [as_message(row) for row in told], not span.more), []
            after = span.through

    def message(self, row: StoredMessage, *, bodies: bool, inline_limit: int) -> bytes:
        """Return one message as JSON, with its delivery record among the facts."""
        return render.message(
            self.slug,
            self.epoch,
            row,
            bodies=bodies,
            inline_limit=inline_limit,
            fact=b',"delivery":' + self._records[row.seq],
        )


def as_message(row: Delivered) -> StoredMessage:
    """Return a delivery as a message of the inbox that it was delivered to, received when it came there."""
    return StoredMessage(
        row.seq,
        row.id,
        row.delivered_at,
        row.size,
        row.facts,
        row.said,
        row.body_kind,
        row.body,
        row.body_id,
        row.event_type,
        row.verified,
    )
