"""An agent's mail in a shell: reading it (`postroom inbox` without a subcommand) and acknowledging it.

What others wrote stands on lines that begin with a mark, as in the digest of `postroom drain`: a model may be reading.
"""

import click

from postroom.cli.digest import MARK, plain
from postroom.cli.program import EXIT_NOT_FOUND, Remote, agent_option, remote
from postroom.cli.terminal import print_json, safe, when
from postroom.mesh import Letter, Mesh

AS_RECEIVED = ("body", "payload")
"""Members of `untrusted` that are JSON of the sender's own: not decoded and encoded again."""
TEXTS = ("text", "body_text")


def read_mail(
    remote: Remote, agent_id: str | None, limit: int | None, peek: bool, wake_token: str | None
) -> None:
    """Print an agent's mail. Raises as `Mesh.mail`."""
    with remote.api() as api:
        mail = Mesh(api, agent_id).mail(limit=limit, peek=peek, wake_token=wake_token)
    if remote.as_json:
        print_json(mail.document)
        return
    click.echo("\n".join(map(letter_text, mail.messages)) or "Nothing new.\n", nl=False)
    if mail.unread:
        click.echo(f"Not acknowledged: {mail.unread:,}.", err=True)


def letter_text(letter: Letter) -> str:
    """Return a message as a line of facts and a quotation, safe to print and to read."""
    facts = (letter.id, _kind(letter), _whose(letter), when(letter.received_at))
    said = _said(letter)
    lines = [safe(", ".join(facts)), *(f"{MARK}{line}" for line in (said.split("\n") if said else ()))]
    if letter.body_truncated:
        lines.append(safe(f"(too large to be shown here: postroom message {letter.inbox} {letter.seq})"))
    elif "body_base64" in letter.untrusted:
        lines.append(safe(f"(no text: postroom raw {letter.inbox} {letter.seq})"))
    return "\n".join(lines) + "\n"


def _kind(letter: Letter) -> str:
    """Return what it is, in words of the server's: a webhook's event type is its sender's, and is quoted."""
    said = letter.said
    return "webhook" if letter.is_webhook else str(said.get("msg_type") or said.get("kind") or "message")


def _whose(letter: Letter) -> str:
    if letter.sender:
        return f"from agent {letter.sender}"
    if not letter.is_webhook:
        return "from the server"
    verdicts = {True: "signature verified", False: "signature NOT verified", None: "signature not checked"}
    return verdicts[letter.verified]


def _said(letter: Letter) -> str:
    said = letter.said
    title = said.get("subject") or (said.get("event_type") if letter.is_webhook else None)
    parts = [str(title)] if title else []
    if isinstance(tags := said.get("tags"), list) and tags:
        parts.append("tags: " + ", ".join(map(str, tags)))
    parts += [said[name] for name in TEXTS if isinstance(said.get(name), str)]
    for name in AS_RECEIVED:
        if said.get(name) is not None:
            # A string is what `postroom tell` makes of a text.
            is_text = isinstance(said[name], str)
            parts.append(said[name] if is_text else bytes(letter.untrusted[name]).decode())
    return plain("\n".join(parts)).strip("\n")


@click.command()
@click.argument("ids", nargs=-1, required=True, metavar="ID…")
@agent_option
@remote
def ack(remote: Remote, agent_id: str | None, ids: tuple[str, ...]) -> None:
    """Acknowledge messages: they are handled, and not unread any more.

    Exit code 5: one of the ids is no message of this agent's; the others are acknowledged.
    """
    with remote.api() as api:
        done = Mesh(api, agent_id).ack(ids)
    if remote.as_json:
        print_json({"acked": done.acked, "already_acked": done.already_acked, "unknown": done.unknown})
    else:
        before = f" {len(done.already_acked):,} were before." if done.already_acked else ""
        click.echo(f"Acknowledged {len(done.acked):,}.{before}")
    if done.unknown:
        if not remote.as_json:
            click.echo(f"postroom: no messages of yours: {safe(' '.join(done.unknown))}", err=True)
        raise click.exceptions.Exit(EXIT_NOT_FOUND)
