"""`health`: whether a server is ready, for whatever watches it. Needs no token."""

import click

from postroom.cli.program import EXIT_LATER, Failure, url_option
from postroom.cli.terminal import print_json
from postroom.client import Client

WATCH_SECONDS = 5.0
"""To answer: it takes a millisecond, and a watcher that waits for longer learns nothing by it."""


@click.command()
@url_option
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document, what /readyz says.")
def health(url: str, as_json: bool) -> None:
    """Tell whether the server takes messages in: exit code 0 when it is ready, 7 when it is not, 3 when none answers.

    A container's or a supervisor's health check; it needs no token.
    """
    with Client(url, None, read_seconds=WATCH_SECONDS) as client:
        said = client.readiness()
    if as_json:
        print_json(said)
    elif said["ready"]:
        click.echo("ready")
    if not said["ready"]:
        why = "it is stopping" if said.get("stopping") else f"the store is {said.get('store', 'not open')}"
        reason = f" ({said['reason']})" if said.get("reason") else ""
        raise Failure(f"not ready: {why}{reason}.", EXIT_LATER)
