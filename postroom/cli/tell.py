"""`tell`, `broadcast` and `sent`: writing to agents, and seeing what became of it."""

import functools
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import click
import msgspec

from postroom.cli.program import (
    EXIT_BY_STATUS,
    EXIT_FAILED,
    EXIT_NOT_FOUND,
    EXIT_USAGE,
    Failure,
    Remote,
    agent_option,
    remote,
)
from postroom.cli.terminal import print_json, safe, table, when
from postroom.client import Refused
from postroom.mesh import MSG_TYPES, Mesh

STDIN = "-"
NO_RECIPIENT = "no_recipient"
SAYING = "note"
"""The type of message that without a payload would be none; what it says may have been piped here and lost."""

R = TypeVar("R")


def message_options(command: Callable[..., R]) -> Callable[..., R]:
    """Give a command the options of a message, and what they say: `text`'s or another payload's JSON as `payload`, the
    rest that was given as `letter`.
    """

    @click.argument("text", required=False)
    @click.option(
        "--type",
        "msg_type",
        type=click.Choice(MSG_TYPES),
        default="note",
        show_default=True,
        help="What it is.",
    )
    @click.option("--payload", metavar="JSON", help="Send this JSON instead of a text.")
    @click.option("--payload-file", metavar="FILE", help="Send the JSON in this file, - for stdin.")
    @click.option(
        "--machine", metavar="NAME", help="To an agent, or the agents, of this machine.  [default: yours]"
    )
    @click.option("--idempotency-key", metavar="KEY", help="With the same key it is sent once.")
    @functools.wraps(command)
    def wrapped(
        *args: Any,
        text: str | None,
        msg_type: str,
        payload: str | None,
        payload_file: str | None,
        machine: str | None,
        idempotency_key: str | None,
        **kwargs: Any,
    ) -> R:
        letter = {"msg_type": msg_type, "to": machine, "idempotency_key": idempotency_key}
        said = _payload(text, payload, payload_file)
        if said is None and msg_type == SAYING:
            raise Failure("a note says something: give a text (- for stdin) or a payload.", EXIT_USAGE)
        return command(*args, payload=said, letter=letter, **kwargs)

    return wrapped


def _payload(text: str | None, payload: str | None, payload_file: str | None) -> bytes | None:
    """Return the JSON to send, None for nothing. Raises `Failure` for what is no JSON, or given twice."""
    if sum(given is not None for given in (text, payload, payload_file)) > 1:
        raise Failure("give a text, --payload or --payload-file, and no two of them.", EXIT_USAGE)
    try:
        if text is not None:
            return msgspec.json.encode(sys.stdin.buffer.read().decode() if text == STDIN else text)
        if payload is not None:
            document = payload.encode()
        elif payload_file is not None:
            document = sys.stdin.buffer.read() if payload_file == STDIN else Path(payload_file).read_bytes()
        else:
            return None
        document.decode()
        msgspec.json.decode(document, type=msgspec.Raw)
    except UnicodeError:
        raise Failure("the payload is no UTF-8.", EXIT_USAGE) from None
    except msgspec.DecodeError as error:
        raise Failure(f"the payload is no JSON: {error}.", EXIT_USAGE) from None
    return document


@click.command()
@click.argument("agent")
@agent_option
@message_options
@click.option(
    "--require-alive/--no-require-alive",
    default=None,
    help="Refuse if the agent is stale and cannot be woken.  [server's: refuse]",
)
@remote
def tell(
    remote: Remote,
    agent: str,
    agent_id: str | None,
    payload: bytes | None,
    letter: dict[str, Any],
    require_alive: bool | None,
) -> None:
    """Send TEXT (- for standard input), or any JSON, to one agent."""
    with remote.api() as api:
        try:
            answer = Mesh(api, agent_id).tell(agent, payload=payload, require_alive=require_alive, **letter)
        except Refused as error:
            raise _told_near(error) from error
    _print_sent(remote, answer)


@click.command()
@agent_option
@message_options
@remote
def broadcast(remote: Remote, agent_id: str | None, payload: bytes | None, letter: dict[str, Any]) -> None:
    """Send TEXT (- for stdin), or any JSON, to all agents of a machine but yourself, also to those that are stale.

    Exit code 5: there is nobody.
    """
    with remote.api() as api:
        try:
            answer = Mesh(api, agent_id).broadcast(payload=payload, **letter)
        except Refused as error:
            if error.code != NO_RECIPIENT:
                raise
            raise Failure(str(error), EXIT_NOT_FOUND) from error
    _print_sent(remote, answer)


def _told_near(error: Refused) -> Failure:
    """Return the end of a command that named an agent who is not there: with who is, and whose names are near."""
    said = [str(error)]
    for about, title in (("near", "Near"), ("alive", "Alive")):
        names = error.details.get(about)
        if isinstance(names, list) and names:
            said.append(f"{title}: {', '.join(map(str, names))}.")
    return Failure(" ".join(said), EXIT_BY_STATUS.get(error.status, EXIT_FAILED))


def _print_sent(remote: Remote, answer: dict[str, Any]) -> None:
    if remote.as_json:
        print_json(answer)
        return
    names = ", ".join(map(str, answer["delivered_to"])) or "nobody"
    click.echo(f"Sent to {safe(names)} ({safe(answer['id'])}).")
    for one in answer["skipped"]:
        click.echo(f"Not to {safe(one['agent_id'])}: {safe(one['reason'])}.", err=True)


@click.command()
@agent_option
@click.option("--limit", type=int, metavar="N", help="At most N messages, 1 to 100.  [server's default: 20]")
@click.option("--before", metavar="ID", help="Older ones than the message with this id.")
@remote
def sent(remote: Remote, agent_id: str | None, limit: int | None, before: str | None) -> None:
    """List what an agent has sent, the newest first, and when each recipient had, saw and acknowledged it."""
    with remote.api() as api:
        answer = Mesh(api, agent_id).sent(limit=limit, before=before)
    if remote.as_json:
        print_json(answer)
        return
    if not answer["messages"]:
        click.echo("Nothing.")
        return
    table(
        ("SENT", "TYPE", "TO", "STORED", "SERVED", "ACKED", "EXPIRED", "ID"),
        (row for message in answer["messages"] for row in _rows(message)),
    )


def _rows(message: dict[str, Any]) -> Iterator[tuple[object, ...]]:
    """Give a row for each recipient of a message, which is named in the first."""
    head: tuple[object, ...] = (when(message["sent_at"]), message["msg_type"])
    end: object = message["id"]
    for one in message["recipients"] or [{}]:
        times = (when(one.get(f"{what}_at")) for what in ("stored", "served", "acked", "expired"))
        yield (*head, one.get("agent_id", "–"), *times, end)
        head, end = ("", ""), ""
