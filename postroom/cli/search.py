"""`search`: which messages of an inbox have certain words."""

import json

import click

from postroom.cli.program import EXIT_USAGE, Failure, Remote, remote
from postroom.cli.read import message_table
from postroom.cli.terminal import print_json
from postroom.client import Params, segment


# A word to leave out looks like options: without `-h`, or `-house` would be a cry for help.
@click.command(context_settings={"ignore_unknown_options": True, "help_option_names": ["--help"]})
@click.argument("slug")
@click.argument("words", nargs=-1, required=True)
@click.option("--before", type=int, metavar="SEQ", help="Only messages before SEQ.")
@click.option("--limit", type=int, metavar="N", help="At most N messages, 1 to 100.  [server's default: 20]")
@remote
def search(remote: Remote, slug: str, words: tuple[str, ...], before: int | None, limit: int | None) -> None:
    """Find messages that have all the WORDS, the newest first.

    "several words" in quotation marks stand together, -word leaves out messages that have it, and word* finds all
    words that begin so. In a shell, write '"several words"' and 'word*'. The inbox must have its search switched on
    (postroom inbox set SLUG --search).
    """
    strange = next((word for word in words if word.startswith("--")), None)
    if strange is not None:
        raise Failure(f"there is no option {strange} here.", EXIT_USAGE)
    params: Params = [("q", " ".join(words))]
    params += [
        (name, str(value)) for name, value in (("before", before), ("limit", limit)) if value is not None
    ]
    with remote.api() as api:
        answer = api.call("GET", f"/v1/inboxes/{segment(slug)}/search", params=params)
    if remote.as_json:
        print_json(answer)
        return
    page = json.loads(answer)
    message_table(page["messages"])
    if page["next_before"] is not None:
        click.echo(f"Older ones: --before {page['next_before']}", err=True)
    if page["indexed_seq"] < page["latest_seq"]:
        click.echo(f"Messages after {page['indexed_seq']} are not indexed yet.", err=True)
