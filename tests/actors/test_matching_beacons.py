"""What a beacon means, which ones have no meaning, and which would hear of nearly everything."""

import pytest

from actors.rules.matching.beacons import (
    MAX_TERMS,
    Beacon,
    Spec,
    Unplaceable,
    beacon_of,
    objection,
    words_of,
)
from actors.rules.matching.common import (
    EVERYWHERE,
    FEWEST_TO_JUDGE,
    STOP_WORDS,
    WORN_WORDS,
    Sample,
    too_common,
)
from actors.rules.matching.judging import Judge, MatchInput
from actors.rules.matching.scoring import Heard, Match, best_score, by_agent, ranked, score
from actors.rules.matching.weights import shown_weight
from actors.rules.matching.words import Word, beacon_words


def beacon(about: str | None = None, **wishes: object) -> Beacon:
    return beacon_of("agent", Spec("b", about, **wishes))  # type: ignore[arg-type]  # each test names its own fields


def hears(beacon: Beacon, terms: str, salience: float = 0.5) -> Match | None:
    message = MatchInput(1, 1, "ci", "push", "webhook", salience, frozenset(terms.split()))
    return Judge(beacon).hears(message)


# -- meaning ----------------------------------------------------------------------------------------------------


def test_the_terms_of_a_beacon_are_its_telling_words_in_their_order() -> None:
    placed = beacon("I want to hear about the failed Deployments, or x, of deploy-bot 7 数")
    assert placed.terms == ("fail", "deploy", "bot", "数")
    assert placed.shown == ("failed", "deployments", "bot", "数")
    assert (placed.placed_mid, placed.expires_at) == (0, None)
    assert words_of(placed) == [Word(*pair) for pair in zip(placed.terms, placed.shown, strict=True)]


def test_only_the_first_terms_count() -> None:
    about = " ".join(f"word{number}" for number in range(50))
    assert beacon(about).terms == tuple(f"word{number}" for number in range(MAX_TERMS))
    assert beacon_of("agent", Spec("b", about), max_terms=5).terms == tuple(
        f"word{number}" for number in range(5)
    )


def test_filters_and_times_are_kept() -> None:
    spec = Spec("b", None, ("ci",), ("push", "ping"), ("webhook",), min_score=0.5, weight=0.25)
    placed = beacon_of("agent", spec, placed_mid=7, expires_at=9)
    assert (placed.key, placed.terms, placed.placed_mid, placed.expires_at) == (("agent", "b"), (), 7, 9)
    assert (placed.inboxes, placed.types, placed.kinds) == ({"ci"}, {"push", "ping"}, {"webhook"})
    assert (placed.min_score, placed.weight, placed.names_something) == (0.5, 0.25, True)


def test_required_and_excluded_terms_are_whole_phrases() -> None:
    placed = beacon("alpha", require=("Failed builds", "main"), exclude=("e2e-staging", "draft"))
    assert placed.require == {"fail", "build", "main"}
    assert placed.exclude == (frozenset({"e2e", "stag"}), frozenset({"draft"}))
    held = "alpha fail build main"
    assert hears(placed, held)
    assert not hears(placed, "alpha fail main")
    assert hears(placed, f"{held} e2e")
    assert not hears(placed, f"{held} e2e stag")
    assert not hears(placed, f"{held} draft")
    assert not hears(beacon(exclude=("draft",)), "draft")
    assert hears(beacon(exclude=("draft",)), "draught")


@pytest.mark.parametrize(
    ("about", "wishes", "field"),
    [
        ("", {}, "about"),
        ("  … ", {}, "about"),
        ("the of and which", {}, "about"),
        ("a 7", {"inboxes": ("ci",)}, "about"),
        ("x" * 65, {}, "about"),
        ("alpha", {"require": ("ok", "!")}, "require"),
        ("alpha", {"exclude": ("",)}, "exclude"),
        ("alpha", {"min_score": 0.86}, "min_score"),
        ("alpha", {"weight": 0.2, "min_score": 0.8}, "min_score"),
        (None, {"inboxes": ("ci",), "min_score": 1.01}, "min_score"),
    ],
)
def test_a_beacon_without_a_meaning_is_refused_and_the_field_is_named(
    about: str | None, wishes: dict[str, object], field: str
) -> None:
    with pytest.raises(Unplaceable) as refused:
        beacon(about, **wishes)
    assert refused.value.field == field
    assert refused.value.reason
    assert str(refused.value) == f"{field}: {refused.value.reason}"


@pytest.mark.parametrize(
    ("about", "wishes"),
    [
        ("alpha", {"min_score": 0.85}),
        ("alpha", {"inboxes": ("ci",), "min_score": 1.0}),
        (None, {}),
        (None, {"weight": 0.0}),
    ],
)
def test_a_beacon_that_something_can_reach_is_none_of_these(
    about: str | None, wishes: dict[str, object]
) -> None:
    assert beacon(about, **wishes)


# -- scores -----------------------------------------------------------------------------------------------------


def test_half_of_the_weight_and_nothing_named_is_worth_a_half() -> None:
    match = hears(beacon("alpha beta"), "alpha other")
    assert match == Match("agent", "b", 0.5, ("alpha",))


