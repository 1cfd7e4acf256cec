"""What a caller that stays may still do: its token can be revoked, expire or change while it waits.

A request is authorised once, when it comes. A wait or a stream outlives that moment, so it asks again: whenever it is
woken by its token, and before it hands over anything.
"""

import trio

from actors.tokens import TokenBook
from actors.watchers import Watcher
from storage.records import TokenRecord
from web.auth import Principal
from web.errors import no_such_inbox, unauthenticated


class Access:
    """The caller's access to some inboxes, as the token book has it now.

    `ends_at`: when the token expires, on trio's clock; infinite when it does not.
    """

    __slots__ = ("_slugs", "_token_id", "_tokens", "_watcher", "ends_at")

    def __init__(
        self, tokens: TokenBook, token: TokenRecord, slugs: tuple[str, ...], watcher: Watcher
    ) -> None:
        """`watcher` must hear of the token (`TokenBook.watching`) before `check` is called."""
        self._tokens = tokens
        self._token_id = token.token_id
        self._slugs = slugs
        self._watcher = watcher
        self.ends_at = self._end(token)

    @property
    def is_stale(self) -> bool:
        """Whether something has happened to the token since `check`: what was read meanwhile may be closed by now."""
        watcher = self._watcher
        return watcher.rescoped or watcher.ended == "revoked" or trio.current_time() >= self.ends_at

    def check(self) -> None:
        """Raise what a new request would be told: `unauthenticated` when the token was revoked or has expired,
        `not_found` when one of the inboxes is no longer among those that it reads. Synchronous.
        """
        watcher = self._watcher
        if watcher.rescoped:
            watcher.rescoped = False
            token = self._tokens.get(self._token_id)
            if token is None:
                raise unauthenticated(sent=True)
            self.ends_at = self._end(token)
            caller = Principal(token)
            if not all(map(caller.may_read, self._slugs)):
                raise no_such_inbox()
        if watcher.ended == "revoked" or trio.current_time() >= self.ends_at:
            raise unauthenticated(sent=True)

    def _end(self, token: TokenRecord) -> float:
        return trio.current_time() + self._tokens.seconds_left(token)
