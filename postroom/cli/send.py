"""`postroom send`: post a file, standard input or a text to an inbox, as a webhook's sender would.

No token goes along: ingest needs none. A signed message (`postroom/cli/signing.py`) is signed here where a secret is
given; else the server signs it with the secret that the inbox holds, which takes an admin token.
"""

import json
import re
import sys
from pathlib import Path
from typing import Any

import click
import httpx

from postroom.cli.inbox_settings import header_field, named_values
from postroom.cli.program import EXIT_USAGE, Failure, Remote, remote
from postroom.cli.secrets import read_secret, secret_options
from postroom.cli.signing import Wanted, signed_by_server, signed_here, signing_options
from postroom.cli.terminal import print_json, safe

_PATH = re.compile(r"(?:[/?][\x21-\x7e]*)?")
STDIN = "-"
CONTENT_TYPE = "content-type"
FRAMING = ("content-length", "transfer-encoding")
"""Headers that say how long the body is, which the body itself decides."""

BY_SERVER = "--sign-option and --signed-url need a secret here: the server knows those of the inbox."


@click.command()
@click.argument("slug")
@click.argument("file", required=False, metavar="[FILE]")
@click.option("--data", "-d", metavar="TEXT", help="Send this text instead of a file.")
@click.option("--content-type", metavar="TYPE", help="Default: JSON, text or bytes, by what the body is.")
@click.option(
    "--path", default="", metavar="PATH", help="What follows /in/SLUG, with its query; sent as it is."
)
@click.option("--header", "-H", "headers", multiple=True, metavar="'NAME: VALUE'", help="May be repeated.")
@click.option("--put", is_flag=True, help="PUT instead of POST.")
@signing_options
@secret_options
@remote
def send(
    remote: Remote,
    slug: str,
    file: str | None,
    data: str | None,
    content_type: str | None,
    path: str,
    headers: tuple[str, ...],
    put: bool,
    sign: str | None,
    event: str | None,
    delivery_id: str | None,
    secret_name: str | None,
    sign_options: tuple[str, ...],
    signed_url: str | None,
    secret: str | None,
    secret_env: str | None,
    secret_file: str | None,
) -> None:
    """Send FILE to an inbox and say where it was stored. Without FILE, or with -, standard input is sent.

    With --sign and no FILE, nothing or a terminal on standard input makes a sample of what the provider sends. It is
    signed with the secret that is given; without one, the server signs with the inbox's own (needs an admin token).
    """
    if _PATH.fullmatch(path) is None:
        raise Failure("--path begins with / or ? and is written percent-encoded, without spaces.", EXIT_USAGE)
    of_signing = (event, delivery_id, secret_name, sign_options, signed_url, secret, secret_env, secret_file)
    if sign is None and any(of_signing):
        raise Failure("--event, --delivery-id, secrets and signing options need --sign PRESET.", EXIT_USAGE)
    if secret_file == STDIN and data is None and file in (None, STDIN):
        raise Failure("the body and the secret cannot both come from standard input.", EXIT_USAGE)
    fields = [header_field("--header", text) for text in headers]
    framing = next((name for name, _ in fields if name.lower() in FRAMING), None)
    if framing is not None:
        raise Failure(f"--header cannot set {framing}: it follows from the body.", EXIT_USAGE)
    method = "PUT" if put else "POST"
    body = _body(file, data, sample=sign is not None)
    types = [text for name, text in fields if name.lower() == CONTENT_TYPE]
    if content_type is None and not types and body is not None:
        content_type = _guess_type(body)
    if sign is not None:
        wanted = Wanted(
            preset=sign,
            slug=slug,
            body=body,
            method=method,
            path=path,
            fields=[(name, text) for name, text in fields if name.lower() != CONTENT_TYPE],
            content_type=content_type or next(iter(types), None),
            event_type=event,
            delivery_id=delivery_id,
        )
        value = read_secret(secret, secret_env, secret_file)
        if value is None:
            if sign_options or signed_url:
                raise Failure(BY_SERVER, EXIT_USAGE)
            _report_signed(remote, slug, signed_by_server(remote, wanted, secret_name))
            return
        if secret_name:
            raise Failure("--secret-name is of a secret that the inbox holds; you give one here.", EXIT_USAGE)
        named = named_values("--sign-option", sign_options)
        ready = signed_here(wanted, value, named, signed_url=signed_url, server=remote.url)
        path, fields, body = ready.path, ready.fields, ready.body
    elif content_type is not None:
        fields.append(("Content-Type", content_type))
    with remote.client() as client:
        _report(remote, slug, client.send(slug, path, fields, body or b"", method))


def _body(file: str | None, data: str | None, *, sample: bool) -> bytes | None:
    """Return what to send; None for a sample, where `sample` allows one and there is nothing else."""
    if data is not None:
        if file is not None:
            raise Failure("give a file or --data, not both.", EXIT_USAGE)
        return data.encode(errors="surrogateescape")
    if file == STDIN or (file is None and not sample):
        return sys.stdin.buffer.read()
    if file is None:
        return None if sys.stdin.isatty() else sys.stdin.buffer.read() or None
    return Path(file).read_bytes()


def _guess_type(body: bytes) -> str | None:
    """Return what the bytes are; None for an empty body, which is nothing in particular."""
    if not body:
        return None
    try:
        text = body.decode()
    except UnicodeDecodeError:
        return "application/octet-stream"
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return "text/plain; charset=utf-8"
    return "application/json"


def _report(remote: Remote, slug: str, response: httpx.Response) -> None:
    """Say what the server answered: the message's place, or the inbox's own response."""
    duplicate = response.headers.get("postroom-duplicate") == "true"
    try:
        answer = json.loads(response.content)
        place = {"id": str(answer["id"]), "seq": int(answer["seq"])}
    except (ValueError, KeyError, TypeError):
        place = {"id": None, "seq": None}
    if remote.as_json:
        print_json({"inbox": slug, "status": response.status_code, **place, "duplicate": duplicate})
    elif place["seq"] is None:
        said = (
            f" in its own words:\n{safe(response.text, lines=True)}"
            if response.text
            else " and nothing else."
        )
        click.echo(f"{safe(slug)} answered {response.status_code}{said}")
    elif duplicate:
        click.echo(f"{safe(slug)} has this delivery already, as message {place['seq']} ({place['id']}).")
    else:
        click.echo(f"Stored in {safe(slug)} as message {place['seq']} ({place['id']}).")


def _report_signed(remote: Remote, slug: str, sample: dict[str, Any]) -> None:
    """Say what became of a message that the server signed."""
    if remote.as_json:
        print_json({"inbox": slug, **sample})
        return
    where, kind = safe(slug), sample["event_type"]
    verdict = safe(sample["verify_error"] or "verified") + (f", {safe(kind)}" if kind else "")
    if sample["seq"] is None:
        click.echo(f"{where} answered {sample['status']} and stored nothing: it was a handshake.")
    elif sample["duplicate"]:
        click.echo(f"{where} has this delivery already, as message {sample['seq']} ({sample['id']}).")
    else:
        click.echo(f"Stored in {where} as message {sample['seq']} ({sample['id']}): {verdict}.")
