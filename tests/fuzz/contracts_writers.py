"""What happens to agents' mail: who sends what to whom, who hears of it, and what is tidied up; the machine of
`test_contracts_machine` without its readers.
"""

from functools import partial
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from actors.commands import Refusal
from actors.pulling import ROW_BYTES
from storage.records import InboxSettings
from tests.contract.builders import START_US
from tests.fuzz.contracts_house import Beacon, House, Token
from tests.fuzz.contracts_ledger import Ledger
from tests.fuzz.contracts_model import Message
from tests.fuzz.contracts_scene import MAX_BATCH, Scene
from tests.fuzz.loop import LoopThread

AGENTS = {"a": "m", "b": "m", "c": "n"}
MACHINES = ("m", "n")
ORIGINS = {"hooks": "webhook", "news": "topic", "commons": "topic"}
INBOXES = (*ORIGINS, *(f"machine.{name}" for name in MACHINES), *(f"agent.{name}" for name in AGENTS))
TOKENS = {
    "a": Token(agent="a", inboxes=("news",)),
    "a too": Token(agent="a", inboxes=("hooks",)),
    "b": Token(agent="b", inboxes=None),
    "b too": Token(agent="b"),
    "c": Token(agent="c", inboxes=None),
    "m all": Token(machine="m", inboxes=("hooks",)),
}
SPEAKS = {
    name: ([one.agent] if one.agent else [who for who, at in AGENTS.items() if at == one.machine])
    for name, one in TOKENS.items()
}
READERS = [(token, agent) for token, speaks in SPEAKS.items() for agent in speaks]
"""Who reads whose mail: agents by their own tokens, a machine for all that are on it."""
PULLERS = [(token, agent) for token, agent in READERS if TOKENS[token].agent is not None]
STEP_US = 1_000_000

agents = st.sampled_from(sorted(AGENTS))
scopes = st.sampled_from([None, (), ("hooks",), ("news",), ("hooks", "news")])
sizes, lives = st.sampled_from([2, 700, 2_000]), st.sampled_from([1, 1, 3, None])
places = st.integers(0, 20)
slugs = st.sampled_from(["agent.a", "agent.b", "machine.m", "hooks"]) | st.sampled_from(INBOXES)


