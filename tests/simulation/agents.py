"""Agents: one drains its inbox by the server's cursor, one reads its mail message by message, and all write to each
other.
"""

from typing import Any

import trio

from tests.simulation.people import Person, ulid
from tests.simulation.world import Machine
from web.grammar import ulid_text

ADA, BOB, CYD = "ada", "bob", "cyd"
"""The first drains, the second reads its mail, the third is only written to; all are on one machine."""

ROUNDS = 2_000
"""More pages than any inbox of a run has: who still finds something new then, would for ever."""

PASSING = ("busy", "shutting_down", "too_many_waits", "insufficient_storage")


class Agent(Person):
    """Somebody with an inbox of its own."""

    def __init__(self, machine: Machine, name: str, agent_id: str, token: str) -> None:
        super().__init__(machine, name, token)
        self.agent_id = agent_id
        self.seen: set[bytes] = set()

    def to_be_seen(self) -> set[bytes]:
        """Return what is in the inbox and may be seen: what came from an inbox that is gone may not, nor what was
        erased.
        """
        ledger = self.machine.ledger
        mail = ledger.now_living(f"agent.{self.agent_id}")
        if mail is None:
            return set()
        there = {one for _, one in mail.kept()}
        return {one for one in there if one in ledger.homes and ledger.homes[one][0].ended_at is None}

    async def call(self, method: str, target: str, body: Any = None, seconds: float = 0.0) -> Any:
        """Call, and return the answer as JSON; None when it was refused for a reason that passes, or there is none."""
        reply = await self.ask(method, target, body, seconds=seconds)
        if reply is None or reply.status == 200:
            return None if reply is None else reply.json
        if reply.code not in PASSING:
            self.find(f"{method} {target} was refused: {reply.status} {reply.body.decode()}")
        return None

    async def invoke(self, name: str, **arguments: Any) -> Any:
        """Call a tool, and return its result; None as `call`."""
        told = await self.tool(name, **arguments)
        if told is None or not told[0]:
            return None if told is None else told[1]
        if told[0] not in PASSING:
            self.find(f"{name} was refused: {told}")
        return None


class Drainer(Agent):
    """Drains its inbox: acknowledges what it was shown, or does not, or too late."""

    def __init__(self, machine: Machine, name: str, agent_id: str, token: str) -> None:
        super().__init__(machine, name, agent_id, token)
        self._cursor = 0
        self._high = 0

    async def act(self) -> None:
        """Pull, with or without an acknowledgement, or wait."""
        await self._pull(self._high if self.chance.random() < 0.7 else None)

    async def finish(self) -> None:
        """Drain to the end; everything has been shown by then."""
        self.hangs_up = 0.0
        for _ in range(ROUNDS):
            page = await self._pull(self._high, waiting=False)
            if page is None:
                await self.think()
            elif not page["items"] and not page["has_more"]:
                break
        else:
            self.find("drains for ever")
        missing = self.to_be_seen() - self.seen
        if missing:
            self.find(f"was never shown {len(missing)} messages, {min(missing).hex()} among them")

    async def _pull(self, ack: int | None, *, waiting: bool | None = None) -> Any:
        asked: dict[str, Any] = {} if ack is None else {"ack": ack}
        if self.chance.random() < 0.5:
            asked["limit"] = self.chance.choice((1, 2, 50))
        waits = self.chance.random() < 0.2 if waiting is None else waiting
        since = trio.current_time()
        if waits:
            asked["timeout_seconds"] = seconds = self.chance.choice((1, 15))
            page = await self.call("POST", "/v1/inbox:wait", asked, seconds=float(seconds))
        elif self.chance.random() < 0.3:
            page = await self.invoke("pull_inbox", **asked)
        else:
            page = await self.call("POST", "/v1/inbox:pull", asked)
        if page is not None:
            self._took(page, ack, since)
        return page

    def _took(self, page: Any, ack: int | None, since: float) -> None:
        mail = self.machine.ledger.now_living(f"agent.{self.agent_id}")
        seqs = [int(item["delivery_seq"]) for item in page["items"]]
        if page["cursor"] < self._cursor or (ack is not None and page["cursor"] < ack):
            self.find(f"the cursor is {page['cursor']}, after {self._cursor} and an acknowledgement of {ack}")
        if page["window_high"] < page["cursor"]:
            self.find(f"the window ends at {page['window_high']}, below the cursor {page['cursor']}")
        if any(not page["cursor"] < seq <= page["window_high"] for seq in seqs) or len(set(seqs)) != len(
            seqs
        ):
            self.find(f"was shown {seqs} between {page['cursor']} and {page['window_high']}")
        for item in page["items"]:
            one, seq = ulid(item["diff"]["diff_id"]), int(item["delivery_seq"])
            entry = None if mail is None else mail.entries.get(seq)
            if entry is None or entry.id != one:
                self.find(f"was shown {one.hex()} as {seq}, which it is not")
            self.seen.add(one)
        if seqs and mail is not None:
            self.machine.promises.woken(self.name, mail.slug, mail.epoch, min(seqs), since)
        if mail is not None:
            self._complete(mail, page["cursor"], page["window_high"], seqs)
        self._cursor, self._high = page["cursor"], page["window_high"]

    def _complete(self, mail: Any, cursor: int, high: int, seqs: list[int]) -> None:
        """Everything in a window was shown, as far as it may be seen; what may not, also some of it, is not missed."""
        visible = self.to_be_seen()
        for seq in range(cursor + 1, high + 1):
            entry = mail.entries.get(seq)
            if entry is None:
                self.find(f"the window ends at {high}, and there is no {seq}")
            elif seq not in seqs and seq not in mail.erased and entry.id in visible:
                self.find(f"the window ends at {high}, and {seq} was not shown")


