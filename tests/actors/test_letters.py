"""What routing reads of a message, and who may be routed what."""

from typing import Any

import msgspec
import pytest

from actors.rules.letters import Letter, kind_of, letter_of
from actors.rules.matching.words import terms
from actors.rules.scope import COMMONS, NOTHING, Scope, scope_of, seen_by
from storage.mail_records import Content, Routable
from storage.records import BodyKind, InboxKind, TokenRecord


def row(kind: InboxKind = "webhook", event_type: str = "push") -> Routable:
    return Routable(7, b"i" * 16, 3, "ci", kind, 2, 1_000, event_type, 1, 5, None)


def content(
    said: Any = None, facts: Any = None, body: bytes | None = b"hello there", kind: int = BodyKind.TEXT
) -> Content:
    return Content(7, msgspec.json.encode(facts or {}), msgspec.json.encode(said or {}), kind, body, 11)


def published(**said: Any) -> Letter:
    return letter_of(row("topic", "note"), content(said, {"sender": "ada"}))


# -- messages --------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("kind", "event_type", "shown"),
    [("webhook", "push", "webhook"), ("topic", "decision", "decision"), ("machine", "handoff", "message")],
)
def test_the_kind_of_a_message_is_that_of_its_inbox_and_of_an_agent_s_what_it_says(
    kind: InboxKind, event_type: str, shown: str
) -> None:
    assert kind_of(row(kind, event_type)) == shown


def test_a_webhook_is_read_by_its_body_and_has_no_sender() -> None:
    letter = letter_of(row(), content({"content_type": "application/json"}, {"sender": None}))
    assert letter.sender is None
    assert letter.row == row()
    read = letter.input
    assert (read.mid, read.received_at, read.inbox, read.event_type) == (7, 1_000, "ci", "push")
    assert (read.kind, read.salience) == ("webhook", 0.5)
    assert {"hello", "push"} <= read.terms


def test_a_form_is_read_by_its_fields() -> None:
    said = {"content_type": "application/x-www-form-urlencoded"}
    letter = letter_of(row(), content(said, body=b"title=broken%20build&n=1"))
    assert terms("title broken build") <= letter.input.terms


def test_what_an_agent_wrote_is_read_with_its_subject_its_tags_and_its_salience() -> None:
    letter = published(subject="Replication", tags=["postgres"], kind="note", salience=0.9)
    assert letter.sender == "ada"
    assert terms("replication postgres hello note") <= letter.input.terms
    assert (letter.input.kind, letter.input.salience) == ("note", 0.9)


@pytest.mark.parametrize(("given", "taken"), [(7, 1.0), (-1, 0.0), (0.25, 0.25)])
def test_salience_stays_within_its_range(given: float, taken: float) -> None:
    assert published(salience=given).input.salience == taken


def test_a_text_that_was_cut_within_a_character_is_read_up_to_there() -> None:
    cut = content({"subject": ""}, body="broken prüfung".encode()[:10])
    assert "broken" in letter_of(row("topic", "note"), cut).input.terms


@pytest.mark.parametrize("kind", ["webhook", "topic", "machine"])
@pytest.mark.parametrize(
    "said", [b"[]", b"not json", b'{"subject":5,"content_type":[],"salience":"high"}', b""]
)
def test_what_does_not_look_as_expected_is_matched_by_what_does(kind: InboxKind, said: bytes) -> None:
    odd = Content(7, said, said, BodyKind.TEXT, b"hello", 5)
    letter = letter_of(row(kind), odd)
    assert (letter.sender, letter.input.salience) == (None, 0.5)
    assert "hello" in letter.input.terms


def test_a_message_without_a_body_is_read_by_its_type() -> None:
    assert letter_of(row(), content(body=None, kind=BodyKind.EMPTY)).input.terms == {"push"}
    noted = letter_of(row("topic", "note"), content(body=None, kind=BodyKind.EMPTY))
    assert noted.input.terms == terms("note")


# -- scopes ----------------------------------------------------------------------------------------------------
def token(inboxes: tuple[str, ...] | None) -> TokenRecord:
    return TokenRecord("t", b"", "agent", inboxes, "ada")


def test_a_scope_is_what_all_tokens_of_an_agent_may_read_together() -> None:
    scope = scope_of([token(("ci",)), token(("docs",))])
    assert [scope.covers(slug, "webhook") for slug in ("ci", "docs", "ops")] == [True, True, False]


def test_a_token_for_all_inboxes_reads_webhooks_and_topics_and_no_others() -> None:
    scope = scope_of([token(None)])
    kinds: tuple[InboxKind, ...] = ("webhook", "topic", "machine", "agent")
    assert [scope.covers("any", kind) for kind in kinds] == [True, True, False, False]


def test_whoever_has_a_token_reads_the_commons_and_whoever_has_none_reads_nothing() -> None:
    assert scope_of([token(())]).covers(COMMONS, "topic")
    assert scope_of([]) == NOTHING == Scope()
    assert not NOTHING.covers(COMMONS, "topic")


def test_a_private_inbox_is_in_no_scope_whatever_a_token_names() -> None:
    assert not scope_of([token(("agent.ben",))]).covers("agent.ben", "agent")


def test_what_comes_from_an_inbox_that_is_gone_is_seen_by_nobody() -> None:
    for scope in (seen_by(None), seen_by(frozenset({"ci"}))):
        assert scope.sees("ci", "webhook")
        assert not scope.sees("ci", "agent")
        assert not scope.sees(None, "webhook")
        assert not scope.sees("ci", None)
        assert not scope.sees(None, None)
    assert not seen_by(frozenset({"ci"})).sees("docs", "webhook")


def test_what_one_token_sees_is_what_it_names() -> None:
    assert seen_by(None).covers("ci", "webhook")
    assert seen_by(frozenset({"ci"})).covers("ci", "webhook")
    assert not seen_by(frozenset({"ci"})).covers("docs", "webhook")
