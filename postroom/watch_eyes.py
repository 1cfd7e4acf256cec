"""Where `postroom watch` sees an agent's mail: peeks in the background, or pulls for an agent without a machine; and
the stream of its inbox, which says when to look.

Everything here blocks, and is called in threads.
"""

import json
from collections.abc import Callable
from datetime import datetime

from postroom.client import Client, ClientError, Refused, Unreachable
from postroom.following import Ended
from postroom.mesh import Mesh
from postroom.news import HOW_TO_PULL, HOW_TO_READ, Look

PAGE_MESSAGES = 100
"""Whose ids are looked at: the server's own maximum."""

RENEWALS = 3
"""Within the time for which an agent counts as alive: two may fail."""
LEAST_RENEWAL_SECONDS = 10.0
"""The shortest such time that the server takes is 30 s."""
UNKNOWN_RENEWAL_SECONDS = 60.0
"""For an agent that has not checked in yet."""

STREAM = "/v1/inbox:stream"
FORBIDDEN = 403


class Eyes:
    """One agent's inbox. `has_stream`: whether the token may open one; `how` tells the agent how to read.

    Made by a first look, which raises as `Client.call`, and `ClientError` when nobody says whose inbox.
    """

    def __init__(self, api: Client, agent_id: str | None) -> None:
        self._api = api
        self._mesh = Mesh(api, agent_id)
        self.has_stream = self._mesh.bound_to is not None
        self.agent_id = self._mesh.agent_id
        self._pulls = False
        try:
            self._peek()
        except Refused as error:
            # The agent may be on no machine: then its own token reads the inbox as of old.
            if error.status != FORBIDDEN or self.agent_id != self._mesh.bound_to:
                raise
            self._pulls = True
            self._pull()
        self.how = HOW_TO_PULL if self._pulls else HOW_TO_READ

    def look(self) -> Look:
        """Return what is unread. Raises as `Client.call`."""
        return self._pull() if self._pulls else self._peek()

    def listen(self, ring: Callable[[], object]) -> None:
        """Call `ring` when the stream is open and whenever something comes, until it ends.

        Raises as `Client.events`, and `Ended` when the server ends it for good.
        """
        with self._api.events(STREAM) as (_, events):
            ring()
            for event in events:
                if event.name == "bye":
                    raise _ended(event.data)
                ring()

    def renew(self) -> float:
        """Renew the agent's presence, unless it has said farewell; return after how many seconds to do so again.

        Raises as `Client.call`, also for an agent without a machine, which has no presence.
        """
        roster = self._mesh.roster(include_stale=True, renew=True)
        for one in roster["agents"]:
            if one["agent_id"] == self.agent_id and one["expires_at"] and one["last_activity_at"]:
                lives = _time(one["expires_at"]) - _time(one["last_activity_at"])
                return max(lives.total_seconds() / RENEWALS, LEAST_RENEWAL_SECONDS)
        return UNKNOWN_RENEWAL_SECONDS

    def _peek(self) -> Look:
        mail = self._mesh.mail(limit=PAGE_MESSAGES, peek=True, background=True)
        return Look(mail.unread, frozenset(letter.id for letter in mail.messages))

    def _pull(self) -> Look:
        """Read the first page that shows anything. Without an `ack` nothing is marked."""
        page = self._api.pull(limit=PAGE_MESSAGES)
        while not page.items and page.has_more:
            page = self._api.pull(since=page.window_high, limit=PAGE_MESSAGES)
        ids = frozenset(item.diff.diff_id for item in page.items)
        return Look(len(page.items), ids, is_all=not page.has_more)


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text.replace("Z", "+00:00"))


def _ended(data: str) -> ClientError:
    """Return the end of a stream as what ends the watch, or as what is tried again."""
    try:
        reason = str(json.loads(data)["reason"])
    except (ValueError, KeyError, TypeError):
        return Unreachable("The server sent an event that cannot be read.")
    return Unreachable("The server is shutting down.") if reason == "shutdown" else Ended(reason)