class Writers(RuleBasedStateMachine):
    """The server and the model side by side. `loop` and `kind` (of the store) are set by the test."""

    loop: LoopThread
    kind: str

    def __init__(self) -> None:
        super().__init__()
        self.house = House(START_US, MAX_BATCH, ROW_BYTES)
        self.scene = Scene(self.loop, self.kind, lambda: self.house.now)
        self.ledgers = {name: Ledger() for name in AGENTS}
        self.letters: list[tuple[str | None, dict[str, Any], bytes]] = []
        self.for_the_dead: set[bytes] = set()
        self.scene.start()
        self.loop.run(self._found)

    async def _found(self) -> None:
        world = self.scene.world
        for slug, kind in ORIGINS.items():
            await self.scene.make_inbox(slug, kind)  # type: ignore[arg-type]  # they are kinds
            self.house.box(slug, kind)
        for name in MACHINES:
            await world.machines.create(name, InboxSettings())
            self.house.box(f"machine.{name}", "machine")
        for name, one in TOKENS.items():
            self.house.tokens[name] = Token(one.agent, one.machine, one.inboxes)
        for name, machine in AGENTS.items():
            await self.scene.make_agent(name, machine, self._scopes(name))
            self.house.box(f"agent.{name}", "agent")
            self.house.machines[name] = machine
        await self.scene.make_token("m all", "machine", inboxes=TOKENS["m all"].inboxes, machine="m")
        await self.scene.make_token("admin", "admin", inboxes=None)

    def _scopes(self, agent: str) -> dict[str, tuple[str, ...] | None]:
        return {name: one.inboxes for name, one in self.house.tokens.items() if one.agent == agent}

    def teardown(self) -> None:
        self.scene.stop()
        try:
            assert self.scene.findings() == ()
        finally:
            self.scene.remove()

    def visible(self, token: str) -> frozenset[str] | None:
        """Return what a token sees, as the server says it: the same as the model."""
        visible = self.scene.principal(token).visible
        assert visible == self.house.tokens[token].visible
        return visible

    @initialize(
        hooks=st.integers(1, 3),
        senders=st.lists(st.none() | agents, min_size=1, max_size=3),
        ttls=st.lists(lives, max_size=3),
        listening=st.sets(agents),
    )
    def begin_with_some_mail(
        self, hooks: int, senders: list[str | None], ttls: list[int | None], listening: set[str]
    ) -> None:
        """Some listen to everything, and have heard of something."""
        for name in sorted(listening):
            self.place_a_beacon(name, "one", (), (), 1.0, False)
        self.hook(["push"] * hooks, 2, False)
        for sender in senders:
            self.broadcast(sender, "m", 2, "nothing")
            self.tell(sender, "a", 2)
        for ttl in ttls:
            self.publish("c", "commons", "note", 2, 0.5, ttl, False)
            self.publish("c", ["a", "b"], "note", 2, 0.5, ttl, False)
        self.route()
        self.begun()

    def begun(self) -> None:
        """Do what is to be done first."""

    # -- what is written ----------------------------------------------------------------------------------
    @rule(
        kinds=st.lists(st.sampled_from(["push", "ping"]), min_size=1, max_size=4),
        size=sizes,
        routed=st.booleans(),
    )
    def hook(self, kinds: list[str], size: int, routed: bool) -> None:
        for kind in kinds:
            id = self.scene.do(self.scene.hook, "hooks", kind, size)
            self.house.at_home(self.house.message(id, kind, size=size), "hooks")
        if routed:
            self.route()

    @rule(
        sender=agents,
        to=st.sampled_from(["news", "commons"]) | st.lists(agents, min_size=1, max_size=3, unique=True),
        kind=st.sampled_from(["note", "alert"]),
        size=sizes,
        salience=st.sampled_from([0.0, 0.5, 1.0]),
        ttl=lives,
        routed=st.booleans(),
    )
    def publish(
        self,
        sender: str,
        to: str | list[str],
        kind: str,
        size: int,
        salience: float,
        ttl: int | None,
        routed: bool,
    ) -> None:
        expires_at = None if ttl is None else self.house.now + ttl * STEP_US
        where = {"to_inbox": to} if isinstance(to, str) else {"to_agents": tuple(to)}
        publish = partial(self.scene.do, self.scene.publish, sender, kind, size, salience, **where)
        if not isinstance(to, str) and any(AGENTS[name] != AGENTS[sender] for name in to):
            with pytest.raises(Refusal, match="no agent"):
                publish(machines=frozenset({AGENTS[sender]}))
        id = publish(expires_at=expires_at, machines=frozenset(MACHINES))
        message = self.house.message(
            id, kind, sender=sender, size=size, salience=salience, expires_at=expires_at
        )
        if isinstance(to, str):
            self.house.at_home(message, to)
        else:
            self.house.send(message, to)
        if routed:
            self.route()

    @rule(sender=st.none() | agents, to=agents, size=sizes)
    def tell(self, sender: str | None, to: str, size: int) -> None:
        if sender is not None and AGENTS[sender] != AGENTS[to]:
            with pytest.raises(Refusal, match="not to be reached"):
                self._send(
                    sender, size, machine=AGENTS[to], to_agent=to, reachable=frozenset({AGENTS[sender]})
                )
        sent = self._send(sender, size, machine=AGENTS[to], to_agent=to)
        assert sent.delivered_to == (to,)
        message = self._written(sent.id, sender, size)
        self.house.send(message, [to])

    @rule(
        sender=st.none() | agents,
        machine=st.sampled_from(MACHINES),
        size=sizes,
        then=st.sampled_from(["erased", "routed", "routed", "nothing"]),
    )
    def broadcast(self, sender: str | None, machine: str, size: int, then: str) -> None:
        """`erased`: by the administrator, before the router comes to it."""
        others = [name for name in self.house.on(machine) if name != sender]
        to = [name for name in others if name not in self.house.left]
        if not to:
            with pytest.raises(Refusal, match="nothing was stored"):
                self._send(sender, size, machine=machine)
            return
        sent = self._send(sender, size, machine=machine)
        assert sent.delivered_to == tuple(to)
        assert [one.agent_id for one in sent.skipped] == [name for name in others if name not in to]
        message = self._written(sent.id, sender, size)
        self.house.broadcast(message, machine, to)
        if then == "erased":
            self.erase(f"machine.{machine}", 0)
        elif then == "routed":
            self.route()

    def _send(self, sender: str | None, size: int, **fields: Any) -> Any:
        fields |= {"key": b"%d" % len(self.house.log)}
        sent = self.scene.do(self.scene.send, sender, size, **fields)
        self.letters.append((sender, {"size": size, **fields}, sent.id))
        return sent

    def _written(self, id: bytes, sender: str | None, size: int) -> Message:
        author = None if sender is None else self.house.of(sender)
        return self.house.message(id, "note", sender=sender, size=size, listed_by=author)

    @precondition(lambda self: self.letters)
    @rule(which=places)
    def send_the_same_again(self, which: int) -> None:
        """What went to an agent that was made anew since then is not what its name means now."""
        sender, fields, id = self.letters[which % len(self.letters)]
        if id in self.for_the_dead:
            with pytest.raises(Refusal, match="another request"):
                self.scene.do(self.scene.send, sender, **fields)
            return
        again = self.scene.do(self.scene.send, sender, **fields)
        assert (again.id, again.duplicate) == (id, True)

    # -- who hears of it ----------------------------------------------------------------------------------
    @rule(
        agent=agents,
        name=st.sampled_from(["one", "two"]),
        inboxes=st.sampled_from([(), ("hooks",), ("news", "commons")]),
        kinds=st.sampled_from([(), ("webhook",), ("note",)]),
        weight=st.sampled_from([0.2, 1.0]),
        late=st.booleans(),
    )
    def place_a_beacon(
        self,
        agent: str,
        name: str,
        inboxes: tuple[str, ...],
        kinds: tuple[str, ...],
        weight: float,
        late: bool,
    ) -> None:
        """`late`: something has just come, and is routed after that."""
        if late:
            self.hook(["push"], 2, False)
        wishes = {"inboxes": inboxes, "kinds": kinds, "weight": weight, "min_score": 0.68}
        visible = self.house.tokens[agent].visible
        self.scene.do(self.scene.place, agent, name, visible, **wishes)
        before = self.house.beacons.get((agent, name))
        after = len(self.house.log) if before is None else before.after
        self.house.beacons[agent, name] = Beacon(inboxes, kinds, weight, 0.68, after)
        if late:
            self.route()

    @rule(agent=agents, name=st.sampled_from(["one", "two"]))
    def remove_a_beacon(self, agent: str, name: str) -> None:
        removed = self.scene.do(self.scene.remove_beacon, agent, name)
        assert removed == (self.house.beacons.pop((agent, name), None) is not None)

    @rule()
    def route(self) -> None:
        self.scene.do(self.scene.route, crash=False)
        self.house.route()

    @rule(slug=st.none() | st.sampled_from([f"agent.{name}" for name in AGENTS]), which=places)
    def crash_while_routing(self, slug: str | None, which: int) -> None:
        """All is delivered, and how far the router came is perhaps not stored. Something is erased, and not again."""
        self.scene.do(self.scene.route, crash=True)
        self.house.route()
        self.scene.crash()
        self.scene.start()
        stored = self.scene.do(self.scene.routed)
        assert stored <= self.house.routed
        self.house.routed = stored
        if slug is not None:
            self.erase(slug, which)
            self.route()

    @rule(token=st.sampled_from(sorted(TOKENS)), inboxes=scopes)
    def change_the_scope(self, token: str, inboxes: tuple[str, ...] | None) -> None:
        self.scene.do(self.scene.rescope, token, inboxes)
        self.house.tokens[token].inboxes = inboxes

    @rule(agent=agents, here=st.booleans())
    def come_or_go(self, agent: str, here: bool) -> None:
        if here:
            visible = self.visible(agent)
            arrived = self.scene.do(self.scene.arrive, agent, visible)
            assert arrived.unread == len(self.house.of(agent).unacked(visible))
            self.house.left.discard(agent)
        else:
            self.scene.do(self.scene.leave, agent)
            self.house.left.add(agent)

    # -- what is tidied up --------------------------------------------------------------------------------
    @rule(slug=slugs, most=st.none() | st.integers(1, 8), swept=st.booleans())
    def set_retention(self, slug: str, most: int | None, swept: bool) -> None:
        self.scene.do(self.scene.retain, slug, most)
        self.house.boxes[slug].most = most
        self.house.boxes[slug].trim()
        if swept:
            self.sweep()

    @rule(slug=slugs, swept=st.booleans())
    def purge(self, slug: str, swept: bool) -> None:
        self.scene.do(self.scene.purge, slug)
        self.house.boxes[slug].purge()
        if swept:
            self.sweep()

    @rule(slug=slugs, which=places)
    def erase(self, slug: str, which: int) -> None:
        box = self.house.boxes[slug]
        kept = sorted(box.rows)
        if not kept:
            with pytest.raises(Refusal):
                self.scene.do(self.scene.erase, slug, which)
            return
        seq = kept[-1 - which % len(kept)]
        self.scene.do(self.scene.erase, slug, seq)
        message = box.message(seq)
        if message.home is box:
            for other in self.house.boxes.values():
                for at in [at for at in other.rows if other.message(at) is message and other is not box]:
                    other.erase(at)
        box.erase(seq)

    @rule(slug=st.sampled_from(sorted(ORIGINS)))
    def make_an_inbox_anew(self, slug: str) -> None:
        self.scene.do(self.scene.make_inbox, slug, ORIGINS[slug])
        self.house.box(slug, ORIGINS[slug])

    @rule(agent=agents)
    def make_an_agent_anew(self, agent: str) -> None:
        self.scene.do(self.scene.make_agent, agent, AGENTS[agent], self._scopes(agent))
        self.house.renew(agent)
        self.ledgers[agent] = Ledger()
        self.letters = [one for one in self.letters if one[0] != agent]
        self.for_the_dead.update(id for _, fields, id in self.letters if fields.get("to_agent") == agent)

    @rule()
    def sweep(self) -> None:
        self.scene.do(self.scene.sweep)
        self.house.sweep()

    @rule(steps=st.sampled_from([1, 2, 3, -1]))
    def let_time_pass(self, steps: int) -> None:
        """Or set the clock back."""
        self.house.now += steps * STEP_US

    @rule(crash=st.booleans(), drowsy=st.booleans())
    def restart(self, crash: bool, drowsy: bool) -> None:
        if crash:
            self.scene.crash()
        else:
            self.scene.stop()
        self.scene.start(drowsy=drowsy)
