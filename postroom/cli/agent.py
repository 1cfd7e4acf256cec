"""`postroom agent …`: creating agents, each with a private inbox and a token of its own, listing and deleting them."""

from collections.abc import Iterator
from typing import Any

import click

from postroom.cli.program import EXIT_USAGE, Failure, Remote, confirm, remote, yes_option
from postroom.cli.terminal import facts, print_json, safe, table, when
from postroom.cli.token import all_option, scope_of
from postroom.client import Client, segment

ROUTE = "/v1/agents"


@click.group()
def agent() -> None:
    """Create, list, show and delete agents (needs an admin token)."""


@agent.command()
@click.argument("agent_id")
@click.option(
    "--inbox",
    "--inboxes",
    "inboxes",
    multiple=True,
    metavar="SLUG",
    help="Its token may read it, and its beacons hear of it; may be repeated.",
)
@all_option
@click.option("--machine", metavar="NAME", help="The machine that it belongs to.")
@click.option("--no-token", is_flag=True, help="Do not issue a token.")
@remote
def create(
    remote: Remote,
    agent_id: str,
    inboxes: tuple[str, ...],
    all_inboxes: bool,
    machine: str | None,
    no_token: bool,
) -> None:
    """Create an agent with its private inbox, and issue a token for it, printed once.

    The token drains the private inbox, publishes in the agent's name and places its beacons. It reads the
    inboxes that are named here, and no others but `commons`.
    """
    scope = scope_of(inboxes, all_inboxes)
    if no_token and scope is not None:
        raise Failure("inboxes are what the token may read: --no-token takes none.", EXIT_USAGE)
    body: dict[str, Any] = {"agent_id": agent_id} | ({} if machine is None else {"machine": machine})
    if not no_token:
        body |= {"issue_token": True} | ({} if scope is None else {"inboxes": scope})  # a flag, no token # nosec B105
    with remote.api() as api:
        answer = api.json("POST", ROUTE, body=body)
    if remote.as_json:
        print_json(answer)
        return
    click.echo(f"Created the agent {safe(answer['agent_id'])}; its inbox is {safe(answer['inbox'])}.")
    if "token" in answer:
        click.echo(
            f"\nA token of this agent, shown this once:\n  export POSTROOM_TOKEN={safe(answer['token'])}"
        )


@agent.command("list")
@remote
def list_(remote: Remote) -> None:
    """List the agents of the server."""
    with remote.api() as api:
        agents = list(_all(api))
    if remote.as_json:
        print_json({"agents": agents})
        return
    if not agents:
        click.echo("No agents.")
        return
    rows = (
        (one["agent_id"], one["inbox"], one.get("machine") or "–", when(one["created_at"])) for one in agents
    )
    table(("AGENT", "INBOX", "MACHINE", "CREATED"), rows)


def _all(api: Client) -> Iterator[dict[str, Any]]:
    after: str | None = None
    while True:
        page = api.json("GET", ROUTE, params=None if after is None else [("after", after)])
        yield from page["agents"]
        following = page.get("next_after")
        if following is None or following == after:
            return
        after = following


@agent.command()
@click.argument("agent_id")
@remote
def show(remote: Remote, agent_id: str) -> None:
    """Show an agent."""
    with remote.api() as api:
        answer = api.json("GET", f"{ROUTE}/{segment(agent_id)}")
    if remote.as_json:
        print_json(answer)
        return
    facts(answer.items())


@agent.command()
@click.argument("agent_id")
@yes_option
@remote
def delete(remote: Remote, agent_id: str, yes: bool) -> None:
    """Delete an agent with its private inbox and beacons, and revoke its tokens."""
    confirm(f"Delete the agent {agent_id} with its inbox, beacons and tokens?", yes)
    with remote.api() as api:
        api.call("DELETE", f"{ROUTE}/{segment(agent_id)}")
    if remote.as_json:
        print_json({"deleted": agent_id})
        return
    click.echo(f"Deleted the agent {safe(agent_id)}.")