class Mailer(Agent):
    """Reads its mail message by message: plainly, by peeking, and acknowledges by id."""

    def __init__(
        self, machine: Machine, name: str, agent_id: str, token: str, beside: "Mailer | None" = None
    ) -> None:
        """`beside`: another session of the same agent; what one was served plainly, the other is not."""
        super().__init__(machine, name, agent_id, token)
        if beside is not None:
            self.seen = beside.seen
        self._served: set[bytes] = set() if beside is None else beside._served
        self._acked: set[bytes] = set() if beside is None else beside._acked

    async def act(self) -> None:
        """Read or acknowledge."""
        waiting = sorted(self.seen - self._acked)
        if waiting and self.chance.random() < 0.4:
            await self._ack(self.chance.sample(waiting, min(len(waiting), self.chance.randint(1, 4))))
        else:
            await self._read(peek=self.chance.random() < 0.3)

    async def finish(self) -> None:
        """Peek and acknowledge until nothing is left; everything has been shown by then."""
        self.hangs_up = 0.0
        for _ in range(ROUNDS):
            page = await self._read(peek=True, limit=100)
            if page is None:
                await self.think()
                continue
            if not page["messages"]:
                if page["unread"]:
                    self.find(f"has {page['unread']} unread messages and is shown none")
                break
            await self._ack([ulid(one["id"]) for one in page["messages"]])
        else:
            self.find("reads its mail for ever")
        missing = self.to_be_seen() - self.seen
        if missing:
            self.find(f"was never shown {len(missing)} messages, {min(missing).hex()} among them")

    async def _read(self, *, peek: bool, limit: int | None = None) -> Any:
        asked: dict[str, Any] = {"agent_id": self.agent_id, "limit": limit or self.chance.choice((1, 3, 50))}
        if peek:
            asked["peek"] = True
        acked = frozenset(self._acked)  # before this was asked
        if self.chance.random() < 0.3:
            page = await self.invoke("agent_inbox", **asked)
        else:
            query = "&".join(f"{name}={str(value).lower()}" for name, value in asked.items())
            page = await self.call("GET", f"/agent/inbox?{query}")
        if page is None:
            return None
        ids = [ulid(one["id"]) for one in page["messages"]]
        again = acked.intersection(ids) or (set() if peek else self._served.intersection(ids))
        if again:
            self.find(f"was served {min(again).hex()} again{' by a peek' if peek else ''}")
        self.seen.update(ids)
        if not peek:
            self._served.update(ids)
        return page

    async def _ack(self, ids: list[bytes]) -> None:
        ledger = self.machine.ledger
        spelled = {one: ulid_text(one) for one in ids}
        asked = {"agent_id": self.agent_id, "message_ids": list(spelled.values())}
        if self.chance.random() < 0.3:
            told = await self.invoke("agent_ack", **asked)
        else:
            told = await self.call("POST", "/agent/ack", asked)
        if told is None:
            return
        self._acked.update(ids)
        mail = ledger.now_living(f"agent.{self.agent_id}")
        erased = set() if mail is None else {mail.entries[seq].id for seq in mail.erased}
        for one in map(ulid, told["unknown"]):
            home = ledger.homes.get(one)
            if one not in erased and home is not None and home[0].ended_at is None:
                self.find(f"acknowledged {one.hex()}, which is said to be unknown")


