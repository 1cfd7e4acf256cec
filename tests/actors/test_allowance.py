"""How many hear of a message, and how much a beacon brings in a day."""

from hypothesis import given
from hypothesis import strategies as st

from actors.rules.allowance import DAY_US, Count, Tally, admitted
from actors.rules.matching.beacons import Key
from actors.rules.matching.scoring import Match, by_agent

MOST = 10_000


class Book(dict[Key, Count]):
    """Counts of beacons, with a tally of them that allows three a day."""

    def tally(self, per_day: int = 3) -> Tally:
        return Tally(self, per_day)


def match(agent: str, name: str = "b", score: float = 0.5) -> Match:
    return Match(agent, name, score)


ADA = ("ada", "b")


def test_a_beacon_brings_its_share_of_a_day_and_what_is_over_is_counted() -> None:
    book = Book()
    counting = book.tally()
    heard = [len(admitted([match("ada")], day * DAY_US + 5, counting, MOST)) for day in (4, 4, 4, 4, 4)]
    assert heard == [1, 1, 1, 0, 0]
    assert book == {ADA: Count(4, 3, 2)}
    assert counting.added() == [(ADA, 4, 3, 2)]
    assert counting.overflow == 2


def test_the_next_day_of_the_messages_begins_anew() -> None:
    book = Book({ADA: Count(4, 3, 7)})
    counting = book.tally()
    assert not admitted([match("ada")], 5 * DAY_US - 1, counting, MOST)
    assert admitted([match("ada")], 5 * DAY_US, counting, MOST)
    assert book == {ADA: Count(5, 1, 0)}
    assert counting.added() == [(ADA, 4, 0, 1), (ADA, 5, 1, 0)]


def test_a_message_of_an_earlier_day_counts_for_the_present_one() -> None:
    counting = Book({ADA: Count(9, 3, 0)}).tally()
    assert not admitted([match("ada")], 2 * DAY_US, counting, MOST)
    assert counting.added() == [(ADA, 9, 0, 1)]


def test_a_beacon_that_has_brought_its_share_leaves_the_message_to_the_agent_s_others() -> None:
    book = Book({("ada", "full"): Count(0, 3, 0)})
    (heard,) = admitted([match("ada", "full", 0.9), match("ada", "b", 0.6)], 0, book.tally(), MOST)
    assert (heard.best.name, heard.also) == ("b", ())
    assert book == {("ada", "full"): Count(0, 3, 1), ADA: Count(0, 1, 0)}


def test_every_beacon_that_takes_part_has_brought_the_message() -> None:
    book = Book()
    (heard,) = admitted([match("ada", "b", 0.6), match("ada", "a", 0.9)], 0, book.tally(), MOST)
    assert (heard.best.name, [other.name for other in heard.also]) == ("a", ["b"])
    assert book == {("ada", "a"): Count(0, 1, 0), ADA: Count(0, 1, 0)}


def test_the_best_matches_hear_of_a_message_that_more_would_hear_of_than_may() -> None:
    book = Book()
    counting = book.tally()
    matches = [match("ada", score=0.5), match("ben", score=0.9), match("cleo", score=0.7)]
    heard = admitted(matches, 0, counting, 2)
    assert [one.agent_id for one in heard] == ["ben", "cleo"]
    assert book[ADA] == Count(0, 0, 1)
    assert counting.overflow == 1


def test_two_pieces_of_work_at_a_time_share_what_is_left_of_a_day() -> None:
    book = Book()
    routing, filling = book.tally(), book.tally()
    filling.brought(ADA, 4, 2)
    assert (routing.room(ADA, 4), filling.room(ADA, 4)) == (1, 1)
    heard = [len(admitted([match("ada")], 4 * DAY_US, routing, MOST)) for _ in range(2)]
    assert heard == [1, 0]
    assert filling.room(ADA, 4) == 0
    assert routing.added() == [(ADA, 4, 1, 1)]
    assert filling.added() == [(ADA, 4, 2, 0)]


def test_what_was_not_brought_after_all_is_taken_back_from_the_day_it_was_counted_for() -> None:
    book = Book({ADA: Count(4, 1, 0)})
    counting = book.tally()
    assert counting.brought(ADA, 3, 2) == 4
    counting.withdrew(ADA, 4, 1)
    assert (book, counting.added()) == ({ADA: Count(4, 2, 0)}, [(ADA, 4, 1, 0)])
    counting.withdrew(ADA, 4, 1)
    assert (book, counting.added()) == ({ADA: Count(4, 1, 0)}, [])


def test_what_is_taken_back_on_the_day_after_leaves_that_day_alone() -> None:
    book = Book()
    counting = book.tally()
    counting.brought(ADA, 4, 2)
    book.tally().brought(ADA, 5)
    counting.withdrew(ADA, 4, 2)
    assert book == {ADA: Count(5, 1, 0)}
    del book[ADA]  # its agent was deleted
    counting.brought(ADA, 5)
    del book[ADA]
    counting.withdrew(ADA, 5, 1)
    assert (book, counting.added()) == ({}, [])


agents = st.sampled_from("abc")
names = st.sampled_from("xyz")
messages = st.lists(st.tuples(st.integers(0, 3), st.sets(st.tuples(agents, names), max_size=6)), max_size=30)


@given(messages, st.integers(1, 4), st.integers(1, 3))
def test_whatever_comes_nothing_is_brought_that_was_not_matched_and_every_match_is_counted_once(
    stream: list[tuple[int, set[Key]]], per_day: int, recipients: int
) -> None:
    counting = Book().tally(per_day)
    brought = kept_back = 0
    for day, keys in sorted(stream, key=lambda one: one[0]):
        matches = [match(*key) for key in sorted(keys)]
        heard = admitted(matches, day * DAY_US, counting, recipients)
        assert len(heard) <= recipients
        named = {(one.agent_id, hit.name) for one in heard for hit in (one.best, *one.also)}
        assert named <= keys
        brought += len(named)
        kept_back += len(keys) - len(named)
    added = counting.added()
    assert sum(more[2] for more in added) == brought
    assert sum(more[3] for more in added) == kept_back == counting.overflow
    assert all(more[2] <= per_day for more in added)


@given(st.lists(st.builds(match, agents, names, st.floats(0, 1)), unique_by=lambda m: (m.agent_id, m.name)))
def test_without_limits_all_hear_of_it_that_match(matches: list[Match]) -> None:
    assert admitted(matches, 0, Book().tally(MOST), MOST) == by_agent(matches)


def test_what_is_withdrawn_was_never_brought_and_what_was_kept_back_stays_so() -> None:
    book = Book({ADA: Count(4, 1, 7)})
    counting = book.tally(per_day=9)
    day = counting.brought(ADA, 4, 3)
    counting.withdrew(ADA, day, 2)
    assert book == {ADA: Count(4, 2, 7)}
    assert counting.added() == [(ADA, 4, 1, 0)]
    book[ADA] = Count(4, 0, 7)
    counting.withdrew(ADA, day, 1)
    assert book == {ADA: Count(4, 0, 7)}, "somebody else took it back already"
    assert counting.added() == []