@pytest.mark.parametrize(
    ("about", "wishes", "terms", "salience", "expected"),
    [
        ("alpha beta", {}, "alpha beta", 0.5, 0.8),
        ("alpha beta", {"inboxes": ("ci",)}, "alpha beta", 0.5, 0.95),
        ("alpha beta", {"types": ("push",)}, "alpha", 1.0, 0.7),
        ("alpha beta", {}, "alpha", 0.0, 0.45),  # 0.3 + 0.15 is less than 0.45 in binary
        ("alpha beta", {"weight": 0.9}, "alpha", 0.0, None),
        ("alpha beta gamma", {}, "alpha", 1.0, None),
        ("alpha beta gamma", {}, "alpha gamma", 0.5, 0.6),
        ("alpha beta", {"min_score": 0.81}, "alpha beta", 0.5, None),
        (None, {}, "", 0.5, 0.8),
        (None, {"kinds": ("webhook",)}, "", 0.0, 0.9),
        (None, {"kinds": ("note",)}, "", 0.5, None),
        (None, {"inboxes": ("pay",)}, "", 0.5, None),
        (None, {"types": ("ping",)}, "", 0.5, None),
    ],
)
def test_scores(
    about: str | None, wishes: dict[str, object], terms: str, salience: float, expected: float | None
) -> None:
    match = hears(beacon(about, **wishes), terms, salience)
    assert (match and match.score) == expected


def test_a_word_that_most_messages_have_counts_for_half() -> None:
    assert (shown_weight("alpha"), shown_weight("messag")) == (1.0, 0.5)
    about = beacon("alpha message")
    assert hears(about, "messag") is None
    assert hears(about, "alpha") == Match("agent", "b", score(2 / 3, 0.5, 0.5), ("alpha",))
    three = beacon("alpha beta message")
    assert hears(three, "alpha") is None
    assert hears(three, "alpha messag") == Match(
        "agent", "b", score(1.5 / 2.5, 0.5, 0.5), ("alpha", "message")
    )


@pytest.mark.parametrize("term", [*sorted(WORN_WORDS)[:3], "alpha", "2024", "数"])
def test_a_term_weighs_the_same_in_every_beacon(term: str) -> None:
    """So a weight says nothing of what anybody has placed."""
    weights = {
        Judge(Beacon("a", "b", terms, terms)).weights[term] for terms in ((term,), (term, "x"), ("y", term))
    }
    assert len(weights) == 1
    assert weights.pop() > 0


def test_the_matched_words_are_the_beacons_own_in_its_order() -> None:
    match = hears(beacon("Retries of failed payments"), "pay fail retry payment")
    assert match is not None
    assert match.matched_terms == ("retries", "failed", "payments")


def test_an_agent_hears_once_of_a_message_by_its_best_beacon() -> None:
    also, best, alone, first, second = (
        Match("a", "z", 0.7),
        Match("a", "y", 0.9),
        Match("b", "x", 0.6),
        Match("c", "v", 0.6),
        Match("c", "w", 0.6),
    )
    assert ranked([second, first, alone, also, best]) == [best, also, alone, first, second]
    assert by_agent([second, first, alone, also, best]) == [
        Heard("a", best, (also,)),
        Heard("b", alone),
        Heard("c", first, (second,)),
    ]


def test_the_best_score_is_that_of_a_message_with_everything() -> None:
    assert best_score(1.0, names_something=False) == 0.85
    assert best_score(0.5, names_something=True) == 0.85
    assert best_score(1.0, names_something=True) == 1.0


# -- too common -------------------------------------------------------------------------------------------------

TRAFFIC = [frozenset({"deploy", "fail"}), *[frozenset({"deploy"})] * 19, *[frozenset({"other"})] * 80]


@pytest.mark.parametrize(
    "about", ["message", "events", "Errors", "a new message", "status: updated", "notification"]
)
def test_a_beacon_of_worn_words_alone_is_refused_with_the_reason(about: str) -> None:
    reason = objection(beacon(about))
    assert reason is not None
    assert all(word.shown in reason for word in words_of(beacon(about)))


@pytest.mark.parametrize("about", ["deploy", "refund", "error budget", "数据", "kubernetes event"])
def test_a_beacon_with_a_telling_word_is_not(about: str) -> None:
    assert objection(beacon(about)) is None


def test_nor_is_one_that_requires_a_telling_word() -> None:
    assert objection(beacon("error", require=("billing",))) is None
    assert objection(beacon("error", require=("the", "new billing event"))) is None


@pytest.mark.parametrize("required", ["error", "message", "the", "7", "new message", "deployments"])
def test_but_one_that_requires_what_most_messages_hold_as_well_is(required: str) -> None:
    assert objection(beacon("error", require=(required,)), Sample.of(TRAFFIC)) is not None


def test_a_subscription_is_not_judged() -> None:
    assert objection(beacon(None)) is None


def test_a_word_that_recent_traffic_is_full_of_is_too_common() -> None:
    sample = Sample.of(TRAFFIC)
    assert (sample.messages, sample.holding["deploy"]) == (100, 20)
    assert objection(beacon("deployments"), sample) == (
        "deployments is a word that most messages hold; "
        "add words that tell them apart, or name only some of the inboxes, types or kinds"
    )
    assert "deployments, error are words" in str(objection(beacon("deployments error"), sample))
    assert objection(beacon("failed deployments"), sample) is None
    assert objection(beacon("refund"), sample) is None


def test_a_share_below_the_limit_or_a_small_sample_says_nothing() -> None:
    assert EVERYWHERE * 100 == 20
    assert too_common(beacon_words("deploy"), Sample.of(TRAFFIC[1:])) is None
    few = [frozenset({"deploy"})] * (FEWEST_TO_JUDGE - 1)
    assert too_common(beacon_words("deploy"), Sample.of(few)) is None
    assert too_common(beacon_words("deploy"), Sample.of([*few, frozenset()])) is not None


def test_no_word_is_both_left_out_and_worn() -> None:
    assert not STOP_WORDS & WORN_WORDS
