"""What a word of a search is, which text of a message is found, and what a question means."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.rules.matching.texts import FORM
from actors.rules.searching.asking import MOST_BEGINNINGS, MOST_WORDS, NoQuestion, read
from actors.rules.searching.charsets import CODECS, media_type
from actors.rules.searching.texts import TEXT_LIMIT, words_of
from actors.rules.searching.words import WORD_CHARS, words
from storage.records import BodyKind
from storage.search import expression
from storage.search_records import Indexable, Phrase, SearchQuery
from web.claims import body_kind


def message(
    body: bytes = b"", kind: int = BodyKind.TEXT, said: bytes = b"{}", event_type: str = ""
) -> Indexable:
    return Indexable(1, event_type, said, kind if body else BodyKind.EMPTY, body or None)


# -- words -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Payment intent: FAILED!", "payment intent failed"),
        ("payment_intent.failed", "payment intent failed"),
        ("mail@example.com 1,000.50 a/b\\c", "mail example com 1 000 50 a b c"),
        ("don't don’t", "don t don t"),
        ("CAFÉ cafe\u0301 café", "cafe cafe cafe"),
        ("Straße STRASSE ß", "strasse strasse ss"),
        ("Ёлка Йод", "елка иод"),
        ("Łódź ŁÓDŹ łódź", "lodz lodz lodz"),
        ("Øre Ǿ Ærø Œuvre", "ore o aero oeuvre"),
        ("Đakovo Ħal Þór Maður ŧ", "dakovo hal thor madur t"),
        ("İstanbul ışık KIŞ kış", "istanbul isik kis kis"),
        ("ẞ ƒ ƙ Ɓ ɨ ŋ Ґанок", "ss f k b i n ганок"),
        ("ȷ ᶁ ғ ⱡ ꝁ Ꝋ", "j d г l k o"),
        ("日本語 テスト", "日 本 語 テスト"),
        ("हिन्दी भाषा", "हिन्दी भाषा"),
        ("ﬁne ① x² Ⅷ", "fine 1 x 2 viii"),
        ("so\u00adft \u202etrojan\u202c ze\u200bro", "soft trojan ze ro"),
        ("\ud800 half", "half"),
        ("nul\0byte \x1b[31mred", "nul byte 31mred"),
        ("🎉 party", "party"),
        ("", ""),
        ("... --- !!!", ""),
    ],
)
def test_words_are_runs_of_letters_and_digits_folded(text: str, expected: str) -> None:
    assert words(text) == expected.split()


def test_of_a_long_word_the_beginning_counts() -> None:
    assert words("A" * 200 + " b") == ["a" * WORD_CHARS, "b"]
    assert words("é " + "A" * 200 + " b") == ["e", "a" * WORD_CHARS, "b"]


@given(st.text(st.characters(codec="ascii"), max_size=60))
def test_ascii_has_the_same_words_in_any_company(text: str) -> None:
    assert words(text + " é") == [*words(text), "e"]
    assert words("é " + text) == ["e", *words(text)]


@given(st.text(max_size=80))
def test_a_word_is_one_for_the_store_and_stays_what_it_is(text: str) -> None:
    found = words(text)
    for word in found:
        assert 0 < len(word) <= WORD_CHARS
        assert "1:0:" in expression("1:0:", SearchQuery(1, (Phrase((word,)),)))
    assert words(" ".join(word for word in found if word.isascii())) == [
        word for word in found if word.isascii()
    ]


@pytest.mark.parametrize(
    "text", ["a" + "\u0301\u0323" * 32_000, "\u0301" * 64_000, "ﷺ" * 20_000, "가" * 20_000]
)
def test_no_text_takes_long(text: str) -> None:
    """Normalising a run of combining marks takes the square of its length: 64 KiB of them, minutes."""
    assert sum(map(len, words(text))) < 20 * len(text)


# -- texts -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "kind", "said", "expected"),
    [
        (b"plain text", BodyKind.TEXT, b"{}", "plain text"),
        (b'{"id": 1042, "ok": true, "t": "a\\nb\\u00e9"}', BodyKind.JSON, b"{}", "id 1042 ok true t a be"),
        (b'"C:\\\\new \\ud83d\\ude00 \\ud800 \\"q\\""', BodyKind.JSON, b"{}", "c new q"),
        (b"C:\\new", BodyKind.TEXT, b"{}", "c new"),
        (b"\x00\xff\xfe", BodyKind.BYTES, b"{}", ""),
        (b'{"cut": "of', BodyKind.LARGE, b"{}", "cut of"),
        (b"cut off caf\xc3", BodyKind.LARGE, b"{}", "cut off caf"),
        (b"\x89PNG\r\n\x1a\n\x00\x00", BodyKind.LARGE, b"{}", ""),
        (
            b"text=hello+w%C3%B6rld&payload=%7B%22a%22%3A%22x%5Cny%22%7D",
            BodyKind.TEXT,
            b'{"content_type":"application/x-www-form-urlencoded; charset=utf-8"}',
            "text hello world payload a x y",
        ),
        (
            b"the text",
            BodyKind.TEXT,
            b'{"subject":"The subject","tags":["t1","t2"]}',
            "the subject t1 t2 the text",
        ),
        (b'{"n":1}', BodyKind.JSON, b'{"msg_type":"task.request"}', "n 1"),
        (b"", BodyKind.EMPTY, b'{"headers":[["x-noise","secret"]],"path":"/p"}', ""),
        (b"all the same", BodyKind.TEXT, b"no json", "all the same"),
    ],
)
def test_what_a_message_says_is_found_and_what_surrounds_it_is_not(
    body: bytes, kind: int, said: bytes, expected: str
) -> None:
    assert words_of(message(body, kind, said)) == expected.split()
    assert words_of(message(body, kind, said, "push.Now")) == ["push", "now", *expected.split()]


LATIN = "Crème brûlée für Jürgen: 25"
JAPANESE = "請求書 テスト"


def typed(content_type: str) -> bytes:
    return b'{"content_type":"%b"}' % content_type.replace('"', '\\"').encode()


@pytest.mark.parametrize(
    ("text", "codec", "content_type"),
    [
        (LATIN, "latin-1", "text/plain; charset=iso-8859-1"),
        (LATIN, "latin-1", 'TEXT/HTML;level=1; Charset = "ISO-8859-1"'),
        (LATIN, "latin-1", "text/plain;charset=ISO_8859-1"),
        ("“smart” 5 € Š", "cp1252", "text/plain; charset=latin1"),
        ("Łódź", "iso8859-2", "text/plain; charset=iso-8859-2"),
        ("Счёт оплачен", "cp1251", "application/xml; charset=windows-1251"),
        ("Счёт оплачен", "koi8-r", "text/plain; charset=KOI8-R"),
        (JAPANESE, "cp932", "text/plain; charset=shift_jis"),
        (JAPANESE, "euc-jp", "text/plain; charset=EUC-JP"),
        (JAPANESE, "iso2022-jp", "text/plain; charset=iso-2022-jp"),
        ("发票", "gb18030", "text/plain; charset=gbk"),
        ("發票", "big5", "text/plain; charset=big5"),
        ("영수증 발행", "cp949", "text/plain; charset=euc-kr"),
        ("plain ascii", "utf-16-le", "text/plain; charset=utf-16"),
        (LATIN, "utf-16", "text/plain; charset=utf-16"),
        ("\ufeff" + LATIN, "utf-16-be", "text/plain; charset=utf-16"),
        (LATIN, "utf-16-be", "application/json; charset=utf-16be"),
        (LATIN, "utf-8", "text/plain; charset=iso-8859-1"),
        ('{"name": "Zo\\u00eb Müller"}', "latin-1", "application/vnd.shop+json; charset=iso-8859-1"),
    ],
)
def test_a_body_is_read_in_the_character_set_that_its_type_names(
    text: str, codec: str, content_type: str
) -> None:
    body = text.encode(codec)
    expected = words(text.replace("\\u00eb", "ë"))
    assert expected
    for kind in (body_kind(body), BodyKind.LARGE):
        assert words_of(message(body, kind, typed(content_type))) == expected


@pytest.mark.parametrize(
    "content_type",
    [
        "text/plain",
        "image/png; charset=iso-8859-1",
        "application/octet-stream; charset=iso-8859-1",
        "text/plain; charset=utf-7",
        "text/plain; charset=unicode_escape",
        "text/plain; charset=rot13",
        "text/plain; charset=zlib",
        "text/plain; charset=idna",
        "text/plain; charset=../../etc",
        "text/plain; charset=" + "a" * 10_000,
        "text/plain; charset=",
        "charset=iso-8859-1",
        "",
    ],
)
def test_bytes_of_another_set_or_of_another_kind_are_not_read(content_type: str) -> None:
    assert words_of(message(LATIN.encode("latin-1"), BodyKind.BYTES, typed(content_type))) == []


@pytest.mark.parametrize(
    ("body", "content_type", "expected"),
    [
        (b"text=caf%E9+cr%E8me", "iso-8859-1", "text cafe creme"),
        (b"text=caf\xe9", "iso-8859-1", "text cafe"),
        (b"text=caf%C3%A9", "iso-8859-1", "text cafe"),
        (b"text=%90%BF%8B%81", "shift_jis", "text 請 求"),
        (b"text=caf%C3%A9", "utf-8", "text cafe"),
        (b"text=caf%C3%A9&b=%7B%22c%22%3A%22%5Cnd%22%7D", "nonsense", "text cafe b c d"),
        (b"a=+%0D%0A%5B%22x%5Cny%22%5D", "utf-8", "a x y"),
        (b"a=%EF%BB%BF%7B%22x%5Cny%22%7D", "utf-8", "a x y"),
        (b"a=x+%5B%22%5Cny%22%5D", "utf-8", "a x ny"),
        (b"a=XX%7B%22%5Cny%22%7D", "utf-8", "a xx ny"),
    ],
)
def test_a_form_is_read_in_its_set_or_in_utf_8(body: bytes, content_type: str, expected: str) -> None:
    said = typed(f"application/x-www-form-urlencoded; charset={content_type}")
    assert words_of(message(body, body_kind(body), said)) == expected.split()


@given(st.binary(max_size=200), st.sampled_from(sorted(CODECS)), st.sampled_from(("text/plain", FORM)))
def test_no_bytes_in_no_set_are_a_failure(body: bytes, name: str, media_type: str) -> None:
    for kind in (body_kind(body), BodyKind.LARGE):
        for word in words_of(message(body, kind, typed(f"{media_type}; charset={name}"))):
            assert 0 < len(word) <= WORD_CHARS


def test_only_what_looks_like_json_has_escapes() -> None:
    latin = "é " + r"a\u0062"
    for body, found in (
        (latin, "e a u0062"),
        ('"' + latin, "e a u0062"),
        ("[" + latin, "e ab"),
        ("{" + latin, "e ab"),
    ):
        said = typed("text/plain; charset=latin1")
        assert words_of(message(body.encode("latin-1"), BodyKind.BYTES, said)) == found.split()


def test_nothing_is_read_of_a_body_that_is_not_there() -> None:
    assert words_of(message(said=typed("text/plain; charset=latin1"), event_type="push")) == ["push"]


def test_a_character_that_was_cut_off_does_not_make_text_another_set() -> None:
    body = "é ".encode() + b"x" * (TEXT_LIMIT - 4) + "é".encode()
    assert len(body[:TEXT_LIMIT].decode("utf-8", "ignore").encode()) < TEXT_LIMIT
    said = typed("text/plain; charset=latin1")
    assert words_of(message(body, BodyKind.LARGE, said))[0] == "e"
    assert words_of(message(body[:TEXT_LIMIT], BodyKind.BYTES, said))[0] == "a", "that is its end"


@pytest.mark.parametrize(
    ("content_type", "expected"),
    [
        ("text/plain", "text/plain"),
        (" Text/Plain ;a=b;c=d", "text/plain"),
        (";a", ""),
        ("", ""),
        (None, ""),
    ],
)
def test_a_media_type_is_what_stands_before_its_parameters(content_type: str | None, expected: str) -> None:
    assert media_type(content_type) == expected


def test_of_a_long_body_the_beginning_is_read() -> None:
    body = b"start " + b"x " * TEXT_LIMIT + b"end"
    assert {"start", "x"} == set(words_of(message(body)))


# -- questions -------------------------------------------------------------------------------------------


def shown(phrases: tuple[Phrase, ...]) -> list[str]:
    return ["+".join(phrase.words) + ("*" if phrase.prefix else "") for phrase in phrases]


@pytest.mark.parametrize(
    ("question", "wanted", "unwanted"),
    [
        ("red apple", "red apple", ""),
        ("  RED\tApple\n", "red apple", ""),
        ('"red apple" tree', "red+apple tree", ""),
        ('red -apple -"green tree"', "red", "apple green+tree"),
        ("pay* -refu*", "pay*", "refu*"),
        ("payment_intent.fail*", "payment+intent+fail*", ""),
        ("mail@example.com", "mail+example+com", ""),
        ("well-known", "well+known", ""),
        ("2026-11-30T12:00:00Z", "2026+11+30t12+00+00z", ""),
        ("日本語", "日+本+語", ""),
        ("naïve CAFÉ", "naive cafe", ""),
        ("red red red -x -x", "red", "x"),
        ('"not closed at all', "not+closed+at+all", ""),
        ('"', "", ""),
        ('a"b"c', "a b c", ""),
        ('"a b"* c', "a+b c", ""),
        ("a*b", "a+b", ""),
        ("--a b", "b", "a"),
        ("- a", "a", ""),
        ("a OR b AND NOT c", "a or b and not c", ""),
        ("NEAR(a b, 3) {x}: ^y (z)", "near+a b 3 x y z", ""),
        ("words:a rowid:1", "words+a rowid+1", ""),
        ("a'); DROP TABLE message;--", "a drop table message", ""),
        ("a\0b", "a+b", ""),
    ],
)
def test_a_question_is_words_phrases_beginnings_and_exclusions(
    question: str, wanted: str, unwanted: str
) -> None:
    if not wanted:
        with pytest.raises(NoQuestion):
            read(question)
        return
    asked = read(question)
    assert (shown(asked.wanted), shown(asked.unwanted)) == (wanted.split(), unwanted.split())


NO_WORD = r"Expected at least one word to look for: letters or digits\."


@pytest.mark.parametrize(
    ("question", "complaint"),
    [
        ("", NO_WORD),
        (" \t ", NO_WORD),
        ('"" -"" * - -*', NO_WORD),
        ("🎉 !?", NO_WORD),
        ("-only -these", r"Expected at least one word to look for, and not only words to leave out\."),
        (" ".join(f"w{n}" for n in range(MOST_WORDS + 1)), f"at most {MOST_WORDS} words"),
        ("_".join("x" * (MOST_WORDS + 1)), f"at most {MOST_WORDS} words"),
        (" ".join(f"w{n}*" for n in range(MOST_BEGINNINGS + 1)), f"at most {MOST_BEGINNINGS} words with"),
    ],
)
def test_what_cannot_be_looked_for_is_refused_in_a_sentence(question: str, complaint: str) -> None:
    with pytest.raises(NoQuestion, match=complaint) as refused:
        read(question)
    assert str(refused.value).startswith("Expected ")
    assert str(refused.value).endswith(".")


def test_as_much_may_be_asked_as_is_said() -> None:
    assert len(read(" ".join(f"w{n}" for n in range(MOST_WORDS))).wanted) == MOST_WORDS
    assert len(read(" ".join(f"w{n}*" for n in range(MOST_BEGINNINGS))).wanted) == MOST_BEGINNINGS


@given(st.text(max_size=120))
def test_any_text_is_a_question_or_refused(question: str) -> None:
    try:
        asked = read(question)
    except NoQuestion:
        return
    assert asked.wanted
    text = expression("1:0:", SearchQuery(1, asked.wanted, asked.unwanted))
    outside = text.split('"')[0::2]
    assert {part.strip(" ()*") for part in outside} <= {"", "AND", "OR", "NOT"}