class Writer(Agent):
    """Writes to the others, by name, to all, and to topics; with a key of its own, now and then again."""

    def __init__(self, machine: Machine, name: str, agent_id: str, token: str) -> None:
        super().__init__(machine, name, agent_id, token)
        self._count = 0
        self._sent: list[tuple[str, dict[str, Any]]] = []

    async def act(self) -> None:
        """Write something, or change what one wants to hear of."""
        if self.chance.random() < 0.1:
            await self._wish()
            return
        if self._sent and self.chance.random() < 0.3:
            how, asked = self.chance.choice(self._sent)
        else:
            how, asked = self._made()
            self._sent.append((how, asked))
        if self.chance.random() < 0.3:
            told = await self.invoke({"/agent/send": "agent_send", "/v1/publish": "publish"}[how], **asked)
        else:
            told = await self.call("POST", how, asked)
        if told is not None:
            self._took(how, asked, told)

    async def _wish(self) -> None:
        """Place one more beacon, in place of the one before, or remove it."""
        target = "/v1/beacons/more"
        wishes = [{"inboxes": ["hooks"]}, {"types": ["push"]}, {"about": "who has sent a filling or a name"}]
        backfill = self.chance.choice((0, 0, 20))
        wish: dict[str, Any] = {**self.chance.choice(wishes), "backfill": backfill}
        if self.chance.random() < 0.3:
            reply, fine = await self.ask("DELETE", target), (204, 404)
        else:  # words are refused that most messages have
            reply, fine = await self.ask("PUT", target, wish), (200, 400 if "about" in wish else 200)
        if reply is not None and reply.status not in fine and reply.code not in PASSING:
            self.find(f"a beacon was refused: {reply.status} {reply.body.decode()}")

    def _made(self) -> tuple[str, dict[str, Any]]:
        self._count += 1
        key = f"{self.name}-{self._count}"
        others = [one for one in (ADA, BOB, CYD) if one != self.agent_id]
        how = self.chance.choice(("direct", "broadcast", "agents", "commons"))
        if how in ("direct", "broadcast"):
            asked = {
                "msg_type": "note",
                "payload": {"n": key},
                "idempotency_key": key,
                "require_alive": False,
            }
            if how == "direct":
                asked["to_agent"] = self.chance.choice(others)
            return "/agent/send", asked
        asked = {"type": "created", "kind": "note", "subject": key, "text": "", "idempotency_key": key}
        if how == "agents":
            asked["to"] = {"agents": self.chance.sample(others, self.chance.randint(1, len(others)))}
        return "/v1/publish", asked

    def _took(self, how: str, asked: dict[str, Any], told: Any) -> None:
        promises, ledger = self.machine.promises, self.machine.ledger
        one = ulid(told["id"] if how == "/agent/send" else told["diff_id"])
        promises.once(self.name, f"agent {self.agent_id}", asked["idempotency_key"], one)
        recipients = told["delivered_to"] if how == "/agent/send" else told.get("recipients") or ()
        for agent in recipients:
            mail = ledger.now_living(f"agent.{agent}")
            if mail is not None:
                promises.sent_to(agent, one, mail.epoch)
