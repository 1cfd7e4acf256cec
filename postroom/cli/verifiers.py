"""`postroom verifiers`: every verifier, what it checks and what it is held to. Local: the program's own table."""

from typing import TYPE_CHECKING

import click

from postroom.cli.terminal import print_json, table

if TYPE_CHECKING:
    from web.verify.registry import Description

UNTESTED = "from public documentation, not tested against the provider"


def held_to(one: "Description") -> str:
    """Return what the tests compare a verifier with, in words; `–` where there is nothing to compare."""
    if one.name == "none":
        return "–"
    return ", ".join(one.evidence) if one.tested else UNTESTED


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def verifiers(as_json: bool) -> None:
    """List the verifiers that an inbox may have: presets of providers, and the general ones.

    HELD TO: what the tests compare a verifier with. An official vector was printed by the provider, a derived one
    computed from its published algorithm; SDK is the provider's own library, as a signer.
    """
    # Imported here: no other command needs the descriptions.
    from web.verify.registry import described

    if as_json:
        print_json(
            {
                "verifiers": [
                    {
                        "name": one.name,
                        "aliases": list(one.aliases),
                        "checks": one.checks,
                        "evidence": list(one.evidence),
                        "tested": one.tested,
                        "signs": one.signs,
                    }
                    for one in described()
                ]
            }
        )
        return
    table(
        ("VERIFIER", "HELD TO", "CHECKS"),
        (
            (
                f"{one.name} ({', '.join(one.aliases)})" if one.aliases else one.name,
                held_to(one),
                one.checks,
            )
            for one in described()
        ),
    )
