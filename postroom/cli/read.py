"""`messages`, `message` and `raw`: reading an inbox from a terminal or a script."""

import json
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import click

from postroom.cli.lines import verdict
from postroom.cli.program import EXIT_USAGE, Failure, Remote, remote
from postroom.cli.terminal import console, facts, print_json, readable, safe, table, when
from postroom.client import Params, segment

TERMINAL_BODY_BYTES = 1_048_576
"""How much of a body `raw` shows on a terminal; nobody reads more there, and --output has no limit."""


@click.command()
@click.argument("slug")
@click.option("--after", type=int, metavar="SEQ", help="Messages after SEQ, oldest first.")
@click.option("--before", type=int, metavar="SEQ", help="Messages before SEQ, newest first.")
@click.option("--limit", type=int, metavar="N", help="At most N messages, 1 to 100.  [server's default: 20]")
@click.option("--type", "types", multiple=True, metavar="TYPE", help="Only this event type; may be repeated.")
@click.option("--since", metavar="TIME", help="Received at or after this RFC 3339 time.")
@click.option("--until", metavar="TIME", help="Received before this RFC 3339 time.")
@click.option("--verified/--unverified", default=None, help="Only messages whose signature held, or did not.")
@click.option("--bodies", is_flag=True, help="With --json: include bodies up to the server's inline limit.")
@remote
def messages(
    remote: Remote,
    slug: str,
    after: int | None,
    before: int | None,
    limit: int | None,
    types: tuple[str, ...],
    since: str | None,
    until: str | None,
    verified: bool | None,
    bodies: bool,
) -> None:
    """List messages of an inbox, the newest first unless --after is given."""
    given = {"after": after, "before": before, "limit": limit, "since": since, "until": until}
    params: Params = [(name, str(value)) for name, value in given.items() if value is not None]
    params += [("types", one) for one in types]
    if verified is not None:
        params.append(("verified", "true" if verified else "false"))
    if bodies:
        params.append(("bodies", "true"))
    with remote.api() as api:
        answer = api.call("GET", f"/v1/inboxes/{segment(slug)}/messages", params=params)
    if remote.as_json:
        print_json(answer)
        return
    page = json.loads(answer)
    if page.get("gap"):
        click.echo("Messages right after this cursor are no longer kept.", err=True)
    message_table(page["messages"])
    if page.get("next_before") is not None:
        click.echo(f"Older ones: --before {page['next_before']}", err=True)
    elif page.get("next_after") is not None and page["next_after"] < page["latest_seq"]:
        click.echo(f"More: --after {page['next_after']}", err=True)


def message_table(messages: list[dict[str, Any]]) -> None:
    """Print messages, one a line."""
    if not messages:
        click.echo("No messages.")
    else:
        columns = ("SEQ", "RECEIVED", "TYPE", "VERIFIED", "SIZE", "ID")
        table(columns, map(_row, messages), right=("SEQ", "SIZE"))


def _row(message: dict[str, Any]) -> tuple[object, ...]:
    event_type = message["untrusted"].get("event_type")
    return (
        message["seq"],
        when(message["received_at"]),
        event_type or "–",
        verdict(message["verified"], message["verify_error"]),
        f"{message['size']:,}",
        message["id"],
    )


@click.command()
@click.argument("slug")
@click.argument("seq", type=int)
@remote
def message(remote: Remote, slug: str, seq: int) -> None:
    """Show one message whole: what the server established, then what the sender wrote."""
    with remote.api() as api:
        answer = api.call("GET", f"/v1/inboxes/{segment(slug)}/messages/{seq}")
    if remote.as_json:
        print_json(answer)
        return
    shown = json.loads(answer)
    untrusted = shown.pop("untrusted")
    facts(shown.items())
    console().print("\nThe sender wrote (untrusted):", style="bold")
    headers = untrusted.pop("headers", None) or []
    bodies = {name: untrusted.pop(name) for name in ("body", "body_text", "body_base64") if name in untrusted}
    facts((name, value) for name, value in untrusted.items() if value not in (None, ""))
    for name, value in headers:
        click.echo(f"  {safe(name)}: {safe(value)}")
    for name, value in bodies.items():
        click.echo(f"\n{name}:")
        text = json.dumps(value, indent=2, ensure_ascii=False) if name == "body" else readable(value)
        click.echo(safe(text, lines=True))


@click.command()
@click.argument("slug")
@click.argument("seq", type=int)
@click.option("--output", "-o", type=click.Path(dir_okay=False, path_type=Path), help="Write to this file.")
@remote
def raw(remote: Remote, slug: str, seq: int, output: Path | None) -> None:
    """Write the body of a message byte for byte as it was received.

    On a terminal the body is shown only if it is text, with control characters escaped.
    """
    if remote.as_json:
        raise Failure("raw writes the body itself; it has no --json.", EXIT_USAGE)
    route = f"/v1/inboxes/{segment(slug)}/messages/{seq}/raw"
    with remote.api() as api, api.stream(route) as pieces:
        if output is not None:
            _write_file(output, pieces)
        elif sys.stdout.isatty():
            show(pieces)
        else:
            _copy(pieces, sys.stdout.buffer)


def _copy(pieces: Iterator[bytes], out: BinaryIO) -> None:
    for piece in pieces:
        out.write(piece)
    out.flush()


def _write_file(output: Path, pieces: Iterator[bytes]) -> None:
    """Write all of it or leave no file: a body that was cut off must not look like a whole one."""
    partial = output.with_name(output.name + ".partial")
    try:
        partial.unlink(missing_ok=True)
        with partial.open("xb") as out:  # never through a link that somebody else has put there
            _copy(pieces, out)
        shutil.move(partial, output)
    finally:
        partial.unlink(missing_ok=True)


def show(pieces: Iterator[bytes]) -> None:
    """Print a body on a terminal, if it is text of a bearable size. Raises `Failure`."""
    body = bytearray()
    for piece in pieces:
        body += piece
        if len(body) > TERMINAL_BODY_BYTES:
            raise Failure("the body is too large for a terminal; write it with --output FILE.", EXIT_USAGE)
    try:
        text = body.decode()
    except UnicodeDecodeError:
        raise Failure("the body is not text; write it with --output FILE.", EXIT_USAGE) from None
    click.echo(safe(text, lines=True), nl=not text.endswith("\n"))
