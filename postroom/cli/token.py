"""`postroom token …`: making, listing, changing and revoking tokens, and the cure for a lost admin token."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import click

from postroom.cli.configured import offline_options
from postroom.cli.program import EXIT_USAGE, Failure, Remote, confirm, remote, yes_option
from postroom.cli.terminal import facts, print_json, safe, table, when
from postroom.cli.times import span_seconds
from postroom.client import Client, Params, segment
from postroom.config import Config
from web.grammar import parse_time

PAGE_ITEMS = 100
"""Tokens asked for at once: the server's own maximum."""


@click.group()
def token() -> None:
    """Make, list, change and revoke tokens (needs an admin token)."""


def _expiry(given: str | None) -> str | None:
    """Return an RFC 3339 time for `30d` (from now) or a time as given. Raises `Failure`, also for a time that is past:
    a token that ends before it is used is a mistake, and one that must end now is revoked.
    """
    if given is None:
        return None
    now = datetime.now(UTC)
    seconds = span_seconds(given)
    text = given
    try:
        if seconds is not None:
            ends = now + timedelta(seconds=seconds)
            text = ends.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        ends_us = parse_time(text)
    except OverflowError:
        raise Failure(
            f"--expires {given} is beyond the year 9999; leave it out for no end.", EXIT_USAGE
        ) from None
    except ValueError:
        message = f"--expires takes a span such as 30d or 12h, or an RFC 3339 time, not {given!r}."
        raise Failure(message, EXIT_USAGE) from None
    if ends_us <= now.timestamp() * 1_000_000:
        raise Failure(f"--expires {given} is no time to come; `token revoke` ends a token.", EXIT_USAGE)
    return text


def scope_of(inboxes: tuple[str, ...], all_inboxes: bool) -> Any:
    """Return what the options say that a token may read, as the API takes it; None when they say nothing."""
    if inboxes and all_inboxes:
        raise Failure("give --inbox or --all-inboxes, not both.", EXIT_USAGE)
    return "all" if all_inboxes else list(inboxes) or None


expires_option = click.option("--expires", metavar="SPAN|TIME", help="Such as 30d, 12h, or an RFC 3339 time.")
inbox_option = click.option(
    "--inbox", "inboxes", multiple=True, metavar="SLUG", help="May read it; may be repeated."
)
all_option = click.option("--all-inboxes", is_flag=True, help="May read every webhook and topic inbox.")
reach_option = click.option(
    "--reach",
    multiple=True,
    metavar="MACHINE",
    help="May see and write to this machine's agents, too; may be repeated.",
)


@token.command()
@click.option(
    "--kind",
    type=click.Choice(["agent", "machine", "admin"]),
    default="agent",
    show_default=True,
    help="An agent reads inboxes, a machine speaks for its agents, an admin may do everything.",
)
@click.option("--agent", metavar="AGENT", help="A token of this agent: it drains the agent's inbox, too.")
@click.option("--machine", metavar="NAME", help="With --kind machine: of this machine.")
@inbox_option
@all_option
@reach_option
@click.option("--name", help="A name for people.")
@expires_option
@remote
def create(
    remote: Remote,
    kind: str,
    agent: str | None,
    machine: str | None,
    inboxes: tuple[str, ...],
    all_inboxes: bool,
    reach: tuple[str, ...],
    name: str | None,
    expires: str | None,
) -> None:
    """Make a token and print it once. An agent token reads the inboxes that it is issued for."""
    scope = scope_of(inboxes, all_inboxes)
    _check_whose(kind, agent, machine, scope, reach)
    body = {"kind": kind, "agent": agent, "machine": machine, "inboxes": scope, "name": name}
    body |= {"machines": list(reach) or None, "expires_at": _expiry(expires)}
    with remote.api() as api:
        answer = api.json("POST", "/v1/tokens", body={k: v for k, v in body.items() if v is not None})
    if remote.as_json:
        print_json(answer)
        return
    click.echo(f"Made the token {safe(answer['token_id'])}; its text is shown this once:")
    click.echo(f"  export POSTROOM_TOKEN={safe(answer['token'])}")


