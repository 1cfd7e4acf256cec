"""The façade that the web layer talks to: everything it may ask of inboxes, tokens and the log, in one place.

It owns nothing itself: changes of an inbox go to its actor through the registry, other changes are units, reads
are looks. Exceptions: `storage.errors` (not stored, unknown, busy), `InboxGone`, `SlugTaken`, `Refusal`,
`actors.ask.InboxStopped` (not done, after three tries) and `actors.ask.InboxQuarantined`.
"""

import io
import time
from collections.abc import Collection
from contextlib import suppress

import trio

from actors.beacons import BeaconBook
from actors.commands import (
    Append,
    Appended,
    ChangeInbox,
    DeleteInbox,
    Draft,
    DropSecret,
    Erase,
    Purge,
    PutSecret,
    Refusal,
)
from actors.directory import Directory
from actors.fanout import Ticket
from actors.feed import Feed
from actors.mail import Mail
from actors.mesh import Mesh
from actors.publishing import Publishing
from actors.registry import Registry
from actors.router import Router
from actors.tail import TailEntry
from actors.tokens import TokenBook
from actors.units import CreateInbox, DiscardBody, Reading, StagePiece
from actors.watchers import Watcher
from storage.errors import InboxGone, StorageError
from storage.histogram import Histogram
from storage.protocols import Log, Snapshot
from storage.records import (
    CHUNK_BYTES,
    Head,
    InboxListing,
    InboxRecord,
    NewInbox,
    Page,
    PageQuery,
    StoredMessage,
    TokenRecord,
)
from storage.search_records import SearchPage, SearchQuery

DISCARD_SECONDS = 1.0
"""How long an aborted upload may take over dropping its staged pieces; the next start sweeps what is left."""

ANSWER_SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0)
"""Bounds of what one takes that somebody waits for: storing a message, reading a page."""


