"""Who is signed in: sessions, in memory only. A restart signs everybody out.

A session stands for a token, never for more: it ends with the token's revocation or expiry, at sign-out, after a time
without a request, and after a whole time at the latest. Its id is 256 random bits and lives in a cookie; here is only
the hash of it, so that a picture of the memory does not sign anybody in.
"""

import hashlib
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import trio

from actors.tokens import TokenBook
from actors.watchers import Watcher
from web.auth import Principal
from web.options import WebOptions

ID_BYTES = 32
FORM_TOKEN_BYTES = 16

SESSIONS_PER_TOKEN = 20
"""Browsers that one token is signed in with; of more, the one that was used longest ago is signed out. So memory is
bounded by the number of tokens, and no token can push out another's sessions."""

NOTES_KEPT = 20
"""Things to be shown once that a session holds; a page that is never looked at costs no more."""


class Session:
    """One browser that is signed in. `form_token` stands in every form that it was given."""

    __slots__ = ("_notes", "began_at", "form_token", "key", "seen_at", "token_id", "watchers")

    def __init__(self, key: bytes, token_id: str, now: float) -> None:
        """`now` is on trio's clock."""
        self.key = key
        self.token_id = token_id
        self.began_at = now
        self.seen_at = now
        self.form_token = secrets.token_urlsafe(FORM_TOKEN_BYTES)
        self.watchers: set[Watcher] = set()
        self._notes: dict[str, object] = {}

    def leave(self, path: str, note: object) -> None:
        """Leave something to be shown once, on the page of this path: a token's text, or that something was done."""
        self._notes.pop(path, None)
        self._notes[path] = note
        while len(self._notes) > NOTES_KEPT:
            del self._notes[next(iter(self._notes))]

    def take(self, path: str) -> object:
        """Return what was left for a page, None when there is nothing (any more)."""
        return self._notes.pop(path, None)


class Sessions:
    """All sessions of the server."""

    def __init__(
        self, tokens: TokenBook, options: WebOptions, clock: Callable[[], float] = trio.current_time
    ) -> None:
        """`clock` gives seconds, never going backwards."""
        self._tokens = tokens
        self._options = options
        self._clock = clock
        self._by_key: dict[bytes, Session] = {}
        self._of_token: dict[str, list[Session]] = {}  # the one used last at the end

    def __len__(self) -> int:
        return len(self._by_key)

    def begin(self, caller: Principal) -> str:
        """Sign a browser in and return the text of its cookie, which is kept nowhere."""
        text = secrets.token_urlsafe(ID_BYTES)
        token_id = caller.token.token_id
        session = Session(_key(text), token_id, self._clock())
        self._forget_what_is_over()
        mine = self._of_token.setdefault(token_id, [])
        mine.append(session)
        self._by_key[session.key] = session
        if len(mine) > SESSIONS_PER_TOKEN:
            self.end(mine[0])
        return text

    def find(self, text: str, *, used: bool = True) -> tuple[Session, Principal] | None:
        """Return the session of a cookie's text with its caller as of this moment, and note that it was used, if that
        is what it was.
        """
        session = self._by_key.get(_key(text))
        caller = None if session is None else self.caller_of(session)
        if session is None or caller is None:
            return None
        if used:
            session.seen_at = self._clock()
            mine = self._of_token[session.token_id]
            mine.remove(session)
            mine.append(session)
        return session, caller

    def caller_of(self, session: Session) -> Principal | None:
        """Return whom a session stands for now; None, and it is over, when its token or its time is."""
        token = self._tokens.get(session.token_id)
        if token is None or self._tokens.seconds_left(token) <= 0 or self._is_late(session):
            self.end(session)
            return None
        return Principal(token)

    def end(self, session: Session) -> None:
        """Sign a browser out, with whatever it has open. Again: nothing."""
        if self._by_key.pop(session.key, None) is None:
            return
        mine = self._of_token[session.token_id]
        mine.remove(session)
        if not mine:
            del self._of_token[session.token_id]
        for watcher in list(session.watchers):
            watcher.end("revoked")

    @contextmanager
    def watching(self, session: Session, watcher: Watcher) -> Iterator[None]:
        """End a stream with its session. One that is over already ends it at once."""
        session.watchers.add(watcher)
        if session.key not in self._by_key:
            watcher.end("revoked")
        try:
            yield
        finally:
            session.watchers.discard(watcher)

    def _is_late(self, session: Session) -> bool:
        now, options = self._clock(), self._options
        return (
            now - session.began_at >= options.ui_session_seconds
            or now - session.seen_at >= options.ui_idle_seconds
        )

    def _forget_what_is_over(self) -> None:
        """Let go of sessions that nobody came back to. At each sign-in: what is left is bounded by the tokens."""
        for session in list(self._by_key.values()):
            if self._is_late(session) or self._tokens.get(session.token_id) is None:
                self.end(session)


def _key(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()
