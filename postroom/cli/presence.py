"""`checkin`, `checkout` and `agents`: saying that one is there, taking one's leave, and seeing who else is there."""

from typing import Any

import click

from postroom.cli.program import EXIT_USAGE, Failure, Remote, agent_option, remote
from postroom.cli.secrets import read_secret, secret_options
from postroom.cli.terminal import print_json, safe, table, when
from postroom.cli.times import Span
from postroom.mesh import Mesh

SHARED = "another session reads this agent's mail, too: what one is served the other does not get."


@click.command()
@agent_option
@click.option("--role", metavar="TEXT", help="What you are here for.")
@click.option("--repo", metavar="TEXT", help="What you work on.")
@click.option("--cap", "caps", multiple=True, metavar="TEXT", help="Something you can do; may be repeated.")
@click.option("--status", metavar="TEXT", help="What you are doing, in at most 200 characters.")
@click.option(
    "--ttl", type=Span(), metavar="SPAN", help="Count as stale after so long without a call.  [server's: 300]"
)
@click.option("--wake", "wake_url", metavar="URL", help="Have this URL called when mail has come.")
@secret_options
@remote
def checkin(
    remote: Remote,
    agent_id: str | None,
    role: str | None,
    repo: str | None,
    caps: tuple[str, ...],
    status: str | None,
    ttl: int | None,
    wake_url: str | None,
    secret: str | None,
    secret_env: str | None,
    secret_file: str | None,
) -> None:
    """Say that an agent is there, in place of all that it said before; calls of its own renew that.

    --secret-env, --secret-file and --secret sign the calls to the URL of --wake.
    """
    key = read_secret(secret, secret_env, secret_file)
    if key is not None and wake_url is None:
        raise Failure("a secret is for the URL of --wake.", EXIT_USAGE)
    wake = None if wake_url is None else {"url": wake_url} | ({} if key is None else {"secret": key})
    with remote.api() as api:
        answer = Mesh(api, agent_id).check_in(
            role=role, repo=repo, caps=caps or None, status=status, ttl_seconds=ttl, wake=wake
        )
    if answer["shared_reader"]:
        click.echo(f"postroom: {SHARED}", err=True)
    if remote.as_json:
        print_json(answer)
        return
    where = f"{answer['agent_id']} on {answer['machine']}"
    click.echo(f"Checked in {safe(where)}, until {when(answer['expires_at'])}. Unread: {answer['unread']:,}.")


@click.command()
@agent_option
@remote
def checkout(remote: Remote, agent_id: str | None) -> None:
    """Say farewell in an agent's name: it is gone, and broadcasts pass it by, until it checks in again."""
    with remote.api() as api:
        answer = Mesh(api, agent_id).check_out()
    if remote.as_json:
        print_json(answer)
        return
    click.echo(f"Checked out {safe(answer['agent_id'])}.")


@click.command()
@click.option(
    "--agent",
    "agent_id",
    metavar="AGENT",
    help="Count this as a sign of life of that agent, as other calls are.",
)
@click.option("--all", "include_stale", is_flag=True, help="Also those that are stale or gone.")
@remote
def agents(remote: Remote, agent_id: str | None, include_stale: bool) -> None:
    """List the agents of the machines that the token reaches, with what they say of themselves."""
    with remote.api() as api:
        answer = Mesh(api, agent_id).roster(include_stale=include_stale, renew=agent_id is not None)
    if remote.as_json:
        print_json(answer)
        return
    if not answer["agents"]:
        click.echo("No agents." if include_stale else "No agents that are alive; --all shows the others.")
        return
    table(
        ("AGENT", "MACHINE", "STATE", "UNREAD", "HEARD OF", "SAYS"),
        map(_row, answer["agents"]),
        right=("UNREAD",),
    )


def _row(one: dict[str, Any]) -> tuple[object, ...]:
    return (
        one["agent_id"],
        one["machine"] or "–",
        one["state"],
        f"{one['unread']:,}",
        when(one["last_activity_at"]),
        _says(one["untrusted"]),
    )


def _says(card: dict[str, Any]) -> str:
    """Return what an agent says of itself, on one line."""
    parts = [card.get("role"), card.get("repo"), ", ".join(card.get("caps") or ()), card.get("status")]
    return "; ".join(str(part) for part in parts if part) or "–"
