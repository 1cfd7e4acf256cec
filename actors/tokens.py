"""The token book: every token in memory, by the hash of its text. It alone changes tokens.

A change is committed first and takes effect in the same synchronous step that follows, so a revoked token fails on
the next call. `last_used_at` is kept coarsely: noted in memory, written once a minute by the housekeeper, because a
commit per read would cost an fsync per read (study, S20).
"""

import hashlib
import hmac
import math
import secrets
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import AbstractContextManager, asynccontextmanager

import msgspec
import trio
from ulid import ULID

from actors.commands import Refusal
from actors.doubts import Doubts
from actors.groups import Groups, Member
from actors.units import PutToken, Reading, TouchTokens
from actors.watchers import Watcher
from storage.protocols import Log
from storage.records import TokenKind, TokenRecord

TOKEN_BYTES = 32
"""256 random bits: not to be guessed, so a plain SHA-256 is enough to store them (no salt, no slow hash)."""


def mint(kind: TokenKind) -> str:
    """Return the text of a new token: `prm_{kind}_` and 256 random bits in base64url."""
    return f"prm_{kind}_{secrets.token_urlsafe(TOKEN_BYTES)}"


def hash_token(text: bytes) -> bytes:
    """Return what is stored and looked up instead of a token's text."""
    return hashlib.sha256(text).digest()


def new_token_id() -> str:
    """Return a fresh public name for a token: it sorts by the time it was made."""
    return str(ULID()).lower()


