"""The index finds what a look at every beacon finds, no more and no less."""

import random
from collections.abc import Sequence
from functools import cache

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from actors.rules.matching.beacons import Beacon, Spec, beacon_of
from actors.rules.matching.index import MatchIndex
from actors.rules.matching.judging import Judge, MatchInput
from actors.rules.matching.shelves import MOST_SHELVES, Shelves
from actors.rules.matching.weights import Weights
from tests.actors import corpus
from tests.actors.matching_model import brute_force, weights_of
from tests.actors.synthetic import Synthetic, as_input

TERMS = [f"t{number}" for number in range(12)]
INBOXES, TYPES, KINDS = ("ci", "pay", "shop"), ("push", "ping", ""), ("webhook", "note")
HUNDREDTHS = st.integers(0, 100).map(lambda number: number / 100)


def some(values: Sequence[str], most: int, least: int = 0) -> st.SearchStrategy[frozenset[str]]:
    return st.lists(st.sampled_from(values), min_size=least, max_size=most).map(frozenset)


@st.composite
def a_beacon(draw: st.DrawFn) -> Beacon:
    terms = tuple(draw(st.lists(st.sampled_from(TERMS), max_size=6, unique=True)))
    return Beacon(
        agent_id=draw(st.sampled_from("ab")),
        name=draw(st.sampled_from("pqrst")),
        terms=terms,
        shown=tuple(term.upper() for term in terms),
        inboxes=draw(st.one_of(st.just(frozenset()), some(INBOXES, 2))),
        types=draw(st.one_of(st.just(frozenset()), some(TYPES, 2))),
        kinds=draw(st.one_of(st.just(frozenset()), some(KINDS, 2))),
        require=draw(st.one_of(st.just(frozenset()), some(TERMS, 2))),
        exclude=tuple(draw(st.lists(some(TERMS, 2, least=1), max_size=1))),
        min_score=draw(st.one_of(st.just(0.45), HUNDREDTHS)),
        weight=draw(st.one_of(st.just(1.0), HUNDREDTHS)),
        placed_mid=draw(st.integers(0, 2)),
        expires_at=draw(st.one_of(st.none(), st.integers(0, 3))),
    )


MESSAGES = st.builds(
    MatchInput,
    mid=st.integers(1, 3),
    received_at=st.integers(0, 3),
    inbox=st.sampled_from(INBOXES),
    event_type=st.sampled_from(TYPES),
    kind=st.sampled_from(KINDS),
    salience=st.one_of(st.just(0.5), HUNDREDTHS),
    terms=some(TERMS, 9),
)


@settings(deadline=None)
@given(st.lists(a_beacon(), max_size=10), st.lists(MESSAGES, max_size=6))
def test_it_equals_brute_force(beacons: list[Beacon], messages: list[MatchInput]) -> None:
    index = MatchIndex(beacons)
    standing = list({beacon.key: beacon for beacon in beacons}.values())
    weight = weights_of(standing)
    for message in messages:
        assert index.match(message) == brute_force(standing, message, weight)


class IndexMachine(RuleBasedStateMachine):
    """The index beside a dictionary of beacons, through changes in any order and weighings half done."""

    def __init__(self) -> None:
        super().__init__()
        self.index = MatchIndex(step=1)
        self.standing: dict[tuple[str, str], Beacon] = {}

    @rule(beacon=a_beacon())
    def add(self, beacon: Beacon) -> None:
        self.index.add(beacon)
        self.standing[beacon.key] = beacon

    @rule(agent_id=st.sampled_from("ab"), name=st.sampled_from("pqrst"))
    def remove(self, agent_id: str, name: str) -> None:
        there = self.standing.pop((agent_id, name), None)
        assert self.index.remove((agent_id, name)) == (there is not None)

    @rule()
    def weigh(self) -> None:
        self.index.weigh()
        weight = weights_of(self.standing.values())
        assert not self.index.weighing
        assert all(self.index.weights.of(term) == weight(term) for term in TERMS)

    @rule(beacons=st.integers(1, 3))
    def advance(self, beacons: int) -> None:
        self.index.advance(beacons)

    @rule(message=MESSAGES)
    def match(self, message: MatchInput) -> None:
        expected = brute_force(self.standing.values(), message, self.index.weights.of)
        assert self.index.match(message) == expected

    @invariant()
    def it_holds_what_was_added(self) -> None:
        assert {key: self.index.get(key) for key in self.index} == self.standing
        assert len(self.index) == len(self.standing)
        assert all(key in self.index for key in self.standing)


def test_it_equals_brute_force_through_any_changes() -> None:
    run_state_machine_as_test(
        IndexMachine, settings=settings(max_examples=60, stateful_step_count=30, deadline=None)
    )


