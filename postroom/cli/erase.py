"""`postroom erase`: one message taken out of an inbox for good."""

import click

from postroom.cli.program import Remote, confirm, remote, yes_option
from postroom.cli.terminal import print_json, safe
from postroom.client import segment


@click.command()
@click.argument("slug")
@click.argument("seq", type=int)
@yes_option
@remote
def erase(remote: Remote, slug: str, seq: int, yes: bool) -> None:
    """Erase one message of an inbox for good. Its number stays used (needs an admin token)."""
    confirm(f"Erase message {seq} of {slug} for good?", yes)
    with remote.api() as api:
        api.call("DELETE", f"/v1/inboxes/{segment(slug)}/messages/{seq}")
    if remote.as_json:
        print_json({"inbox": slug, "erased": seq})
        return
    click.echo(f"Erased message {seq} of {safe(slug)}.")
