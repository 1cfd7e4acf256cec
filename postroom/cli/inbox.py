"""`postroom inbox …`: creating, showing, changing and deleting inboxes. Without a subcommand: an agent's own mail."""

from collections.abc import Iterator
from typing import Any

import click

from postroom.cli.inbox_secret import inbox_route, secret, warn_of_no_secret
from postroom.cli.inbox_settings import settings_options
from postroom.cli.mail import read_mail
from postroom.cli.program import EXIT_USAGE, Failure, Remote, agent_option, confirm, remote, yes_option
from postroom.cli.secrets import read_secret, secret_options
from postroom.cli.terminal import facts, print_json, safe, table
from postroom.client import Client, Params

COMMAND_LINE = click.core.ParameterSource.COMMANDLINE

PAGE_ITEMS = 100
"""Inboxes asked for at once: the server's own maximum."""


@click.group(invoke_without_command=True)
@agent_option
@click.option("--limit", type=int, metavar="N", help="At most N messages, 1 to 100.  [server's default: 50]")
@click.option("--peek", is_flag=True, help="Mark nothing, and show all that is not acknowledged.")
@click.option("--wake-token", metavar="TOKEN", help="What woke you: that you came is noted with it.")
@remote
def inbox(
    remote: Remote, agent_id: str | None, limit: int | None, peek: bool, wake_token: str | None
) -> None:
    """Read the mail of the token's agent; with a subcommand: create, show, change and delete inboxes.

    Prints what is new, the oldest first, and marks it as served, so that the next call prints what came since.
    It stays unread until `postroom ack ID…`; --peek shows it again. What others wrote stands on lines that begin
    with "|". The subcommands need an admin token, except list.
    """
    context = click.get_current_context()
    if context.invoked_subcommand is None:
        read_mail(remote, agent_id, limit, peek, wake_token)
        return
    given = [name for name in context.params if context.get_parameter_source(name) == COMMAND_LINE]
    if given:
        raise Failure("options of a subcommand follow it.", EXIT_USAGE)


inbox.add_command(secret)


@inbox.command()
@click.argument("slug", required=False)
@click.option(
    "--kind", type=click.Choice(["webhook", "topic"]), help="What may be put into it.  [default: webhook]"
)
@settings_options
@secret_options
@click.option("--no-token", is_flag=True, help="Do not issue an agent token for this inbox.")
@remote
def create(
    remote: Remote,
    slug: str | None,
    kind: str | None,
    changes: dict[str, Any],
    secret: str | None,
    secret_env: str | None,
    secret_file: str | None,
    no_token: bool,
) -> None:
    """Create an inbox. Without a SLUG it gets an unguessable one.

    Also issues a token that may read this inbox only, and prints it once.
    """
    value = read_secret(secret, secret_env, secret_file)
    named = {"slug": slug, "kind": kind, "secret": value}
    body: dict[str, Any] = {name: given for name, given in named.items() if given is not None}
    body |= {**changes, "issue_token": not no_token}
    with remote.api() as api:
        answer = api.json("POST", "/v1/inboxes", body=body)
    warn_of_no_secret(answer)
    if remote.as_json:
        print_json(answer)
        return
    click.echo(f"Created the inbox {safe(answer['slug'])}.")
    facts((("ingest URL", answer["ingest_url"]), ("verifier", answer["verifier"])))
    if answer.get("token"):
        click.echo(
            "\nA token that reads this inbox, shown this once:\n"
            f"  export POSTROOM_TOKEN={safe(answer['token'])}"
        )


@inbox.command("list")
@remote
def list_(remote: Remote) -> None:
    """List the inboxes that the token may read (an admin token: all)."""
    with remote.api() as api:
        inboxes = list(_all(api))
    if remote.as_json:
        print_json({"inboxes": inboxes})
        return
    if not inboxes:
        click.echo("No inboxes.")
        return
    rows = (
        (
            one["slug"],
            one["kind"],
            one["verifier"] or "none",
            one["latest_seq"],
            _kept(one),
            one["name"] or "",
        )
        for one in inboxes
    )
    table(("SLUG", "KIND", "VERIFIER", "LATEST", "KEPT FROM", "NAME"), rows, right=("LATEST", "KEPT FROM"))


def _kept(one: dict[str, Any]) -> object:
    return one["first_seq"] if one["first_seq"] <= one["latest_seq"] else "–"


def _all(api: Client) -> Iterator[dict[str, Any]]:
    after: str | None = None
    while True:
        params: Params = [("limit", PAGE_ITEMS)]
        if after is not None:
            params.append(("after_slug", after))
        page = api.json("GET", "/v1/inboxes", params=params)
        yield from page["inboxes"]
        following = page.get("next_after_slug")
        if following is None or following == after:
            return
        after = following


def _print(remote: Remote, answer: Any) -> None:
    if remote.as_json:
        print_json(answer)
    else:
        facts(answer.items())


@inbox.command()
@click.argument("slug")
@remote
def show(remote: Remote, slug: str) -> None:
    """Show an inbox and its settings; secrets appear by name only."""
    with remote.api() as api:
        _print(remote, api.json("GET", inbox_route(slug)))


@inbox.command("set")
@click.argument("slug")
@settings_options
@click.option("--no-response", is_flag=True, help="Answer senders with the id and seq again.")
@remote
def set_(remote: Remote, slug: str, changes: dict[str, Any], no_response: bool) -> None:
    """Change settings of an inbox; what is not named stays. `none` takes a limit away."""
    if no_response and "response" in changes:
        raise Failure("give --no-response or the options of a response, not both.", EXIT_USAGE)
    if no_response:
        changes["response"] = None
    if not changes:
        raise Failure("name at least one setting to change (see --help).", EXIT_USAGE)
    with remote.api() as api:
        answer = api.json("PATCH", inbox_route(slug), body=changes)
    warn_of_no_secret(answer)
    _print(remote, answer)


@inbox.command()
@click.argument("slug")
@yes_option
@remote
def purge(remote: Remote, slug: str, yes: bool) -> None:
    """Delete every message of an inbox. Its numbering goes on, and readers are told of the gap."""
    confirm(f"Delete every message in {slug}?", yes)
    with remote.api() as api:
        answer = api.json("POST", inbox_route(slug, ":purge"))
    if remote.as_json:
        print_json(answer if answer is not None else {"purged": slug})
        return
    click.echo(f"Purged {safe(slug)}.")


@inbox.command()
@click.argument("slug")
@yes_option
@remote
def delete(remote: Remote, slug: str, yes: bool) -> None:
    """Delete an inbox with its messages and secrets."""
    confirm(f"Delete the inbox {slug} with everything in it?", yes)
    with remote.api() as api:
        api.call("DELETE", inbox_route(slug))
    if remote.as_json:
        print_json({"deleted": slug})
        return
    click.echo(f"Deleted {safe(slug)}.")
