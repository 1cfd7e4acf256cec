"""How many hear of a message, and how much a beacon brings in a day."""

from hypothesis import given
from hypothesis import strategies as st

from actors.rules.allowance import DAY_US, Count, Tally, admitted
from actors.rules.matching.beacons import Key
from actors.rules.matching.scoring import Match, by_agent

MOST = 10_000
NONE: dict[Key, Count] = {}


def tally(known: dict[Key, Count] | None = None, per_day: int = 3) -> Tally:
    counts = known or {}
    return Tally(lambda key: counts.get(key, Count()), per_day)


def match(agent: str, name: str = "b", score: float = 0.5) -> Match:
    return Match(agent, name, score)


def test_a_beacon_brings_its_share_of_a_day_and_what_is_over_is_counted() -> None:
    counting = tally()
    heard = [len(admitted([match("ada")], day * DAY_US + 5, counting, MOST)) for day in (4, 4, 4, 4, 4)]
    assert heard == [1, 1, 1, 0, 0]
    assert dict(counting.counts()) == {("ada", "b"): Count(4, 3, 2)}
    assert list(counting.added()) == [(("ada", "b"), 4, 3, 2)]
    assert counting.overflow == 2


def test_the_next_day_of_the_messages_begins_anew() -> None:
    counting = tally({("ada", "b"): Count(4, 3, 7)})
    assert not admitted([match("ada")], 5 * DAY_US - 1, counting, MOST)
    assert admitted([match("ada")], 5 * DAY_US, counting, MOST)
    assert dict(counting.counts()) == {("ada", "b"): Count(5, 1, 0)}
    assert list(counting.added()) == [(("ada", "b"), 4, 0, 1), (("ada", "b"), 5, 1, 0)]


def test_a_message_of_an_earlier_day_counts_for_the_present_one() -> None:
    counting = tally({("ada", "b"): Count(9, 3, 0)})
    assert not admitted([match("ada")], 2 * DAY_US, counting, MOST)
    assert list(counting.added()) == [(("ada", "b"), 9, 0, 1)]


def test_a_beacon_that_has_brought_its_share_leaves_the_message_to_the_agent_s_others() -> None:
    counting = tally({("ada", "full"): Count(0, 3, 0)})
    (heard,) = admitted([match("ada", "full", 0.9), match("ada", "b", 0.6)], 0, counting, MOST)
    assert (heard.best.name, heard.also) == ("b", ())
    assert dict(counting.counts()) == {("ada", "full"): Count(0, 3, 1), ("ada", "b"): Count(0, 1, 0)}


def test_every_beacon_that_takes_part_has_brought_the_message() -> None:
    counting = tally()
    (heard,) = admitted([match("ada", "b", 0.6), match("ada", "a", 0.9)], 0, counting, MOST)
    assert (heard.best.name, [other.name for other in heard.also]) == ("a", ["b"])
    assert dict(counting.counts()) == {("ada", "a"): Count(0, 1, 0), ("ada", "b"): Count(0, 1, 0)}


def test_the_best_matches_hear_of_a_message_that_more_would_hear_of_than_may() -> None:
    counting = tally()
    matches = [match("ada", score=0.5), match("ben", score=0.9), match("cleo", score=0.7)]
    heard = admitted(matches, 0, counting, 2)
    assert [one.agent_id for one in heard] == ["ben", "cleo"]
    assert dict(counting.counts())["ada", "b"] == Count(0, 0, 1)
    assert counting.overflow == 1


def test_counting_does_not_change_what_is_known() -> None:
    known = {("ada", "b"): Count(1, 2, 3)}
    admitted([match("ada")], DAY_US, tally(known), MOST)
    assert known == {("ada", "b"): Count(1, 2, 3)}


agents = st.sampled_from("abc")
names = st.sampled_from("xyz")
messages = st.lists(st.tuples(st.integers(0, 3), st.sets(st.tuples(agents, names), max_size=6)), max_size=30)


@given(messages, st.integers(1, 4), st.integers(1, 3))
def test_whatever_comes_nothing_is_brought_that_was_not_matched_and_every_match_is_counted_once(
    stream: list[tuple[int, set[Key]]], per_day: int, recipients: int
) -> None:
    counting = tally(per_day=per_day)
    brought = kept_back = 0
    for day, keys in sorted(stream, key=lambda one: one[0]):
        matches = [match(*key) for key in sorted(keys)]
        heard = admitted(matches, day * DAY_US, counting, recipients)
        assert len(heard) <= recipients
        named = {(one.agent_id, hit.name) for one in heard for hit in (one.best, *one.also)}
        assert named <= keys
        brought += len(named)
        kept_back += len(keys) - len(named)
    added = list(counting.added())
    assert sum(more[2] for more in added) == brought
    assert sum(more[3] for more in added) == kept_back == counting.overflow
    assert all(more[2] <= per_day for more in added)


@given(st.lists(st.builds(match, agents, names, st.floats(0, 1)), unique_by=lambda m: (m.agent_id, m.name)))
def test_without_limits_all_hear_of_it_that_match(matches: list[Match]) -> None:
    assert admitted(matches, 0, tally(per_day=MOST), MOST) == by_agent(matches)