def test_it_equals_brute_force_on_every_message_of_the_corpus() -> None:
    beacons = corpus.beacons()
    weight = weights_of(beacons)
    known = {term: weight(term) for beacon in beacons for term in beacon.terms}
    index = MatchIndex(beacons)
    found = [index.match(message) for message in corpus.messages()]
    assert found == [brute_force(beacons, message, known.__getitem__) for message in corpus.messages()]
    assert sum(map(len, found)) > 100


def test_it_equals_brute_force_on_ten_thousand_beacons() -> None:
    source = Synthetic(1)
    beacons = [source.beacon() for _ in range(10_000)]
    assert_equal_to_brute_force(beacons, [as_input(source.text(), mid) for mid in range(1, 26)])


def test_it_equals_brute_force_on_ten_thousand_beacons_with_every_kind_of_wish() -> None:
    source = Synthetic(2)
    beacons = [varied(source.beacon(), source.random) for _ in range(10_000)]
    assert_equal_to_brute_force(beacons, [as_input(source.text(), mid) for mid in range(1, 26)])


def assert_equal_to_brute_force(beacons: list[Beacon], messages: list[MatchInput]) -> None:
    index = MatchIndex(beacons)
    weight = cache(index.weights.of)
    for message in messages:
        matches = index.match(message)
        assert matches == brute_force(beacons, message, weight)
        assert matches


def varied(beacon: Beacon, rng: random.Random) -> Beacon:
    """Return a beacon with wishes beside its terms, one in twenty without terms."""
    first, *_, last = beacon.terms
    rare = rng.random() < 0.05
    return msgspec.structs.replace(
        beacon,
        terms=() if rare else beacon.terms,
        shown=() if rare else beacon.shown,
        inboxes=frozenset(rng.choice([(), (), (), ("commons",), ("ci", "commons"), ("ci",)])),
        types=frozenset(rng.choice([(), (), (), ("note",), ("push",)])),
        kinds=frozenset(rng.choice([(), (), (), ("note", "alert"), ("task",)])),
        require=frozenset(rng.choice([(), (), (), (first,), (last,)])),
        exclude=rng.choice([(), (), (frozenset((last,)),), (frozenset((first, last)),)]),
        min_score=rng.choice([0.45, 0.45, 0.55, 0.7, 0.8]),
        weight=rng.choice([1.0, 1.0, 0.5, 0.0]),
        placed_mid=rng.choice([0, 0, 0, 12]),
        expires_at=rng.choice([None, None, 20]),
    )


def test_the_order_in_which_beacons_came_makes_no_difference() -> None:
    source = Synthetic(3)
    beacons = [source.beacon() for _ in range(300)]
    messages = [as_input(source.text()) for _ in range(30)]
    one, other, grown = MatchIndex(beacons), MatchIndex(beacons[::-1]), MatchIndex()
    for beacon in beacons:
        grown.add(beacon)
    grown.weigh()
    expected = [one.match(message) for message in messages]
    assert [other.match(message) for message in messages] == expected
    assert [grown.match(message) for message in messages] == expected


# -- what is looked at ------------------------------------------------------------------------------------------


def looked_at(beacons: list[Beacon], message: MatchInput) -> set[str]:
    shelves = Shelves(Weights())
    for beacon in beacons:
        shelves.file(beacon)
    return {judge.beacon.name for judge in shelves.candidates(message)}


def message(
    terms: str = "", inbox: str = "ci", event_type: str = "push", kind: str = "webhook"
) -> MatchInput:
    return MatchInput(1, 1, inbox, event_type, kind, 0.5, frozenset(terms.split()))


def spec(name: str, **wishes: object) -> Beacon:
    return beacon_of("agent", Spec(name, **wishes))  # type: ignore[arg-type]  # each test names its own fields


@given(st.lists(a_beacon(), max_size=10), st.lists(MESSAGES, max_size=6))
def test_what_a_beacon_matches_is_worth_reading_and_what_none_names_is_not(
    beacons: list[Beacon], messages: list[MatchInput]
) -> None:
    index = MatchIndex(beacons)
    for one in messages:
        if index.match(one):
            assert index.covers(one.inbox, one.event_type, one.kind)
    if all(beacon.inboxes for beacon in beacons):
        assert not index.covers("elsewhere", "push", "webhook")


def test_of_ten_thousand_subscriptions_only_those_of_the_message_are_looked_at() -> None:
    beacons = [spec(f"inbox-{number}", inboxes=(f"in-{number}",)) for number in range(5_000)]
    beacons += [spec(f"type-{number}", types=(f"type-{number}",)) for number in range(5_000)]
    beacons += [
        spec("kind", kinds=("note",)),
        spec("everything"),
        spec("all", inboxes=("in-7",), types=("type-7",)),
    ]
    assert looked_at(beacons, message(inbox="in-7", event_type="type-7")) == {
        "inbox-7",
        "type-7",
        "everything",
        "all",
    }


def test_of_ten_thousand_beacons_about_the_same_only_those_for_the_inbox_are_looked_at() -> None:
    beacons = [
        spec(f"b{number}", about="deploy failed", inboxes=(f"in-{number}",)) for number in range(10_000)
    ]
    assert looked_at(beacons, message("deploy fail", inbox="in-7")) == {"b7"}


