"""`postroom verifiers`, and that options which take a verifier follow the same table."""

import json

import click
import pytest
from click.shell_completion import ShellComplete

from postroom.cli.commands import program
from postroom.cli.verifiers import UNTESTED
from tests.postroom.conftest import run
from web.verify.registry import SCHEMES, described


def completions(*words: str, incomplete: str) -> set[str]:
    shell = ShellComplete(program, {}, "postroom", "_POSTROOM_COMPLETE")
    return {item.value for item in shell.get_completions(list(words), incomplete)}


def test_every_verifier_is_listed_with_what_it_checks_and_is_held_to() -> None:
    head, *rows = run("verifiers").stdout.splitlines()
    assert head.split() == ["VERIFIER", "HELD", "TO", "CHECKS"]
    listed = {row.split()[0]: row for row in rows if not row.startswith(" ")}
    assert set(listed) == {one.name for one in described()}
    for one in described():
        assert one.checks.split()[0] in listed[one.name]
        assert (UNTESTED in listed[one.name]) == (not one.tested and one.name != "none")
        assert all(alias in listed[one.name] for alias in one.aliases)
    assert "official vector" in listed["github"]
    assert "SDK" in listed["stripe"]
    assert UNTESTED in listed["typeform"]


def test_the_list_needs_no_server_and_is_one_document_for_scripts() -> None:
    result = run("verifiers", "--json", POSTROOM_URL="http://127.0.0.1:1")
    listed = json.loads(result.stdout)["verifiers"]
    names = {name for one in listed for name in (one["name"], *one["aliases"])}
    assert names == set(SCHEMES)
    [meta] = [one for one in listed if one["name"] == "meta"]
    assert (meta["aliases"], meta["signs"], meta["tested"]) == (["whatsapp"], True, False)
    [discord] = [one for one in listed if one["name"] == "discord"]
    assert (discord["signs"], discord["evidence"]) == (False, ["derived vector"])


@pytest.mark.parametrize(
    ("words", "option", "left_out"),
    [
        (("inbox", "create"), "--verifier", set()),
        (("inbox", "set", "demo"), "--verifier", set()),
        (("send", "demo"), "--sign", {"none"}),
    ],
)
def test_options_complete_and_refuse_by_the_table(
    words: tuple[str, ...], option: str, left_out: set[str]
) -> None:
    assert completions(*words, option, incomplete="") == set(SCHEMES) - left_out
    assert completions(*words, option, incomplete="gi") == {"github", "gitea", "gitlab"}
    refused = run(*words, option, "githib")
    assert refused.exit_code == 2
    assert "Did you mean github" in refused.stderr
    assert "`postroom verifiers` lists them" in refused.stderr
    assert "Did you mean" not in run(*words, option, "qqqq").stderr
    for name in left_out:
        assert run(*words, option, name).exit_code == 2


def test_no_help_lists_verifiers_of_its_own() -> None:
    for name in ("create", "set"):
        group = program.commands["inbox"]
        assert isinstance(group, click.Group)
        [option] = [param for param in group.commands[name].params if param.name == "verifier"]
        assert isinstance(option, click.Option)
        assert "postroom verifiers" in (option.help or "")
