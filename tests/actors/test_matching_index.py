"""The index finds what a look at every beacon finds, no more and no less."""

import random
from collections.abc import Sequence
from itertools import combinations

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from actors.rules.matching.beacons import Beacon, Spec, beacon_of
from actors.rules.matching.common import WORN_WORDS
from actors.rules.matching.index import MatchIndex
from actors.rules.matching.judging import MatchInput
from actors.rules.matching.scoring import Match
from actors.rules.matching.shelves import MOST_SHELVES, Shelves
from actors.rules.matching.weights import weight_of
from tests.actors import corpus
from tests.actors.matching_model import brute_force
from tests.actors.synthetic import Synthetic, as_input

TERMS = [*(f"t{number}" for number in range(9)), *sorted(WORN_WORDS)[:3]]
"""Some of them weigh less than the others."""
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
    standing = {beacon.key: beacon for beacon in beacons}.values()
    for message in messages:
        assert index.match(message) == brute_force(standing, message)


class IndexMachine(RuleBasedStateMachine):
    """The index beside a dictionary of beacons, through changes in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.index = MatchIndex()
        self.standing: dict[tuple[str, str], Beacon] = {}

    @rule(beacon=a_beacon())
    def add(self, beacon: Beacon) -> None:
        self.index.add(beacon)
        self.standing[beacon.key] = beacon

    @rule(agent_id=st.sampled_from("ab"), name=st.sampled_from("pqrst"))
    def remove(self, agent_id: str, name: str) -> None:
        there = self.standing.pop((agent_id, name), None)
        assert self.index.remove((agent_id, name)) == (there is not None)

    @rule(message=MESSAGES)
    def match(self, message: MatchInput) -> None:
        assert self.index.match(message) == brute_force(self.standing.values(), message)

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
    index = MatchIndex(beacons)
    found = [index.match(message) for message in corpus.messages()]
    assert found == [brute_force(beacons, message) for message in corpus.messages()]
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
    for message in messages:
        matches = index.match(message)
        assert matches == brute_force(beacons, message)
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
    expected = [one.match(message) for message in messages]
    assert [other.match(message) for message in messages] == expected
    assert [grown.match(message) for message in messages] == expected


# -- what is looked at ------------------------------------------------------------------------------------------


def looked_at(beacons: list[Beacon], message: MatchInput) -> set[str]:
    shelves = Shelves()
    for beacon in beacons:
        shelves.file(beacon, lambda term: 0)  # so by their alphabet
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


def test_a_beacon_that_one_term_is_enough_for_looks_at_messages_with_one_of_its_first() -> None:
    beacons = [spec("b", about="alpha beta")]
    assert [bool(looked_at(beacons, message(term))) for term in ("alpha", "beta")] == [True, True]
    light = [spec("b", about="alpha message")]
    assert [bool(looked_at(light, message(term))) for term in ("alpha", "messag")] == [True, False]


def test_a_beacon_that_needs_two_terms_looks_at_messages_with_two_of_its_first() -> None:
    beacons = [spec("b", about="alpha beta gamma delta epsilon zeta")]
    first = (
        "alpha",
        "beta",
        "delta",
        "epsilon",
        "gamma",
    )  # without the last, and any other, half is out of reach
    for term in (*first, "zeta"):
        assert looked_at(beacons, message(term)) == set()
        assert looked_at(beacons, message(f"zeta {term}")) == set()
    for one, other in combinations(first, 2):
        assert looked_at(beacons, message(f"{one} {other}")) == {"b"}


def test_a_high_threshold_makes_a_beacon_look_less_often() -> None:
    beacons = [spec("b", about="alpha beta gamma delta", min_score=0.85)]
    pairs = [f"{one} {other}" for one, other in combinations(("alpha", "beta", "gamma", "delta"), 2)]
    assert sum(bool(looked_at(beacons, message(pair))) for pair in pairs) == 1


def test_the_terms_that_few_beacons_have_are_its_first() -> None:
    """Of ten thousand beacons about the same thing and one more, hardly any is looked at."""
    names = [f"zz{number}" for number in range(10_000)]
    index = MatchIndex([spec(name, about=f"alpha {name}", min_score=0.6) for name in names])
    index.add(spec("last", about="alpha zzlast", min_score=0.6))
    assert [match.name for match in index.match(message("alpha zz7"))] == ["zz7"]
    assert len(index._shelves.candidates(message("alpha zz7 zzlast other"))) == 2


def test_of_many_terms_the_one_that_most_beacons_have_is_not_looked_for() -> None:
    index = MatchIndex([spec("b", about="alpha beta gamma delta epsilon zeta")])
    index.add(spec("c", about="zeta other"))
    for number in range(3):
        index.add(spec(f"n{number}", about=f"alpha other{number}"))
    index.add(spec("b", about="alpha beta gamma delta epsilon zeta"))
    candidates = index._shelves.candidates
    for pair, found in (("beta zeta", True), ("alpha beta", False), ("alpha zeta", False)):
        assert ("b" in {judge.beacon.name for judge in candidates(message(pair))}) is found, pair


def test_of_two_required_terms_the_one_that_fewer_beacons_have_is_looked_for() -> None:
    index = MatchIndex([spec("n", about="alpha other"), spec("b", require=("alpha", "zulu"))])
    found = {
        term: {judge.beacon.name for judge in index._shelves.candidates(message(term))}
        for term in ("alpha", "zulu")
    }
    assert found == {"alpha": {"n"}, "zulu": {"b"}}


def test_a_term_is_as_common_as_the_beacons_in_force_have_it_for_what_it_weighs() -> None:
    index = MatchIndex([spec("a", about="alpha message"), spec("b", about="alpha beta")])

    def commonness() -> list[float]:
        return [index._rank(term) for term in ("alpha", "beta", "messag", "other")]

    whole, light = weight_of("alpha"), weight_of("messag")
    assert light < whole
    assert commonness() == [2 / whole, 1 / whole, 1 / light, 0]
    index.add(spec("c", about="alpha beta"))
    assert commonness() == [3 / whole, 2 / whole, 1 / light, 0]
    index.add(spec("c", about="beta gamma"))
    assert commonness() == [2 / whole, 2 / whole, 1 / light, 0]
    index.remove(("agent", "b"))
    assert commonness() == [1 / whole, 1 / whole, 1 / light, 0]


def test_a_message_of_a_type_that_no_beacon_names_is_not_worth_reading() -> None:
    index = MatchIndex([spec("b", types=("push",))])
    assert index.covers("ci", "push", "webhook")
    assert not index.covers("ci", "ping", "webhook")
    assert index.get(("agent", "b")) == spec("b", types=("push",))
    assert index.get(("agent", "c")) is None


@pytest.mark.parametrize(
    ("inboxes", "types", "kinds", "places"),
    [
        (0, 0, 0, 1),
        (16, 16, 0, MOST_SHELVES),
        (16, 4, 4, MOST_SHELVES),
        (16, 17, 0, 16),
        (16, 4, 5, 64),
        (300, 0, 0, 300),
        (0, 300, 2, 300),
        (0, 0, 300, 300),
    ],
)
def test_a_beacon_stands_on_so_many_shelves_at_most_or_under_one_filter_alone(
    inboxes: int, types: int, kinds: int, places: int
) -> None:
    def names(count: int) -> tuple[str, ...]:
        return tuple(f"n{number}" for number in range(count))

    shelves = Shelves()
    shelves.file(spec("b", inboxes=names(inboxes), types=names(types), kinds=names(kinds)), lambda term: 0)
    assert len(shelves._shelves) == places


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


# -- changes ----------------------------------------------------------------------------------------------------


def test_what_others_place_and_remove_changes_neither_matches_nor_scores() -> None:
    mine = [spec("m1", about="alpha beta gamma"), spec("m2", about="alpha delta")]
    texts = ("alpha beta", "gamma delta", "alpha", "delta other", "alpha beta gamma delta")
    index = MatchIndex(mine)
    alone = [index.match(message(text)) for text in texts]
    others = [beacon_of(f"other-{number}", Spec("o", about="alpha beta delta")) for number in range(1_000)]
    for other in others:
        index.add(other)
    assert [own(index.match(message(text))) for text in texts] == alone
    for other in others:
        assert index.remove(other.key)
    assert [index.match(message(text)) for text in texts] == alone


def own(matches: list[Match]) -> list[Match]:
    return [match for match in matches if match.agent_id == "agent"]


def test_beacons_that_nothing_can_reach_come_and_go() -> None:
    """No call makes them, but one that is stored may be older than the rule."""
    deaf = [Beacon("a", name, ("alpha", "beta"), ("alpha", "beta"), min_score=1.0) for name in "xy"]
    index = MatchIndex(deaf)
    assert index.match(message("alpha beta")) == []
    assert [index.remove(beacon.key) for beacon in deaf] == [True, True]


def test_replacing_a_beacon_leaves_nothing_of_the_old_one() -> None:
    index = MatchIndex([spec("b", about="alpha beta")])
    index.add(spec("b", about="gamma delta"))
    assert len(index) == 1
    assert not index.match(message("alpha beta"))
    assert index.match(message("gamma"))
    assert index.remove(("agent", "b"))
    assert not index.match(message("gamma delta"))