def test_a_message_without_the_first_terms_of_a_beacon_does_not_make_it_look() -> None:
    beacons = [spec("b", about="alpha beta gamma delta")]
    weight = Weights()
    filed_under = list(Judge(beacons[0], weight).weights)[
        :3
    ]  # three of four equal ones: the fourth is too little
    for term in ("alpha", "beta", "gamma", "delta"):
        assert looked_at(beacons, message(term)) == ({"b"} if term in filed_under else set())


def test_a_high_threshold_makes_a_beacon_look_less_often() -> None:
    beacons = [spec("b", about="alpha beta gamma delta", min_score=0.85)]
    assert sum(bool(looked_at(beacons, message(term))) for term in ("alpha", "beta", "gamma", "delta")) == 1


def test_a_required_term_spares_the_look_at_messages_without_it() -> None:
    beacons = [spec("b", about="alpha beta gamma", require=("zulu",)), spec("s", require=("zulu",))]
    assert looked_at(beacons, message("alpha beta gamma")) == set()
    assert looked_at(beacons, message("zulu")) == {"b", "s"}


def test_a_beacon_that_names_very_many_combinations_is_still_exact() -> None:
    names = tuple(f"n{number}" for number in range(40))
    beacon = spec("b", inboxes=names, types=names, kinds=names)
    assert len(names) ** 2 > MOST_SHELVES
    index = MatchIndex([beacon])
    assert index.match(message(inbox="n1", event_type="n2", kind="n3"))
    assert not index.match(message(inbox="n1", event_type="n2", kind="note"))
    assert not index.match(message(inbox="n1", event_type="push", kind="n3"))
    assert not index.match(message(inbox="ci", event_type="n2", kind="n3"))


# -- weighings --------------------------------------------------------------------------------------------------


def test_a_few_beacons_are_weighed_with_every_change() -> None:
    index = MatchIndex()
    beacons = [
        spec(f"b{number}", about=about) for number, about in enumerate(("alpha beta", "alpha gamma", "delta"))
    ]
    for number, beacon in enumerate(beacons, 1):
        index.add(beacon)
        weight = weights_of(beacons[:number])
        assert all(index.weights.of(term) == weight(term) for term in ("alpha", "beta", "gamma", "delta"))
    index.remove(("agent", "b2"))
    assert index.weights.of("alpha") == weights_of(beacons[:2])("alpha")


def test_many_beacons_are_weighed_when_a_tenth_of_them_has_changed() -> None:
    index = MatchIndex([spec(f"b{number}", about=f"alpha word{number}") for number in range(100)], version=7)
    assert index.weights.version == 8
    for number in range(100, 109):
        index.add(spec(f"b{number}", about=f"alpha word{number}"))
        assert (index.weights.version, index.weights.beacons) == (8, 100)
    index.remove(("agent", "b0"))
    assert (index.weights.version, index.weights.beacons) == (9, 108)


def test_a_large_set_is_weighed_over_several_changes_and_all_at_once_in_force() -> None:
    index = MatchIndex([spec(f"b{number}", about=f"alpha word{number}") for number in range(1_000)], step=300)
    before = index.weights
    for number in range(100):
        index.add(spec(f"c{number}", about=f"alpha other{number}"))
    assert index.weighing
    for _ in range(2):
        assert index.weights is before
        index.remove(("agent", f"b{_}"))
    assert index.weighing
    index.remove(("agent", "b5"))
    assert not index.weighing
    assert (index.weights.version, index.weights.beacons, len(index)) == (2, 1_100, 1_097)
    index.advance(10)
    assert index.weights.version == 2


def test_what_changes_during_a_weighing_is_there_once_afterwards() -> None:
    beacons = [spec(f"b{number}", about=f"alpha word{number}") for number in range(8)]
    index = MatchIndex(beacons, step=1)
    index.remove(("agent", "b0"))  # begins the weighing
    for number in range(1, 4):
        index.add(spec(f"b{number}", about=f"alpha other{number}"))
    index.remove(("agent", "b4"))
    assert index.weighing
    index.advance(10)
    assert not index.weighing
    matches = index.match(message(" ".join(f"alpha word{number} other{number}" for number in range(8))))
    assert sorted(match.name for match in matches) == ["b1", "b2", "b3", "b5", "b6", "b7"]
    assert all(index.remove(("agent", f"b{number}")) for number in (1, 2, 3, 5, 6, 7))
    assert not index.match(message("alpha"))


def test_replacing_a_beacon_leaves_nothing_of_the_old_one() -> None:
    index = MatchIndex([spec("b", about="alpha beta")])
    index.add(spec("b", about="gamma delta"))
    assert len(index) == 1
    assert not index.match(message("alpha beta"))
    assert index.match(message("gamma"))
    assert index.remove(("agent", "b"))
    assert not index.match(message("gamma delta"))