class Service:
    """Inboxes, messages and tokens, for callers that know nothing of actors or storage.

    It keeps, for all its callers together, what they have waited for, in seconds: `append_seconds` until a received
    message was durable, `search_seconds` for a look of a search, `page_seconds` and `pull_seconds` until a page was
    ready to be sent. The latter two are counted by whoever makes the pages.
    """

    def __init__(
        self,
        log: Log,
        registry: Registry,
        directory: Directory,
        tokens: TokenBook,
        mail: Mail,
        beacons: BeaconBook,
        publishing: Publishing,
        router: Router,
        mesh: Mesh,
    ) -> None:
        self._log = log
        self._registry = registry
        self._directory = directory
        self.tokens = tokens
        self.mail = mail
        self.beacons = beacons
        self.publishing = publishing
        self.mesh = mesh
        self._router = router
        self.append_seconds = Histogram(ANSWER_SECONDS)
        self.page_seconds = Histogram(ANSWER_SECONDS)
        self.pull_seconds = Histogram(ANSWER_SECONDS)
        self.search_seconds = Histogram(ANSWER_SECONDS)

    @property
    def log(self) -> Log:
        """The store, for its health."""
        return self._log

    @property
    def registry(self) -> Registry:
        """The actors, for readiness and metrics."""
        return self._registry

    @property
    def router(self) -> Router:
        """The router, for its figures."""
        return self._router

    # -- finding ----------------------------------------------------------------------------------------
    async def find(self, slug: str) -> InboxRecord | None:
        """Return a live inbox by its slug, from memory when it was used lately."""
        return await self._directory.find(slug)

    async def show(self, slug: str) -> InboxListing | None:
        """Return an inbox with the head of this moment."""
        return await self._log.read(Reading(lambda snapshot: snapshot.inbox_by_slug(slug)))

    async def list_inboxes(
        self, slugs: tuple[str, ...] | None, after_slug: str, limit: int
    ) -> list[InboxListing]:
        """Return live inboxes by slug, strictly after `after_slug`; None means every webhook and topic inbox."""
        return await self._log.read(Reading(lambda snapshot: snapshot.inboxes(slugs, after_slug, limit)))

    async def list_verified_by(
        self, verifiers: Collection[str], after_id: int, limit: int
    ) -> list[InboxRecord]:
        """Return live inboxes with one of these verifiers, by id, strictly after `after_id`, without their secrets."""
        found = Reading(lambda snapshot: snapshot.inboxes_verified_by(verifiers, after_id, limit), slow=True)
        return await self._log.read(found)

    # -- writing messages ---------------------------------------------------------------------------------
    async def append(self, inbox: InboxRecord, draft: Draft, ticket: Ticket | None = None) -> Appended:
        """Append durably. Raises `InboxGone` when the inbox was deleted meanwhile, also if it was made again, and
        `Refusal("insufficient_storage")` when it is full and refuses.

        Whoever has sent the answer closes the `ticket`; a crowd of waiters is woken after that.
        """
        began = time.perf_counter()
        window_us = inbox.settings.dedupe_window_seconds * 1_000_000
        outcome: Appended = await self._registry.ask(inbox.inbox_id, Append(draft, window_us, ticket))
        self.append_seconds.add(time.perf_counter() - began)
        return outcome

    async def stage_body(self, source: io.BufferedIOBase) -> int:
        """Write a large body in pieces, read from `source` to its end, and return its id for `Draft.body_id`.

        Raises as `Log.commit`; what was written until then is dropped, also on cancellation.
        """
        body_id: int | None = None
        n = 0
        try:
            while data := source.read(CHUNK_BYTES):
                body_id = await self._log.commit(StagePiece(body_id, n, data))
                n += 1
        except BaseException:
            if body_id is not None:
                await self.discard_body(body_id)
            raise
        if body_id is None:
            raise ValueError("an empty body is not staged")
        return body_id

    async def discard_body(self, body_id: int) -> None:
        """Drop a staged body that no message adopted; best effort, the next start sweeps what is left."""
        with trio.move_on_after(DISCARD_SECONDS, shield=True):
            try:
                await self._log.commit(DiscardBody(body_id))
            except StorageError:
                return

    # -- reading messages -----------------------------------------------------------------------------------
    def feed(self, inbox_id: int, watcher: Watcher) -> Feed:
        """Return an inbox as `watcher` reads it while it grows, for `actors.feed.next_page` and for streams."""
        return Feed(self._registry, self._log, inbox_id, watcher)

    async def page(self, query: PageQuery) -> tuple[Page, list[TailEntry]]:
        """Return one page and the head of the same moment, and the tail's entries if the page came from there.

        A page near the head is what agents ask for most, and the tail of a running actor has it: that saves the hop to
        a reader's thread, which costs more than the read. Raises `InboxGone`, `ReadersBusy`.
        """
        live = None
        if query.verified is None and query.since_us is None and query.until_us is None:
            live = self._registry.running_live(query.inbox_id)
        if live is not None:
            types = frozenset(query.types) or None
            if query.after is None:
                found = live.tail.look_back(query.before, types, query.limit)
                if found is not None:
                    return found
            elif live.tail.covers(query.after):
                return live.tail.look(query.after, types, query.limit)
        return await self._log.read(Reading(lambda snapshot: snapshot.page(query))), []

    async def message(self, inbox_id: int, seq: int, body_limit: int) -> tuple[Head, StoredMessage | None]:
        """Return one message, None when it is not (or no longer) there. Raises `InboxGone`, `ReadersBusy`."""
        return await self._log.read(Reading(lambda snapshot: snapshot.message(inbox_id, seq, body_limit)))

    async def search(self, query: SearchQuery) -> SearchPage:
        """Return what a search finds in a bounded time, as `SearchReads.search` says. Raises `InboxGone`,
        `ReadersBusy`.
        """
        began = time.perf_counter()
        page = await self._log.read(Reading(lambda snapshot: snapshot.search(query), slow=True))
        self.search_seconds.add(time.perf_counter() - began)
        return page

    async def large_body(self, body_id: int, size: int) -> tuple[bytes, bool]:
        """Return a whole large body and whether it is strict JSON. Raises `BodyGone`."""

        def read(snapshot: Snapshot) -> tuple[bytes, bool]:
            body = snapshot.body(body_id, size)
            return body, snapshot.is_json(body)

        return await self._log.read(Reading(read, slow=True))

    async def body_piece(self, body_id: int, n: int) -> bytes:
        """Return piece `n` (of `CHUNK_BYTES`, the last one shorter) of a large body. Raises `BodyGone`."""
        return await self._log.read(Reading(lambda snapshot: snapshot.chunk(body_id, n), slow=True))

    # -- administration -----------------------------------------------------------------------------------
    async def create_inbox(self, new: NewInbox, token: TokenRecord | None = None) -> InboxListing:
        """Make an inbox, together with a token drafted for it, and return it. Raises `SlugTaken`."""
        # Shielded: once the writer has the unit, memory must follow the database whether or not the caller stays.
        with trio.CancelScope(shield=True):
            with self._directory.in_doubt(new.slug), self.tokens.in_doubt():
                listing = await self._log.commit(CreateInbox(new, token))
            self._directory.put(listing.record)
            if token is not None:
                self.tokens.took(token)
        return listing

    async def change_inbox(self, inbox_id: int, command: ChangeInbox | PutSecret | DropSecret) -> InboxRecord:
        """Change settings or secrets in the inbox's own turn; in force for the next request after it."""
        record: InboxRecord = await self._registry.ask(inbox_id, command)
        return record

    async def purge(self, inbox_id: int) -> int:
        """Drop every message of an inbox and return how many there were."""
        dropped: int = await self._registry.ask(inbox_id, Purge())
        return dropped

    async def erase(self, inbox_id: int, seq: int) -> None:
        """Delete one message's content, also where it was delivered to. Raises `Refusal("not_found")`."""
        while copies := await self._registry.ask(inbox_id, Erase(seq)):
            for other, at in copies:
                with suppress(InboxGone, Refusal):  # gone meanwhile
                    await self._registry.ask(other, Erase(at))

    async def delete_inbox(self, inbox_id: int) -> None:
        """Delete an inbox, with an agent's or a machine's own one the agent or the machine too. Raises `InboxGone` when
        somebody else was faster.
        """
        agent = self.mail.agents.of_inbox(inbox_id)
        machine = self.mesh.machines.of_inbox(inbox_id)
        if agent is not None:
            await self.mail.delete_agent(agent.agent_id)
        elif machine is not None:
            await self.mesh.machines.delete(machine.name)
        else:
            await self._registry.ask(inbox_id, DeleteInbox())