class TokenBook:
    """All tokens of the server."""

    def __init__(self, log: Log, clock: Callable[[], int], doubts: Doubts | None = None) -> None:
        """`clock` gives µs since the epoch. `doubts` as for `Directory`."""
        self._log = log
        self._doubts = doubts or Doubts(log)
        self._clock = clock
        self._by_hash: dict[bytes, TokenRecord] = {}
        self._by_id: dict[str, TokenRecord] = {}
        self._ids_of_agent: dict[str, set[str]] = {}  # a token is bound for life
        self._used: dict[str, int] = {}
        self._watchers: Groups[str] = Groups()
        self._changing = trio.Lock()
        self.has_agent: Callable[[str], bool] = lambda agent_id: True
        self.has_machine: Callable[[str], bool] = lambda machine: True

    async def load(self) -> None:
        """Read every token from the store; called once, before the first request."""
        for token in await self._log.read(Reading(lambda snapshot: snapshot.tokens())):
            self._take(token)

    def find(self, text: bytes) -> TokenRecord | None:
        """Return the token of this text if it is valid now, and note that it was used."""
        digest = hash_token(text)
        token = self._by_hash.get(digest)
        if token is None or not hmac.compare_digest(token.hash, digest):
            return None
        now = self._clock()
        if token.revoked_at is not None or (token.expires_at is not None and token.expires_at <= now):
            return None
        self._used[token.token_id] = now
        return token

    def get(self, token_id: str) -> TokenRecord | None:
        """Return a token that is not revoked, by its id, with its latest `last_used_at`."""
        token = self._by_id.get(token_id)
        return None if token is None else self._with_use(token)

    def bound_to(self, agent_id: str) -> list[TokenRecord]:
        """Return the tokens of an agent that are valid now."""
        now = self._clock()
        tokens = [self._by_id[token_id] for token_id in self._ids_of_agent.get(agent_id, ())]
        return [token for token in tokens if token.expires_at is None or now < token.expires_at]

    def seconds_left(self, token: TokenRecord) -> float:
        """Return for how long a token is still valid by itself: infinite when it does not expire."""
        return math.inf if token.expires_at is None else (token.expires_at - self._clock()) / 1_000_000

    def page(self, after_id: str, limit: int) -> list[TokenRecord]:
        """Return tokens that are not revoked by id, ascending (oldest first), strictly after `after_id`."""
        ids = sorted(token_id for token_id in self._by_id if token_id > after_id)
        return [self._with_use(self._by_id[token_id]) for token_id in ids[:limit]]

    def draft(
        self,
        kind: TokenKind,
        *,
        inboxes: Iterable[str] | None,
        agent: str | None = None,
        machine: str | None = None,
        machines: Iterable[str] = (),
        name: str | None = None,
        expires_at: int | None = None,
    ) -> tuple[TokenRecord, str]:
        """Return a new token with its text, neither stored nor valid yet. The text is kept nowhere.

        `inboxes` None means all webhook and topic inboxes. `agent`: the agent that it is bound to. `machine`: the one
        for whose agents it acts. `machines`: others that it reaches.
        """
        text = mint(kind)
        token = TokenRecord(
            token_id=new_token_id(),
            hash=hash_token(text.encode()),
            kind=kind,
            inboxes=None if inboxes is None else tuple(inboxes),
            agent=agent,
            machine=machine,
            machines=tuple(machines),
            name=name,
            created_at=self._clock(),
            expires_at=expires_at,
        )
        return token, text

    async def create(self, token: TokenRecord) -> None:
        """Store a drafted token; it is valid from here on. Raises `Refusal("not_found")` when it is bound to an agent
        or a machine that does not exist, and as `Log.commit`.
        """
        async with self._changing:
            if token.agent is not None and not self.has_agent(token.agent):
                raise Refusal("not_found", "There is no such agent.", "agent")
            if token.machine is not None and not self.has_machine(token.machine):
                raise Refusal("not_found", "There is no such machine.", "machine")
            await self._commit(token)

    def in_doubt(self) -> AbstractContextManager[None]:
        """Return a context for a commit that changes tokens: they are read again when nobody knows whether it was
        stored.
        """
        return self._doubts.of("tokens", self._read_again)

    def took(self, token: TokenRecord) -> None:
        """Take a token that was committed together with something else (a new inbox)."""
        self._take(token)

    async def change(self, token_id: str, change: Callable[[TokenRecord], TokenRecord]) -> TokenRecord:
        """Change a token's scope, name or expiry; in force for the next call. Raises `Refusal("not_found")`, and as
        `revoke` for the last lasting admin token that would expire.
        """
        async with self._changing:
            token = self._existing(token_id)
            changed = change(token)
            if changed.expires_at is not None:
                self._keep_an_admin(token)
            return await self._commit(changed)

    async def revoke(self, token_id: str) -> None:
        """Revoke a token for good. Raises `Refusal("not_found")`, and `Refusal("conflict")` for the last admin token
        that does not expire, because nobody could administer the server afterwards.
        """
        async with self._changing:
            token = self._existing(token_id)
            self._keep_an_admin(token)
            await self._commit(msgspec.structs.replace(token, revoked_at=self._clock()))

    @asynccontextmanager
    async def revoking(
        self, *, agent: str | None = None, machine: str | None = None
    ) -> AsyncIterator[tuple[TokenRecord, ...]]:
        """Revoke the tokens of an agent or a machine that is being deleted: they are given as they are to be stored, by
        what is done inside, and count from its end. Nothing changes when that raises.
        """
        async with self._changing:
            now = self._clock()
            revoked = tuple(
                msgspec.structs.replace(token, revoked_at=now)
                for token in self._by_id.values()
                if (agent is not None and token.agent == agent)
                or (machine is not None and token.machine == machine)
            )
            # Shielded: once the writer has the unit, memory must follow the database whether or not the caller stays.
            with trio.CancelScope(shield=True):
                with self.in_doubt():
                    yield revoked
                for token in revoked:
                    self._take(token)

    def watching(self, token: TokenRecord, watcher: Watcher) -> Member[str]:
        """Let a wait or stream hear of its token: it is ended when that is revoked, and woken when it changes.

        The token may have been revoked or changed since the request was authenticated; then the watcher hears so now.
        """
        member = self._watchers.member(token.token_id, watcher)
        current = self._by_id.get(token.token_id)
        if current is None:
            watcher.end("revoked")
        elif current.inboxes != token.inboxes or current.expires_at != token.expires_at:
            watcher.rescope()
        return member

    async def flush_use(self) -> None:
        """Write down when tokens were used since the last time; nothing is written when none was."""
        if not self._used:
            return
        used, self._used = self._used, {}
        try:
            await self._log.commit(TouchTokens(tuple(used.items())))
        except BaseException:
            self._used = {**used, **self._used}  # the next time, then
            raise
        for token_id, at in used.items():
            token = self._by_id.get(token_id)
            if token is not None:
                self._keep(msgspec.structs.replace(token, last_used_at=at))

    def _existing(self, token_id: str) -> TokenRecord:
        token = self._by_id.get(token_id)
        if token is None:
            raise Refusal("not_found", "There is no such token.", "token_id")
        return token

    def _keep_an_admin(self, leaving: TokenRecord) -> None:
        lasting = [
            token for token in self._by_id.values() if token.kind == "admin" and token.expires_at is None
        ]
        if lasting == [leaving]:
            raise Refusal("conflict", "This is the last admin token; make another one first.", "token_id")

    def _with_use(self, token: TokenRecord) -> TokenRecord:
        used = self._used.get(token.token_id)
        return token if used is None else msgspec.structs.replace(token, last_used_at=used)

    async def _commit(self, token: TokenRecord) -> TokenRecord:
        # Shielded: once the writer has the unit, memory must follow the database whether or not the caller stays.
        with trio.CancelScope(shield=True):
            with self.in_doubt():
                await self._log.commit(PutToken(token))
            self._take(token)
        return token

    async def _read_again(self) -> None:
        """Take what the store has. Nobody changes a token meanwhile; one that is made with something else is newer."""
        async with self._changing:
            for token in await self._log.read(Reading(lambda snapshot: snapshot.tokens())):
                known = self._by_id.get(token.token_id)
                if known is None:
                    if token.revoked_at is None:
                        self._take(token)
                elif msgspec.structs.replace(known, last_used_at=token.last_used_at) != token:
                    self._take(token)

    def _take(self, token: TokenRecord) -> None:
        if token.revoked_at is not None:
            self._by_hash.pop(token.hash, None)
            self._by_id.pop(token.token_id, None)
            self._used.pop(token.token_id, None)
            if token.agent is not None:
                left = self._ids_of_agent.pop(token.agent, set()) - {token.token_id}
                if left:
                    self._ids_of_agent[token.agent] = left
            for watcher in self._watchers.of(token.token_id):
                watcher.end("revoked")
        else:
            self._keep(token)
            for watcher in self._watchers.of(token.token_id):
                watcher.rescope()

    def _keep(self, token: TokenRecord) -> None:
        self._by_hash[token.hash] = token
        self._by_id[token.token_id] = token
        if token.agent is not None:
            self._ids_of_agent.setdefault(token.agent, set()).add(token.token_id)
