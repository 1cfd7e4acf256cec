"""What appending does for agents, as rules: repeated requests, broadcasts, recipients, lists of what was sent."""

from typing import Any

import msgspec
import pytest

from actors.commands import Append, Appended, Broadcast, Draft, Once, Refusal, Skipped
from actors.rules.append import NOBODY, ONCE_WINDOW_US, AppendPlan, decide
from storage.mail_records import AgentRecord, Recipient, Sent
from storage.records import BodyKind, Head, NewEntry, Retention, Seen, Verdict
from tests.actors.drafts import WINDOW_US, append, draft

INBOX, SENDER = 7, 5
NOW = 5_000_000
HEAD = Head("e", latest_seq=9, first_seq=3, last_at=1_000, live_rows=5, live_bytes=50)
ONCE = Once(SENDER, b"key", b"request")
ROSTER = [(AgentRecord(name, inbox, "m", 0), gone) for name, inbox, gone in (
    ("ada", 11, None), ("ben", 12, 400), ("cyd", 13, None), ("dan", 14, None),
)]  # fmt: skip
"""Who is on machine `m`; ben has said farewell."""


def mail(once: Once | None = None, window_us: int = 0, **fields: Any) -> Append:
    """Return an append of a draft with these fields."""
    return Append(msgspec.structs.replace(draft(), **fields), window_us, None, once)


def decided(*commands: Append, **known: Any) -> AppendPlan:
    return decide(HEAD, {}, commands, NOW, inbox_id=INBOX, **known)


def test_an_entry_has_what_its_draft_says() -> None:
    whole = Draft(
        b"i" * 16, 3, b"facts", b"said", BodyKind.TEXT, b"xyz", 8, "push", Verdict.VERIFIED,
        delivery=b"delivery", expires_at=99,
    )  # fmt: skip
    assert decided(Append(whole)).entries == [
        NewEntry(
            10, b"i" * 16, NOW, 3, b"facts", b"said", BodyKind.TEXT, b"xyz", 8, "push", Verdict.VERIFIED,
            None, 99, b"delivery",
        )
    ]  # fmt: skip


def test_the_head_after_it_is_the_one_before_with_one_more() -> None:
    head = msgspec.structs.replace(HEAD, dropped_rows=2, dropped_bytes=20, due_at=77)
    assert decide(head, {}, [append(b"xyz")], NOW).head == Head("e", 10, 3, NOW, 6, 53, 2, 20, 77)


def test_the_first_one_of_an_empty_inbox_says_when_it_comes_of_age() -> None:
    aged = Retention(max_age_seconds=4)
    plan = decide(Head("e", 0, 1), {}, [append(), append()], NOW, aged)
    assert plan.head.due_at == NOW + 4_000_000


# -- once --------------------------------------------------------------------------------------------------------


def test_a_request_of_before_is_answered_as_then_and_what_follows_is_done() -> None:
    first = Appended(b"f" * 16, 4, False, ("ada",), (Skipped("ben", "gone"),))
    known = {(SENDER, b"key"): Sent(b"request", msgspec.json.encode(first), NOW - 1)}
    plan = decided(mail(ONCE), mail(), sent=known)
    assert plan.outcomes[0] == msgspec.structs.replace(first, duplicate=True)
    assert [(one.seq, one.duplicate) for one in plan.outcomes[1:] if isinstance(one, Appended)] == [
        (10, False)
    ]
    assert (len(plan.entries), plan.sent) == (1, [])


@pytest.mark.parametrize(("age", "again"), [(ONCE_WINDOW_US - 1, True), (ONCE_WINDOW_US, False)])
def test_a_key_means_the_same_request_for_a_day(age: int, again: bool) -> None:
    known = {(SENDER, b"key"): Sent(b"request", msgspec.json.encode(Appended(b"f" * 16, 4, False)), NOW)}
    plan = decide(HEAD, {}, [mail(ONCE)], NOW + age, sent=known)
    assert (plan.entries == []) == again
    assert [key for key, _ in plan.sent] == ([] if again else [(SENDER, b"key")])


def test_a_key_of_another_request_is_refused_by_its_name_and_stores_nothing() -> None:
    known = {(SENDER, b"key"): Sent(b"another", msgspec.json.encode(Appended(b"f" * 16, 4, False)), NOW)}
    plan = decided(mail(ONCE), sent=known)
    [refused] = plan.outcomes
    assert isinstance(refused, Refusal)
    assert (refused.code, refused.field) == ("conflict", "idempotency_key")
    assert refused.message == "This key was used for another request."
    assert (plan.entries, plan.sent, plan.head) == ([], [], HEAD)


def test_a_key_is_its_sender_s_own() -> None:
    other = Once(SENDER + 1, b"key", b"request")
    plan = decided(mail(ONCE), mail(other), mail(Once(SENDER, b"other", b"request")))
    assert [entry.seq for entry in plan.entries] == [10, 11, 12]


