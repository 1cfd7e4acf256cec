"""What a term is: where words begin and end, what joins them, which endings go, and what no text can do."""

import time
import unicodedata

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from actors.rules.matching.words import MESSAGE_WORDS, WORD_CHARS, Word, beacon_words, stem, terms

MEGABYTE = 1_000_000
HOSTILE_SECONDS = 2.0
"""For a megabyte of anything. 150 ms is the worst that was seen; a cost that grew with the square would be minutes."""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", set()),
        ("?!… --- \t\n", set()),
        ("Buy the cart", {"buy", "the", "cart"}),
        ("payment_intent.failed", {"payment", "intent", "fail"}),
        ("payment intent: failed", {"payment", "intent", "fail"}),
        ("a:b std::vector", {"a", "b", "std", "vector"}),
        ("v1.2.3 of 10.0.0.1 for 1,000.5", {"v1.2.3", "of", "10.0.0.1", "for", "1,000.5"}),
        ("main.py, example.com.", {"main", "py", "exampl", "com"}),
        ("end-to-end roll\u2010back", {"end", "to", "rol", "back"}),
        ("the cart's, the cart’s", {"the", "cart", "s"}),
        ("STRASSE Straße", {"stras"}),
        ("ＦＵＬＬ　ｗｉｄｔｈ", {"ful", "width"}),
        ("cafe\u0301 caf\u00e9 CAFÉ", {"caf\u00e9"}),
        ("数据同步", {"数", "据", "同", "步"}),
        ("データ 同期", {"データ", "同", "期"}),
        ("हिन्दी में", {"हिन्दी", "में"}),
        ("👩‍💻 🇩🇪 ok", {"ok"}),
        ("deploy__to__prod _x_", {"deploy", "to", "prod", "x"}),
    ],
)
def test_text_becomes_terms(text: str, expected: set[str]) -> None:
    assert terms(text) == expected


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("PostgresqlReplicationLag", {"postgresqlreplicationlag", "postgresql", "replicat", "lag"}),
        ("workflowRun", {"workflowrun", "workflow", "run"}),
        ("HTTPServerError", {"httpservererror", "http", "server", "error"}),
        ("GitHub", {"github", "git", "hub"}),
        ("AWS", {"aws"}),
        ("Deploy", {"deploy"}),
        ("user_firstName", {"user", "firstnam", "first", "nam"}),
    ],
)
def test_of_a_word_in_camel_case_messages_have_the_whole_and_its_parts(word: str, expected: set[str]) -> None:
    assert terms(word) == expected


@pytest.mark.parametrize(
    "forms",
    [
        "fail fails failed failing failure failures",
        "deploy deploys deployed deploying deployment deployments",
        "release releases released releasing",
        "migrate migrates migrated migration migrations",
        "commit commits committed committing",
        "cancel cancelled canceled cancels cancelling",
        "retry retries retried",
        "query queries queried",
        "access accesses accessed",
        "process processes processed processing",
        "status statuses",
        "install installs installed installing",
        "queue queues queued queuing",
        "expire expires expired expiring",
        "exceed exceeds exceeded exceeding",
    ],
)
def test_the_forms_of_a_word_are_one_term(forms: str) -> None:
    assert len({stem(form) for form in forms.split()}) == 1


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("customer", "custom"),
        ("comment", "com"),
        ("order", "ord"),
        ("number", "numb"),
        ("dns", "dn"),
        ("aws", "aw"),
        ("string", "st"),
        ("ready", "read"),
        ("server", "serve"),
        ("payment", "pay"),
    ],
)
def test_other_words_stay_apart(one: str, other: str) -> None:
    assert stem(one) != stem(other)


@pytest.mark.parametrize("word", ["größen", "v1.2.3", "h264s", "dns", "données", "数据"])
def test_what_is_no_longer_word_of_english_letters_keeps_its_ending(word: str) -> None:
    assert stem(word) == word


def test_the_words_of_a_beacon_come_in_order_each_once_as_they_were_written() -> None:
    assert beacon_words("GitHub deployments, deployed; Straße API-key") == [
        Word("github", "github"),
        Word("deploy", "deployments"),
        Word("stras", "strasse"),
        Word("api", "api"),
        Word("key", "key"),
    ]


@pytest.mark.parametrize("length", [WORD_CHARS, WORD_CHARS + 1])
def test_a_word_longer_than_any_is_passed_over(length: int) -> None:
    word = "1" * length
    assert (word in terms(f"see {word} there")) == (length == WORD_CHARS)


def test_only_so_many_different_words_of_a_message_are_read() -> None:
    text = " ".join(f"w{number} w{number}" for number in range(MESSAGE_WORDS + 10))
    found = terms(text)
    assert len(found) == MESSAGE_WORDS
    assert "w0" in found
    assert f"w{MESSAGE_WORDS}" not in found


@pytest.mark.parametrize(
    "piece",
    [
        "a",
        "\u0301",
        "a\u0301\u0323",
        ("a" + "\u0301\u0323" * 31 + " "),
        "\u0323\u0301" * 31 + " ",
        "数",
        "👩‍",
        "🇩🇪",
        "a.",
        "a_",
        "1,",
        "aB",
        "'\"",
        "\ud800",
        "\u200d",
        "\x00",
        " ",
        'NEAR("a" AND -b*) OR c:d ^ ',
        "ﷺ" * 60 + " ",
    ],
    ids=ascii,
)
def test_a_megabyte_of_anything_is_read_in_no_time(piece: str) -> None:
    text = piece * (MEGABYTE // len(piece))
    began = time.perf_counter()
    found = terms(text)
    assert time.perf_counter() - began < HOSTILE_SECONDS
    assert len(found) < 10


@settings(deadline=None)
@given(st.text())
@example("\ud800 \udfff")
@example("ﬁn ½ ẞ İ")
def test_any_text_gives_terms_that_are_short_and_in_lower_case(text: str) -> None:
    for term in terms(text):
        assert term
        assert term == term.casefold()
        assert len(term) <= WORD_CHARS * 18  # the longest compatibility form has 18 characters


@settings(deadline=None)
@given(st.text(alphabet=st.characters(codec="utf-8")))
def test_composed_and_decomposed_text_have_the_same_terms(text: str) -> None:
    composed = unicodedata.normalize("NFC", text)
    assert terms(unicodedata.normalize("NFD", composed)) == terms(composed)


@settings(deadline=None)
@given(st.text())
def test_what_a_beacon_is_about_is_found_in_its_own_text(text: str) -> None:
    assert {word.term for word in beacon_words(text)} <= terms(text)
