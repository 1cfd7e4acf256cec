"""Who reads by a cursor of its own: pages, waits and streams, over REST and MCP."""

from typing import Any

import msgspec
import trio

from tests.simulation.people import BROKEN, PATIENCE_SECONDS, Person, ulid
from tests.simulation.senders import HOOKS, PLAIN, TYPES
from tests.simulation.world import Machine
from tests.wire.client import Client, head
from tests.wire.events import Event, EventParser
from web.sse import parse_vector_id

CATCH_UP_SECONDS = 40.0
"""A stream that has nothing more to tell than what there is has told it by then."""

LIVES = 3
"""How often it ends for a reason before that."""


class Pager(Person):
    """Follows both inboxes by pages, and checks that what it is shown has no holes."""

    def __init__(self, machine: Machine, name: str, token: str) -> None:
        super().__init__(machine, name, token)
        self._places: dict[str, tuple[str | None, int]] = {HOOKS: (None, 0), PLAIN: (None, 0)}
        self._types = tuple(self.chance.sample(TYPES, 1)) if self.chance.random() < 0.3 else ()

    async def act(self) -> None:
        """Read on in one of the inboxes."""
        await self.read_on(self.chance.choice((HOOKS, PLAIN)))

    async def finish(self) -> None:
        """Read everything there is, from the beginning: all that is retained must be reachable."""
        self.hangs_up, self._types = 0.0, ()
        for slug in (HOOKS, PLAIN):
            self._places[slug] = (None, 0)
            await self.read_to_the_end(slug)

    async def read_to_the_end(self, slug: str) -> None:
        """Read page after page, and compare with what there is."""
        life = self.machine.ledger.now_living(slug)
        found: list[tuple[int, bytes]] = []
        while (rows := await self.read_on(slug)) is None or rows:
            found += rows or []
            if rows is None:
                return
        if life is None:
            return
        if self.machine.shape.ages:  # what has come of age since it was read is gone
            found = [one for one in found if one in life.kept()]
        if found != life.kept():
            self.find(f"{slug} shows {[seq for seq, _ in found]}, and has {[seq for seq, _ in life.kept()]}")

    async def read_on(self, slug: str) -> list[tuple[int, bytes]] | None:
        """Read one page; return what it has, None when there was none."""
        epoch, after = self._places[slug]
        asked: dict[str, Any] = {"after": after, "limit": self.chance.choice((1, 3, 20, 100))}
        if epoch is not None:
            asked["epoch"] = epoch
        if self._types:
            asked["types"] = list(self._types)
        if self.chance.random() < 0.3:
            asked["bodies"] = True
        return await self._took(slug, asked, await self._look(slug, asked))

    async def _look(self, slug: str, asked: dict[str, Any]) -> tuple[str, Any] | None:
        """Ask for the page; return `("", page)`, or code and text of a refusal."""
        if self.chance.random() < 0.3:
            return await self.tool("query_messages", inbox=slug, **asked)
        return await self._get(f"/v1/inboxes/{slug}/messages", asked)

    async def _get(self, path: str, asked: dict[str, Any], seconds: float = 0.0) -> tuple[str, Any] | None:
        reply = await self.ask("GET", f"{path}?{_query(asked)}", seconds=seconds)
        if reply is None:
            return None
        return ("", reply.json) if reply.status == 200 else (reply.code, reply.json["error"]["message"])

    async def _took(
        self, slug: str, asked: dict[str, Any], told: tuple[str, Any] | None
    ) -> list[tuple[int, bytes]] | None:
        if told is None:
            return None
        code, page = told
        epoch, after = asked.get("epoch"), int(asked["after"])
        if code:
            self._refused(slug, epoch, code, page)
            return None
        if epoch is not None and page["epoch"] != epoch:
            self.find(f"asked for the epoch {epoch} of {slug} and was answered from {page['epoch']}")
        rows = [(int(one["seq"]), ulid(one["id"])) for one in page["messages"]]
        if page["next_after"] < after:
            self.find(f"the cursor went back from {after} to {page['next_after']}")
        self.machine.promises.read(
            self.name,
            slug,
            page["epoch"],
            after,
            rows,
            page["next_after"],
            gap=page["gap"],
            types=self._types,
        )
        self._places[slug] = (page["epoch"], page["next_after"])
        return rows

    def _refused(self, slug: str, epoch: str | None, code: str, text: str) -> None:
        ledger = self.machine.ledger
        life = None if epoch is None else ledger.lives.get(epoch)
        if code == "epoch_changed":
            self._places[slug] = (None, 0)
            if life is None or life.ended_at is None:
                self.find(f"was told of a new epoch of {slug}, whose life has not ended")
        elif code == "not_found" and self.machine.shape.deleting:
            self._places[slug] = (None, 0)
        elif code not in ("busy", "shutting_down", "too_many_waits"):
            self.find(f"was refused {slug}: {code}: {text}")


class Waiter(Pager):
    """Waits for what comes."""

    async def act(self) -> None:
        """Wait in one of the inboxes."""
        slug = self.chance.choice((HOOKS, PLAIN))
        epoch, after = self._places[slug]
        seconds = self.chance.choice((0, 2, 10, 25))
        asked: dict[str, Any] = {"after": after, "timeout_seconds": seconds, "limit": 20}
        if epoch is not None:
            asked["epoch"] = epoch
        if self._types:
            asked["types"] = list(self._types)
        since = trio.current_time()
        if self.chance.random() < 0.3:
            told = await self.tool("wait_for_messages", inbox=slug, seconds=float(seconds), **asked)
        else:
            told = await self._get(f"/v1/inboxes/{slug}/wait", asked, float(seconds))
        rows = await self._took(slug, asked, told)
        if told is not None and rows:
            self.machine.promises.woken(self.name, slug, told[1]["epoch"], rows[0][0], since)

    async def finish(self) -> None:
        """Nothing more: whoever pages has looked at everything."""


