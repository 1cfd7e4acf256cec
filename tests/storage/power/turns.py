"""Turns of inboxes as clients of a store take them, with what they were told written into the ledger."""

import random
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from actors.commands import Append, Command, DeleteInbox, Draft, Erase, Refusal
from actors.turn import Turn, TurnResult, lane_of
from actors.units import Reading
from storage.errors import NotStored, OutcomeUnknown, StorageError
from storage.protocols import Snapshot
from storage.records import BodyKind
from storage.sqlite import SqliteStore
from tests.contract.builders import message_id
from tests.contract.mail import DELIVERY
from tests.storage.power.ledger import Box, Broken, Ledger, digest

WINDOW_US = 86_400_000_000
SIZES = (0, 10, 300, 3_000, 20_000)
"""Of bodies, in bytes: some need overflow pages."""


class Turns:
    """What random work is made of. `tick` lets a moment pass."""

    def __init__(
        self, store: SqliteStore, ledger: Ledger, rng: random.Random, tick: Callable[[], int]
    ) -> None:
        self._store = store
        self._ledger = ledger
        self._rng = rng
        self._tick = tick

    async def note_commits(self) -> None:
        """Write down how many commits there are: none of these may be lost any more, since readers have seen them."""
        found = await self._read(_commits)
        self._ledger.commits = max(self._ledger.commits, found or 0)

    async def _read(self, look: Callable[[Snapshot], Any]) -> Any:
        """Return what a look returns, None when the disk fails."""
        try:
            return await self._store.read(Reading(look))
        except StorageError:
            return None

    async def _commit(self, unit: Any) -> Any:
        """Run a unit; return its result, or the error of the store."""
        self._tick()
        try:
            return await self._store.commit(unit)
        except StorageError as error:
            return error

    async def _turn(self, box: Box, *commands: Command) -> TurnResult | None:
        """Take a turn of an inbox and write down what came of it."""
        result = await self._commit(Turn(box.inbox_id, None, commands, None, lane_of(commands)))
        return self._noted(box, commands, result)

    def _noted(self, box: Box, commands: Sequence[Command], result: Any) -> TurnResult | None:
        drafts = [command.draft for command in commands if isinstance(command, Append)]
        if isinstance(result, OutcomeUnknown):
            box.wavers = True
            self._ledger.unknown.update(draft.id for draft in drafts)
            box.open_keys.update((draft.dedupe_key, draft.id) for draft in drafts if draft.dedupe_key)
            box.maybe_erased.update(command.seq for command in commands if isinstance(command, Erase))
            box.may_be_gone |= any(isinstance(command, DeleteInbox) for command in commands)
            return None
        if isinstance(result, NotStored):
            self._ledger.refused.update(draft.id for draft in drafts)
            return None
        if isinstance(result, StorageError):
            raise Broken(f"a change is answered with {result!r}") from result
        for command, outcome in zip(commands, result.outcomes, strict=True):
            self._note_command(box, command, outcome)
        if result.head is None:
            del self._ledger.boxes[box.inbox_id]
            self._ledger.deleted.add(box.slug)
        else:
            box.head = result.head
            box.let_go()
        done: TurnResult = result
        return done

    def _note_command(self, box: Box, command: Command, outcome: Any) -> None:
        match command:
            case Append(draft) if isinstance(outcome, Refusal):
                self._ledger.refused.add(draft.id)
            case Append(draft) if outcome.duplicate:
                self._ledger.refused.add(draft.id)
                known = box.keys.get(draft.dedupe_key or b"")
                if known is not None and known != (outcome.id, outcome.seq):
                    raise Broken(f"a repeat in {box.slug} is told another place")
            case Append(draft):
                if draft.dedupe_key is not None:
                    if draft.dedupe_key in box.keys:
                        raise Broken(f"a repeat in {box.slug} is stored twice")
                    box.keys[draft.dedupe_key] = (outcome.id, outcome.seq)
                box.kept[outcome.seq] = (draft.id, self._ledger.sent[draft.id])
            case Erase(seq) if outcome == ():
                box.kept.pop(seq, None)

    def _draft(self, key: bytes | None = None, size: int | None = None) -> Append:
        body = self._rng.randbytes(self._rng.choice(SIZES) if size is None else size)
        return self._append(body, body or None, None, BodyKind.BYTES if body else BodyKind.EMPTY, key)

    def _append(
        self, whole: bytes, body: bytes | None, body_id: int | None, kind: int, key: bytes | None
    ) -> Append:
        one = Draft(
            id=message_id(),
            size=len(whole),
            facts=b'{"method":"POST"}',
            said=b'{"path":""}',
            body_kind=kind,
            body=body,
            body_id=body_id,
            event_type=self._rng.choice(("", "push", "issues")),
            verified=1 if key else 2,
            dedupe_key=key,
        )
        self._ledger.sent[one.id] = digest(whole)
        return Append(one, WINDOW_US if key else 0)

    def _mail(self, home: Box, other: Box) -> Append:
        """A message of an agent to itself and another one, which it may look up later."""
        append = self._draft()
        draft = msgspec.structs.replace(
            append.draft, delivery=DELIVERY, recipients=(other.inbox_id,), log_of=home.inbox_id
        )
        return Append(draft)

    def _key(self) -> bytes | None:
        return self._rng.randbytes(8) if self._rng.random() < 0.5 else None

    def _box(self, *, agent: bool = False) -> Box:
        boxes = [box for box in self._ledger.boxes.values() if box.is_agent == agent]
        return self._rng.choice(boxes or list(self._ledger.boxes.values()))


def _commits(snapshot: Snapshot) -> int:
    """Return how many commits there are. By the connection: it is nothing that the actors may ask."""
    return int(snapshot.sql.value("SELECT commits FROM server"))  # type: ignore[attr-defined]  # of SqliteSnapshot