def _check_whose(
    kind: str, agent: str | None, machine: str | None, scope: Any, reach: tuple[str, ...]
) -> None:
    """Raise `Failure` for options that do not go together."""
    if kind == "agent" and scope is None and agent is None:
        raise Failure("say what the token may read: --inbox SLUG or --all-inboxes.", EXIT_USAGE)
    if kind == "admin" and (scope is not None or reach):
        raise Failure("an admin token may do everything; it takes no --inbox and no --reach.", EXIT_USAGE)
    if kind != "agent" and agent is not None:
        raise Failure(f"a token of the kind {kind} is no agent's; it takes no --agent.", EXIT_USAGE)
    if (kind == "machine") != (machine is not None):
        raise Failure("--kind machine and --machine NAME go together.", EXIT_USAGE)


@token.command("list")
@remote
def list_(remote: Remote) -> None:
    """List the tokens that are not revoked, the oldest first."""
    with remote.api() as api:
        tokens = list(_all(api))
    if remote.as_json:
        print_json({"tokens": tokens})
        return
    rows = (
        (
            one["token_id"],
            one["kind"],
            _reads(one),
            one.get("name") or "",
            when(one.get("expires_at")),
            when(one.get("last_used_at")),
        )
        for one in tokens
    )
    table(("TOKEN ID", "KIND", "READS", "NAME", "EXPIRES", "LAST USED"), rows)


def _reads(one: dict[str, Any]) -> str:
    if one["kind"] == "admin" or one.get("inboxes") == "all":
        return "all"
    return " ".join(one.get("inboxes") or ()) or "nothing"


def _all(api: Client) -> Iterator[dict[str, Any]]:
    after: str | None = None
    while True:
        params: Params = [("limit", PAGE_ITEMS)]
        if after is not None:
            params.append(("after", after))
        page = api.json("GET", "/v1/tokens", params=params)
        yield from page["tokens"]
        following = page.get("next_after")
        if following is None or following == after:
            return
        after = following


@token.command("set")
@click.argument("token_id")
@inbox_option
@all_option
@reach_option
@click.option("--no-reach", is_flag=True, help="No machines but its own.")
@click.option("--name", help="A name for people.")
@expires_option
@click.option("--no-expiry", is_flag=True, help="Never expire.")
@remote
def set_(
    remote: Remote,
    token_id: str,
    inboxes: tuple[str, ...],
    all_inboxes: bool,
    reach: tuple[str, ...],
    no_reach: bool,
    name: str | None,
    expires: str | None,
    no_expiry: bool,
) -> None:
    """Change what a token may read (--inbox replaces the whole list, --reach too), its name or its expiry."""
    if no_expiry and expires:
        raise Failure("give --expires or --no-expiry, not both.", EXIT_USAGE)
    if no_reach and reach:
        raise Failure("give --reach or --no-reach, not both.", EXIT_USAGE)
    changes = {"inboxes": scope_of(inboxes, all_inboxes), "name": name, "expires_at": _expiry(expires)}
    body: dict[str, Any] = {k: v for k, v in changes.items() if v is not None}
    if reach or no_reach:
        body["machines"] = list(reach)
    if no_expiry:
        body["expires_at"] = None
    if not body:
        raise Failure("name at least one thing to change (see --help).", EXIT_USAGE)
    with remote.api() as api:
        answer = api.json("PATCH", f"/v1/tokens/{segment(token_id)}", body=body)
    if remote.as_json:
        print_json(answer)
        return
    facts(answer.items())


@token.command()
@click.argument("token_id")
@yes_option
@remote
def revoke(remote: Remote, token_id: str, yes: bool) -> None:
    """Revoke a token for good; it fails from the next call on."""
    confirm(f"Revoke the token {token_id}?", yes)
    with remote.api() as api:
        api.call("DELETE", f"/v1/tokens/{segment(token_id)}")
    if remote.as_json:
        print_json({"revoked": token_id})
        return
    click.echo(f"Revoked {safe(token_id)}.")


@token.command("reset-admin")
@yes_option
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@offline_options
def reset_admin(config: Config, yes: bool, as_json: bool) -> None:
    """Make a new admin token and revoke all others of that kind, for when the old one is lost.

    Works on the data directory itself, while no server is running on it.
    """
    from postroom.cli.offline import run_reset

    confirm(f"Revoke every admin token of {config.data_dir} and make a new one?", yes)
    text = run_reset(config)
    if as_json:
        print_json({"token": text, "data_dir": str(Path(config.data_dir))})
        return
    click.echo("The new admin token, shown this once; the old ones no longer work:")
    click.echo(f"  export POSTROOM_TOKEN={text}")
