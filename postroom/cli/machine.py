"""`postroom machine …`: creating machines, whose agents write to each other, listing and deleting them."""

from collections.abc import Iterator
from typing import Any

import click

from postroom.cli.program import EXIT_USAGE, Failure, Remote, confirm, remote, yes_option
from postroom.cli.terminal import facts, print_json, safe, table, when
from postroom.cli.token import all_option, inbox_option, reach_option, scope_of
from postroom.client import Client, ClientError, segment

ROUTE = "/v1/machines"


@click.group()
def machine() -> None:
    """Create, list, show and delete machines (needs an admin token)."""


@machine.command()
@click.argument("name")
@inbox_option
@all_option
@reach_option
@click.option("--no-token", is_flag=True, help="Do not issue a token.")
@remote
def create(
    remote: Remote,
    name: str,
    inboxes: tuple[str, ...],
    all_inboxes: bool,
    reach: tuple[str, ...],
    no_token: bool,
) -> None:
    """Create a machine with its inbox, and issue a token for it, printed once.

    The token speaks for every agent of the machine, present and future. Agents are put on it with
    `postroom agent create AGENT_ID --machine NAME`.
    """
    scope = scope_of(inboxes, all_inboxes)
    if no_token and (scope is not None or reach):
        raise Failure("inboxes and machines are what the token may reach: --no-token takes none.", EXIT_USAGE)
    with remote.api() as api:
        answer = api.json("POST", ROUTE, body={"name": name})
        issued = {} if no_token else _issue(api, name, scope, reach)
    if remote.as_json:
        print_json({**answer, **issued})
        return
    click.echo(f"Created the machine {safe(answer['name'])}; its inbox is {safe(answer['inbox'])}.")
    if issued:
        click.echo(
            f"\nA token of this machine, shown this once:\n  export POSTROOM_TOKEN={safe(issued['token'])}"
        )


def _issue(api: Client, name: str, scope: Any, reach: tuple[str, ...]) -> dict[str, Any]:
    """Return id and text of a new token for a machine; says so when there is a machine and no token."""
    body = {"kind": "machine", "machine": name, "inboxes": scope, "machines": list(reach) or None}
    try:
        answer = api.json("POST", "/v1/tokens", body={k: v for k, v in body.items() if v is not None})
    except ClientError:
        again = f"postroom token create --kind machine --machine {name} …"
        click.echo(f"postroom: the machine {safe(name)} was created, its token was not: {again}", err=True)
        raise
    return {"token_id": answer["token_id"], "token": answer["token"]}


@machine.command("list")
@remote
def list_(remote: Remote) -> None:
    """List the machines of the server."""
    with remote.api() as api:
        machines = list(_all(api))
    if remote.as_json:
        print_json({"machines": machines})
        return
    if not machines:
        click.echo("No machines.")
        return
    rows = ((one["name"], one["inbox"], one["agents"], when(one["created_at"])) for one in machines)
    table(("MACHINE", "INBOX", "AGENTS", "CREATED"), rows, right=("AGENTS",))


def _all(api: Client) -> Iterator[dict[str, Any]]:
    after: str | None = None
    while True:
        page = api.json("GET", ROUTE, params=None if after is None else [("after", after)])
        yield from page["machines"]
        following = page.get("next_after")
        if following is None or following == after:
            return
        after = following


@machine.command()
@click.argument("name")
@remote
def show(remote: Remote, name: str) -> None:
    """Show a machine."""
    with remote.api() as api:
        answer = api.json("GET", f"{ROUTE}/{segment(name)}")
    if remote.as_json:
        print_json(answer)
        return
    facts(answer.items())


@machine.command()
@click.argument("name")
@yes_option
@remote
def delete(remote: Remote, name: str, yes: bool) -> None:
    """Delete a machine with its inbox, its agents, their inboxes and beacons, and revoke all their tokens."""
    confirm(f"Delete the machine {name} with all its agents, their inboxes and tokens?", yes)
    with remote.api() as api:
        api.call("DELETE", f"{ROUTE}/{segment(name)}")
    if remote.as_json:
        print_json({"deleted": name})
        return
    click.echo(f"Deleted the machine {safe(name)}.")