def test_the_answer_is_kept_and_given_again_within_the_same_group() -> None:
    plan = decided(mail(ONCE, id=b"a" * 16), mail(ONCE))
    answer = Appended(b"a" * 16, 10, False)
    assert plan.sent == [((SENDER, b"key"), Sent(b"request", msgspec.json.encode(answer), NOW))]
    assert plan.outcomes == [answer, msgspec.structs.replace(answer, duplicate=True)]
    assert [entry.seq for entry in plan.entries] == [10]


# -- to whom -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "recipients"),
    [
        ({}, []),
        ({"delivery": b"d"}, [(1, (Recipient(INBOX, 11, NOW + 1),))]),
        ({"recipients": (3, INBOX, 4, 3)}, [(1, (Recipient(3), Recipient(4)))]),
        ({"delivery": b"d", "recipients": (INBOX, 3)}, [(1, (Recipient(INBOX, 11, NOW + 1), Recipient(3)))]),
        ({"recipients": (INBOX,)}, []),
    ],
)
def test_recipients_are_the_inbox_itself_when_it_is_mail_to_it_and_each_other_once(
    fields: dict[str, Any], recipients: list[tuple[int, tuple[Recipient, ...]]]
) -> None:
    plan = decided(append(), mail(**fields))
    assert plan.recipients == recipients
    assert [
        one for one in plan.outcomes if isinstance(one, Appended) and (one.recipients or one.skipped)
    ] == []


def test_what_stands_in_a_sender_s_list_is_said_by_its_place() -> None:
    plan = decided(mail(), mail(log_of=SENDER), mail(log_of=6))
    assert plan.logged == [(1, SENDER), (2, 6)]


def test_a_broadcast_goes_to_everybody_there_but_its_sender_and_who_has_left() -> None:
    plan = decided(append(), mail(broadcast=Broadcast("m", "ada")), rosters={"m": ROSTER})
    assert plan.recipients == [(1, (Recipient(13), Recipient(14)))]
    outcome = plan.outcomes[1]
    assert isinstance(outcome, Appended)
    assert (outcome.recipients, outcome.skipped) == (("cyd", "dan"), (Skipped("ben", "gone"),))


def test_a_broadcast_leaves_out_who_is_beyond_its_limit() -> None:
    plan = decided(mail(broadcast=Broadcast("m", None, most=2)), rosters={"m": ROSTER})
    [outcome] = plan.outcomes
    assert isinstance(outcome, Appended)
    assert outcome.recipients == ("ada", "cyd")
    assert outcome.skipped == (Skipped("ben", "gone"), Skipped("dan", "limit"))


@pytest.mark.parametrize("rosters", [None, {}, {"m": ROSTER[:2]}, {"other": ROSTER}])
def test_a_broadcast_to_nobody_is_refused_and_what_follows_is_done(rosters: Any) -> None:
    plan = decided(mail(broadcast=Broadcast("m", "ada")), mail(), rosters=rosters)
    refused, done = plan.outcomes
    assert isinstance(refused, Refusal)
    assert (refused.code, refused.message) == ("no_recipient", NOBODY)
    assert isinstance(done, Appended)
    assert done.seq == 10


# -- what is refused or known ------------------------------------------------------------------------------------


def test_what_a_full_inbox_refuses_says_why_and_the_next_may_fit() -> None:
    room = Retention(max_bytes=60, policy="refuse")
    plan = decide(HEAD, {}, [append(b"x" * 11), append(b"x" * 10)], NOW, room)
    refused, done = plan.outcomes
    assert isinstance(refused, Refusal)
    assert refused.code == "insufficient_storage"
    assert (
        refused.message
        == "This inbox keeps as many bytes as it may and takes no more until some are removed."
    )
    assert isinstance(done, Appended)
    full = decide(HEAD, {}, [append()], NOW, Retention(max_messages=5, policy="refuse")).outcomes[0]
    assert isinstance(full, Refusal)
    assert (
        full.message
        == "This inbox keeps as many messages as it may and takes no more until some are removed."
    )


def test_a_delivery_id_is_remembered_with_its_message_and_what_follows_a_duplicate_is_done() -> None:
    commands = [append(key=b"k"), append(key=b"k"), append()]
    plan = decided(*commands)
    assert plan.remember == [(b"k", Seen(10, commands[0].draft.id, NOW))]
    assert [entry.id for entry in plan.entries] == [commands[0].draft.id, commands[2].draft.id]


@pytest.mark.parametrize(("age", "again"), [(WINDOW_US - 1, True), (WINDOW_US, False)])
def test_a_delivery_id_is_known_for_as_long_as_the_window(age: int, again: bool) -> None:
    plan = decide(HEAD, {b"k": Seen(4, b"f" * 16, NOW)}, [append(key=b"k")], NOW + age)
    assert (plan.entries == []) == again