class Streamer(Person):
    """Holds a stream open, reads it by the standard, and comes back with its last id when it breaks."""

    def __init__(self, machine: Machine, name: str, token: str) -> None:
        super().__init__(machine, name, token)
        self._several = self.chance.random() < 0.4
        self._slugs = (HOOKS, PLAIN) if self._several else (self.chance.choice((HOOKS, PLAIN)),)
        self._start_over()

    def _start_over(self) -> None:
        self._last_id = ""
        self._places: dict[str, tuple[str, int]] = {}

    async def act(self) -> None:
        """Hold a stream open for a while."""
        await self._stream(self.chance.choice((0.3, 3.0, 20.0)))

    async def finish(self) -> None:
        """Be told everything up to now."""
        self.hangs_up = 0.0
        for _ in range(LIVES):  # it ends when an inbox has got a new life, and tells of one at a time
            await self._stream(CATCH_UP_SECONDS if self._untold() else 0.1)
        if self._untold():
            self.find(f"was never told of {self._untold()}")

    def _untold(self) -> list[str]:
        """Return what it should have been told by now."""
        untold = []
        for slug, (epoch, after) in self._places.items():
            life = self.machine.ledger.now_living(slug)
            if life is not None and life.epoch == epoch:
                untold += [f"{slug} {seq}" for seq, _ in life.kept() if seq > after]
        return untold

    async def _stream(self, seconds: float) -> None:
        try:
            async with self.line() as client:
                if client is not None:
                    with trio.move_on_after(seconds + PATIENCE_SECONDS) as bound:
                        await self._follow(client, seconds)
                    if bound.cancelled_caught:
                        self.find("a stream neither begins nor ends")
        except (*BROKEN, ConnectionError):
            self.note("the stream was cut off")

    async def _follow(self, client: Client, seconds: float) -> None:
        target = f"/v1/inboxes/{self._slugs[0]}/stream?after=0"
        if self._several:
            target = f"/v1/stream?inboxes={HOOKS}&inboxes={PLAIN}"
        fields = [*self.headers, ("Accept", "text/event-stream")]
        if self._last_id:
            fields.append(("Last-Event-ID", self._last_id))
        self.note(f"streams {', '.join(self._slugs)} from {self._last_id or 'the beginning'}")
        self.asked_at = trio.current_time()
        await client.send(head("GET", target, fields))
        client._begin("GET")
        first = await client._event()
        status = getattr(first, "status_code", None)
        if status is None:
            return
        if status != 200:
            self._refused(status, await client.data())
            return
        parser, since = EventParser(), trio.current_time()
        parser._id_buffer = parser.last_event_id = self._last_id
        with trio.move_on_after(seconds):
            while data := await client.data():
                events = list(parser.feed(data))
                if self._several and not self._last_id and parser.last_event_id:
                    self._from_now(parser.last_event_id)
                self._last_id = parser.last_event_id
                for event in events:
                    self._heard(event, since)

    def _refused(self, status: int, body: bytes) -> None:
        self.note(f"{status} {body!r}")
        code = msgspec.json.decode(body)["error"]["code"] if body else ""
        excused = (status == 503 and self.machine.excused) or status == 429
        if not excused and not (status == 404 and self.machine.shape.deleting):
            self.find(f"a stream was refused: {status} {code}")
        if status == 404:
            self._start_over()

    def _from_now(self, last_id: str) -> None:
        """Begin where the stream says that it does."""
        for slug, place in parse_vector_id(last_id).items():
            self._places[slug] = place

    def _heard(self, event: Event, since: float) -> None:
        told = event.json
        self.note(f"hears {event.name} {event.data[:80]}")
        if event.name == "message":
            self._message(told, since)
        elif event.name == "gap":
            slug, first = told["inbox"], told["first_seq"]
            epoch, after = self._places.get(slug, ("", told["after"]))
            life = self.machine.ledger.now_living(slug)
            if life is not None and life.epoch == epoch and first > life.head.first_seq:
                self.find(f"was told of a gap of {slug} that there is not: {event.data}")
            self._places[slug] = (epoch, max(after, first - 1))
        elif event.name == "epoch_changed":
            slug = told["inbox"]
            life = self.machine.ledger.lives.get(self._places.get(slug, ("", 0))[0])
            if life is not None and life.ended_at is None:
                self.find(f"was told of a new epoch of {slug}, whose life has not ended")
            self._places[slug] = (told["epoch"], 0)
        elif event.name != "bye":
            self.find(f"was told of something unknown: {event.name}")

    def _message(self, told: Any, since: float) -> None:
        slug, seq, epoch = told["inbox"], int(told["seq"]), told["epoch"]
        before, after = self._places.get(slug, (epoch, 0))
        if before not in ("", epoch):
            self.find(f"{slug} went from the epoch {before} to {epoch} without a word")
        self.machine.promises.read(self.name, slug, epoch, after, [(seq, ulid(told["id"]))], seq, gap=False)
        self.machine.promises.woken(self.name, slug, epoch, seq, since)
        self._places[slug] = (epoch, seq)


def _query(asked: dict[str, Any]) -> str:
    each = [
        (name, one)
        for name, value in asked.items()
        for one in (value if isinstance(value, list) else [value])
    ]
    return "&".join(f"{name}={str(one).lower() if isinstance(one, bool) else one}" for name, one in each)
