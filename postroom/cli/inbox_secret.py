"""`postroom inbox secret …`: adding, listing and retiring an inbox's secrets, and the warning that there is none."""

from typing import Any

import click

from postroom.cli.program import Remote, remote
from postroom.cli.secrets import read_secret, secret_options
from postroom.cli.terminal import print_json, safe, table, when
from postroom.client import segment

HANDSHAKE_SECRET = "verify_token"  # noqa: S105 - the name of a secret, not a secret # nosec B105
"""What a provider sends along when it looks at the address for the first time; it signs nothing."""

BRINGS_ITS_SECRET = frozenset({"asana"})
"""Verifiers whose provider hands the secret over in its handshake; nobody can add it before."""


def inbox_route(slug: str, rest: str = "") -> str:
    """Return the address of an inbox in the API, or of something below it."""
    return f"/v1/inboxes/{segment(slug)}{rest}"


def warn_of_no_secret(shown: dict[str, Any], since: str = "yet") -> None:
    """Say so when an inbox, as the API shows it, checks signatures and has nothing to check them with. `since`: whether
    it has none `yet`, or none `any more`.
    """
    if shown["verifier"] is None or any(one["name"] != HANDSHAKE_SECRET for one in shown["secrets"]):
        return
    rejects = shown["on_unverified"] == "reject"
    fate = "refuses every message" if rejects else "stores every message as unverified"
    slug = safe(shown["slug"])
    way = f". Add one: postroom inbox secret add {slug} --secret-env NAME"
    if shown["verifier"] in BRINGS_ITS_SECRET:
        way = ", until a handshake brings one."
    click.echo(f"postroom: {slug} has no secret {since}, so it {fate}{way}", err=True)


@click.group()
def secret() -> None:
    """Add, list and retire the secrets of an inbox. Several may be active, so a rotation loses nothing."""


@secret.command("add")
@click.argument("slug")
@click.option(
    "--name", default="default", show_default=True, help="What to call it; an existing name is replaced."
)
@secret_options
@remote
def add(
    remote: Remote, slug: str, name: str, secret: str | None, secret_env: str | None, secret_file: str | None
) -> None:
    """Add a secret; without an option it is asked for, hidden."""
    value = read_secret(secret, secret_env, secret_file, prompt=True)
    with remote.api() as api:
        answer = api.json("POST", inbox_route(slug, "/secrets"), body={"name": name, "value": value})
    if remote.as_json:
        print_json(answer)
    elif name == HANDSHAKE_SECRET:
        click.echo(f"{safe(slug)} now expects this {HANDSHAKE_SECRET} in the provider's handshake.")
    else:
        click.echo(f"Messages to {safe(slug)} may now be signed with the secret {safe(name)}.")


@secret.command("list")
@click.argument("slug")
@remote
def list_(remote: Remote, slug: str) -> None:
    """List the secrets of an inbox: name, and when it was added. Values are never shown again."""
    with remote.api() as api:
        secrets = api.json("GET", inbox_route(slug))["secrets"]
    if remote.as_json:
        print_json({"secrets": secrets})
    elif not secrets:
        click.echo("No secrets.")
    else:
        table(("NAME", "ADDED"), ((one["name"], when(one["added_at"])) for one in secrets))


@secret.command("retire")
@click.argument("slug")
@click.argument("name")
@remote
def retire(remote: Remote, slug: str, name: str) -> None:
    """Remove a secret; messages signed with it are not verified any more. Warns when it was the last one."""
    with remote.api() as api:
        api.call("DELETE", inbox_route(slug, f"/secrets/{segment(name)}"))
        left = api.json("GET", inbox_route(slug))
    warn_of_no_secret(left, "any more")
    if remote.as_json:
        print_json({"retired": name})
    else:
        click.echo(f"Retired the secret {safe(name)} of {safe(slug)}.")
