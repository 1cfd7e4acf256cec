"""What forms and lists say and read: durations, sizes, verdicts, and the steps of every provider."""

import pytest

from web.claims import REDACTED
from web.errors import ApiError
from web.pages import curl, units
from web.pages.forms import decode, nested
from web.pages.lines import REASONS, line_of, verdict_of
from web.pages.providers import BY_PRESET, PROVIDERS, parts
from web.pages.rendering import human_bytes, human_seconds
from web.verify.registry import described, scheme

DURATIONS = [
    ("", None),
    ("0", 0),
    ("90", 90),
    ("45 s", 45),
    ("10min", 600),
    ("12 h", 43_200),
    ("1 day", 86_400),
    ("30 days", 2_592_000),
    ("1.5 d", 129_600),
    ("1,000 s", 1_000),
]
SIZES = [
    ("", None),
    ("512", 512),
    ("4 KiB", 4096),
    ("1 GiB", 1024**3),
    ("1.5MiB", 1_572_864),
    ("2 GB", 2 * 10**9),
    ("9007199254740993", 9_007_199_254_740_993),
    ("1,234,567 B", 1_234_567),
]


@pytest.mark.parametrize(("text", "value"), DURATIONS)
def test_durations_are_read_as_people_write_them(text: str, value: int | None) -> None:
    assert units.seconds("f", text, least=0) == value
    assert units.seconds("f", units.as_duration(value), least=0) == value


@pytest.mark.parametrize(("text", "value"), SIZES)
def test_sizes_are_read_as_people_write_them(text: str, value: int | None) -> None:
    assert units.size("f", text) == value
    assert units.size("f", units.as_size(value)) == value


@pytest.mark.parametrize(
    "text",
    [
        "soon",
        "-1",
        "1 fortnight",
        "1e9",
        "٣ h",
        "1 2 h",
        "1,5",
        "1,5 h",
        "1,0000",
        "1,000 000",
        "9" * 25,
        "9" * 50,
    ],
)
def test_what_is_neither_names_the_field(text: str) -> None:
    for read in (units.seconds, units.size, units.whole):
        with pytest.raises(ApiError) as refused:
            read("retention.max_age_seconds", text)
        assert refused.value.field == "retention.max_age_seconds"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("500", 500),
        ("2,000", 2_000),
        ("2 000 000", 2_000_000),
        ("2\u202f000", 2_000),
        ("12_000", 12_000),
        ("0", 0),
    ],
)
def test_digits_may_be_grouped_by_threes(text: str, value: int) -> None:
    assert units.whole("f", text) == value


@pytest.mark.parametrize(
    ("text", "value"), [("", None), ("0.45", 0.45), ("1", 1), ("-1", -1), ("1e-7", 1e-7), ("1.5", 1.5)]
)
def test_a_number_may_be_broken_or_negative_for_who_says_what_is_right(
    text: str, value: float | None
) -> None:
    assert units.number("f", text) == value


@pytest.mark.parametrize("text", ["nan", "inf", "0,5", "0x10", "1_0", "+1", "٣", "1e9999", "9" * 25])
def test_what_is_no_number_names_the_field(text: str) -> None:
    with pytest.raises(ApiError) as refused:
        units.number("weight", text)
    assert refused.value.field == "weight"


@pytest.mark.parametrize("text", ["0", "0.0", "0.4"])
def test_nothing_is_no_duration_and_no_size_unless_it_may_be(text: str) -> None:
    for read in (units.seconds, units.size):
        with pytest.raises(ApiError, match="Expected at least 1"):
            read("f", text)
    if float(text) == 0:
        assert units.seconds("f", text, least=0) == 0


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(None, "no limit"), (0.4, "0 s"), (119, "119 s"), (120, "2 min"), (7_200, "2 h"), (86_400, "1 day")],
)
def test_durations_are_said_in_their_largest_unit(seconds: float | None, said: str) -> None:
    assert human_seconds(seconds) == said


def test_sizes_are_said_with_one_digit() -> None:
    assert [human_bytes(n) for n in (0, 1023, 1024, 1536, 10 * 1024**2)] == [
        "0 B",
        "1023 B",
        "1.0 KiB",
        "1.5 KiB",
        "10.0 MiB",
    ]


def test_a_form_is_read_with_its_repeated_fields() -> None:
    form = decode(b"a=1&a=2&b=+x%0D%0Ay+&c=")
    assert form.texts("a") == ["1", "2"]
    assert form.text("b") == "x\ny"
    assert (form.text("c"), form.checked("c"), form.checked("d")) == ("", True, False)
    assert form.shown("a") == {"b": "x\ny", "c": ""}


def test_dots_in_names_make_objects() -> None:
    assert nested({"a": 1, "b.c": 2, "b.d": 3}) == {"a": 1, "b": {"c": 2, "d": 3}}


def test_every_verifier_has_a_provider_whose_steps_have_the_address() -> None:
    assert {one.name for one in described()} == set(BY_PRESET)
    assert len(PROVIDERS) == len(BY_PRESET)
    for provider in PROVIDERS:
        kinds = [part.kind for step in provider.steps for part in parts(step)]
        assert kinds.count("url") == 1, provider.preset
        assert "**" not in "".join(part.text for step in provider.steps for part in parts(step))


def test_who_makes_the_secret_is_what_the_scheme_can_do() -> None:
    for provider in PROVIDERS:
        about = scheme(provider.preset).about
        if provider.secret == "public":
            assert not about.signs, provider.preset
        assert (provider.secret == "path") == about.checks.startswith("the first path segment"), (
            provider.preset
        )


def message(**facts: object) -> dict[str, object]:
    said = {"path": "/a", "query": "b=c", "event_type": "push"}
    base = {"verified": None, "verifier": None, "verify_error": None, "method": "POST", "sender": None}
    return {**base, "seq": 1, "received_at": "t", "size": 2, "untrusted": said, **facts}


@pytest.mark.parametrize(
    ("facts", "kind", "words"),
    [
        ({}, "plain", "Anybody may have sent it"),
        ({"verified": True, "verifier": "github"}, "good", "fits a secret"),
        (
            {"verified": False, "verifier": "github", "verify_error": "signature mismatch"},
            "bad",
            "does not fit",
        ),
        ({"verified": False, "verifier": "x", "verify_error": "a new one"}, "bad", "a new one"),
        ({"method": None, "sender": "builder"}, "plain", "The agent builder sent it"),
        ({"method": None}, "plain", "The server itself"),
    ],
)
def test_verdicts_are_said_in_plain_words(facts: dict[str, object], kind: str, words: str) -> None:
    verdict = verdict_of(message(**facts))
    assert verdict.kind == kind
    assert words in verdict.sentence


def test_every_reason_of_the_surface_has_words() -> None:
    for reason in (
        "missing signature",
        "malformed signature",
        "timestamp outside tolerance",
        "unknown key",
        "signature mismatch",
        "missing credentials",
        "bad credentials",
    ):
        assert reason in REASONS


def test_a_line_says_what_a_message_is_about() -> None:
    assert line_of(message()).what == "POST /a?b=c"
    published = {"method": None, "sender": "builder", "untrusted": {"subject": "Done", "event_type": "note"}}
    assert line_of(message(**published)).what == "builder: Done"


def test_a_redaction_is_known_by_the_word_that_the_server_stores() -> None:
    assert curl.REDACTED == REDACTED
