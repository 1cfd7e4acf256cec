"""`postroom inbox secret …`: what it prints, what it warns of, and that no value is ever shown."""

import json

from postroom.cli.rekey import MAX_ASKED, question
from tests.postroom.conftest import Command
from tests.postroom.test_cli import fine, sentence


def verdicts(command: Command, slug: str) -> list[bool]:
    """Return the verdicts on an inbox's messages, the oldest first."""
    page = json.loads(fine(command("messages", slug, "--after", "0", "--json")))
    return [message["verified"] for message in page["messages"]]


def test_a_rotation_by_the_printed_steps_loses_no_message(command: Command) -> None:
    fine(command("inbox", "create", "rotated", "--verifier", "github", "--secret", "old", "--no-token"))
    signed = ("send", "rotated", "--data", "x", "--sign", "github", "--secret")
    fine(command(*signed, "old"))
    added = fine(command("inbox", "secret", "add", "rotated", "--name", "2027", "--secret", "new"))
    assert added == "Messages to rotated may now be signed with the secret 2027.\n"
    for secret in ("old", "new"):
        fine(command(*signed, secret))
    retired = command("inbox", "secret", "retire", "rotated", "default")
    assert fine(retired) == "Retired the secret default of rotated.\n"
    assert retired.stderr == ""
    for secret in ("new", "old"):
        fine(command(*signed, secret))
    assert verdicts(command, "rotated") == [True, True, True, True, False]


def test_secrets_are_listed_by_name_and_time_and_never_by_value(command: Command) -> None:
    fine(command("inbox", "create", "listing", "--verifier", "github", "--no-token"))
    assert fine(command("inbox", "secret", "list", "listing")) == "No secrets.\n"
    assert json.loads(fine(command("inbox", "secret", "list", "listing", "--json"))) == {"secrets": []}
    for name in ("first", "second"):
        fine(command("inbox", "secret", "add", "listing", "--name", name, "--secret", "t0psecret"))
    head, *rows = fine(command("inbox", "secret", "list", "listing")).splitlines()
    assert head.split() == ["NAME", "ADDED"]
    assert sorted(row.split()[0] for row in rows) == ["first", "second"]
    assert all(row.endswith("Z") for row in rows)
    document = fine(command("inbox", "secret", "list", "listing", "--json"))
    assert {one["name"] for one in json.loads(document)["secrets"]} == {"first", "second"}
    assert all(one.keys() == {"name", "added_at"} for one in json.loads(document)["secrets"])
    assert "t0psecret" not in document


def test_retiring_the_last_secret_warns_of_what_becomes_of_messages(command: Command) -> None:
    fine(command("inbox", "create", "lonely", "--verifier", "github", "--secret", "s", "--no-token"))
    retired = command("inbox", "secret", "retire", "lonely", "default")
    assert fine(retired) == "Retired the secret default of lonely.\n"
    assert "lonely has no secret any more, so it stores every message as unverified" in retired.stderr
    assert "postroom inbox secret add lonely --secret-env NAME" in retired.stderr
    fine(command("inbox", "set", "lonely", "--on-unverified", "reject"))
    fine(command("inbox", "secret", "add", "lonely", "--secret", "s"))
    retired = command("inbox", "secret", "retire", "lonely", "default", "--json")
    assert json.loads(fine(retired)) == {"retired": "default"}
    assert "refuses every message" in retired.stderr


def test_retiring_the_last_secret_of_an_inbox_without_a_verifier_warns_of_nothing(command: Command) -> None:
    fine(command("inbox", "create", "unverified", "--secret", "s", "--no-token"))
    retired = command("inbox", "secret", "retire", "unverified", "default")
    fine(retired)
    assert retired.stderr == ""


def test_a_provider_that_brings_its_secret_is_waited_for(command: Command) -> None:
    created = command("inbox", "create", "brought", "--verifier", "asana", "--no-token")
    fine(created)
    assert created.stderr.endswith("stores every message as unverified, until a handshake brings one.\n")


def test_a_verify_token_is_no_secret_that_a_message_is_checked_with(command: Command) -> None:
    fine(command("inbox", "create", "token-only", "--verifier", "meta", "--no-token"))
    words = ("inbox", "secret", "add", "token-only", "--name", "verify_token", "--secret", "t")
    assert "expects this verify_token" in fine(command(*words))
    changed = command("inbox", "set", "token-only", "--on-unverified", "reject")
    fine(changed)
    assert "has no secret yet, so it refuses every message" in changed.stderr


def test_secrets_of_an_inbox_that_is_not_there_are_not_found(command: Command) -> None:
    for words in (("add", "nowhere", "--secret", "s"), ("list", "nowhere"), ("retire", "nowhere", "x")):
        assert "not_found" in sentence(command("inbox", "secret", *words), 5)
    fine(command("inbox", "create", "present", "--no-token"))
    assert "not_found" in sentence(command("inbox", "secret", "retire", "present", "nothing"), 5)


def test_a_secret_is_asked_for_only_on_a_terminal(command: Command) -> None:
    fine(command("inbox", "create", "asking", "--no-token"))
    assert "--secret-env or --secret-file" in sentence(command("inbox", "secret", "add", "asking"), 2)
    assert "NOWHERE is not set" in sentence(
        command("inbox", "secret", "add", "asking", "--secret-env", "NOWHERE"), 2
    )


def test_the_question_before_secrets_are_removed_says_how_many_of_which_inboxes() -> None:
    assert question((("a", "one"),)) == "Remove 1 secret that no key given here opens (1 of a)?"
    names = (("a", "one"), ("b", "one"), ("a", "two"))
    assert question(names) == "Remove 3 secrets that no key given here opens (2 of a, 1 of b)?"
    many = question(tuple((f"inbox-{n}", "one") for n in range(MAX_ASKED + 3)))
    assert many.startswith(f"Remove {MAX_ASKED + 3} secrets")
    assert many.endswith(f"1 of inbox-{MAX_ASKED - 1}, and those of 3 more inboxes)?")
