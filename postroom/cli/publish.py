"""`postroom publish`: a message to other agents, to a topic, or to whoever's beacons match."""

import sys
from pathlib import Path
from typing import Any

import click

from postroom.cli.numbers import Share
from postroom.cli.program import EXIT_USAGE, Failure, Remote, remote
from postroom.cli.terminal import print_json, safe
from postroom.cli.times import Span

STDIN = "-"

TYPES = ("created", "updated", "superseded", "contradiction", "pattern", "promoted")
KINDS = ("note", "decision", "fact", "task", "alert", "question")
"""Kinds that a sender may choose; the others are the server's."""


@click.command()
@click.argument("file", required=False, metavar="[FILE]")
@click.option("--text", "-t", metavar="TEXT", help="Publish this text instead of a file.")
@click.option("--subject", "-s", required=True, metavar="TEXT", help="In at most 200 characters.")
@click.option("--to", "agents", multiple=True, metavar="AGENT", help="To this agent; may be repeated.")
@click.option("--to-inbox", metavar="SLUG", help="To this topic inbox.  [default: commons]")
@click.option(
    "--type",
    "type_",
    type=click.Choice(TYPES),
    default="created",
    show_default=True,
    help="What has happened.",
)
@click.option("--kind", type=click.Choice(KINDS), default="note", show_default=True, help="What it is.")
@click.option("--salience", type=Share(), metavar="S", help="How much it matters, 0 to 1.  [server's: 0.5]")
@click.option("--tag", "tags", multiple=True, metavar="TAG", help="May be repeated.")
@click.option("--supersedes", metavar="ID", help="The id of the message that this one replaces.")
@click.option("--ttl", type=Span(), metavar="SPAN", help="When it expires, such as 12h or 30d.  [never]")
@click.option("--idempotency-key", metavar="KEY", help="With the same key it is published once.")
@remote
def publish(
    remote: Remote,
    file: str | None,
    text: str | None,
    subject: str,
    agents: tuple[str, ...],
    to_inbox: str | None,
    type_: str,
    kind: str,
    salience: float | None,
    tags: tuple[str, ...],
    supersedes: str | None,
    ttl: int | None,
    idempotency_key: str | None,
) -> None:
    """Publish the text of FILE, or of standard input, in the name of the token's agent.

    To agents by name, to a topic inbox, or (without --to and --to-inbox) to `commons`. From a topic it comes
    to every agent that has a beacon for it; what is sent to agents by name is between you and them.
    """
    if agents and to_inbox is not None:
        raise Failure("give --to or --to-inbox, not both.", EXIT_USAGE)
    body: dict[str, Any] = {"type": type_, "kind": kind, "subject": subject, "text": _text(file, text)}
    optional = {
        "tags": list(tags) or None,
        "salience": salience,
        "to": {"agents": list(agents)} if agents else {"inbox": to_inbox} if to_inbox is not None else None,
        "supersedes": supersedes,
        "ttl_seconds": ttl,
        "idempotency_key": idempotency_key,
    }
    body |= {name: given for name, given in optional.items() if given is not None}
    with remote.api() as api:
        answer = api.json("POST", "/v1/publish", body=body)
    if remote.as_json:
        print_json(answer)
        return
    recipients = answer.get("recipients")
    where = (
        f"to {', '.join(map(str, recipients))}"
        if recipients
        else f"in {answer['inbox']} as message {answer['seq']}"
    )
    click.echo(f"Published {safe(where)} ({safe(answer['diff_id'])}).")


def _text(file: str | None, text: str | None) -> str:
    """Return what to publish. Raises `Failure` when it is given twice, or is no text."""
    if text is not None:
        if file is not None:
            raise Failure("give a file or --text, not both.", EXIT_USAGE)
        return text
    data = sys.stdin.buffer.read() if file in (None, STDIN) else Path(str(file)).read_bytes()
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise Failure("only text can be published, and this is no UTF-8.", EXIT_USAGE) from None
