"""`docs/providers.md`: its commands print what the page says, and it leaves no verifier out."""

import re
from pathlib import Path

from tests.postroom.serverproc import ServerProcess
from tests.postroom.test_api_docs import anchor
from tests.postroom.tour import BLOCK, PROVIDERS, SETTINGS, as_printed, commands_of, differences
from web.verify.registry import SCHEMES, canonical, described

PAGE = PROVIDERS.read_text()
ROW = re.compile(r"^\| `([a-z-]+)`(?: \(`([a-z-]+)`\))? \|", re.M)

AT_LENGTH = {
    "github",
    "gitlab",
    "stripe",
    "slack",
    "shopify",
    "twilio",
    "discord",
    "standard-webhooks",
    "meta",
    "linear",
}


def words() -> list[list[str]]:
    """Return the words of every `postroom` command that the page runs."""
    commands = [command for block in BLOCK.findall(PAGE) for command, _ in commands_of(block[1])]
    return [command.replace("\\\n", "").split() for command in commands if command.startswith("postroom ")]


def option(command: list[str], name: str) -> str | None:
    return command[command.index(name) + 1] if name in command else None


def test_the_examples_print_what_the_page_says(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "data", **SETTINGS[PROVIDERS]) as server:
        for command, said, real in differences(PROVIDERS, as_printed, server):
            assert said == real, command


def test_ten_providers_have_an_inbox_a_secret_and_a_sample_each() -> None:
    created = {
        command[3]: option(command, "--verifier")
        for command in words()
        if command[1:3] == ["inbox", "create"]
    }
    secrets = {command[4] for command in words() if command[1:4] == ["inbox", "secret", "add"]}
    secrets |= {command[3] for command in words() if command[2] == "create" and "--secret-env" in command}
    signed = {command[2]: option(command, "--sign") for command in words() if command[1] == "send"}
    assert {canonical(preset or "") for preset in created.values()} == AT_LENGTH
    assert secrets == set(created)
    assert signed == created


def test_every_sample_is_shown_to_be_verified_but_that_of_a_public_key() -> None:
    shown = [
        output
        for block in BLOCK.findall(PAGE)
        for command, output in commands_of(block[1])
        if command.startswith("postroom send")
    ]
    assert len([output for output in shown if ": verified, " in output]) == len(shown) - 1


def test_all_others_are_in_the_table() -> None:
    listed = {name: alias or None for name, alias in ROW.findall(PAGE)}
    others = {one.name: one for one in described() if one.name not in AT_LENGTH | {"none"}}
    assert set(listed) == set(others)
    for name, alias in listed.items():
        assert others[name].aliases == ((alias,) if alias else ())


def test_the_page_names_every_verifier_by_all_its_names() -> None:
    for name in SCHEMES:
        assert f"`{name}`" in PAGE or f"--verifier {name}" in PAGE, name


def test_the_links_of_the_page_lead_somewhere() -> None:
    for link in re.findall(r"\]\(([^)]+)\)", PAGE):
        page, _, place = link.partition("#")
        text = (PROVIDERS.parent / page).read_text() if page else PAGE
        assert place in {anchor(heading) for heading in re.findall(r"^#+ (.+)$", text, re.M)}, link
