"""`postroom send`: post a file, standard input or a text to an inbox, as a webhook's sender would.

No token goes along: ingest needs none. With `--sign` the body is signed here, with the same description of
the preset that the server verifies with.
"""

import json
import re
import sys
import time
from pathlib import Path
from typing import Any

import click
import httpx

from postroom.cli.inbox_settings import header_field, named_values
from postroom.cli.program import EXIT_USAGE, Failure, Remote, remote
from postroom.cli.secrets import read_secret, secret_options
from postroom.cli.terminal import print_json, safe
from postroom.client import segment

_PATH = re.compile(r"(?:[/?][\x21-\x7e]*)?")
STDIN = "-"
FRAMING = ("content-length", "transfer-encoding")
"""Headers that say how long the body is, which the body itself decides."""


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
@click.option("--sign", metavar="PRESET", help="Sign as this provider does: github, hmac.")
@click.option(
    "--sign-option",
    "sign_options",
    multiple=True,
    metavar="NAME=VALUE",
    help="With --sign hmac: the inbox's verifier options; VALUE is JSON, or text.",
)
@click.option("--event", metavar="TYPE", help="With --sign: the event type, in the preset's header.")
@click.option("--delivery-id", metavar="ID", help="With --sign: the delivery id, in the preset's header.")
@click.option("--signed-url", metavar="URL", help="With --sign: the URL to sign, where the preset signs one.")
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
    sign_options: tuple[str, ...],
    event: str | None,
    delivery_id: str | None,
    signed_url: str | None,
    secret: str | None,
    secret_env: str | None,
    secret_file: str | None,
) -> None:
    """Send FILE to an inbox and say where it was stored. Without FILE, or with -, standard input is sent."""
    if _PATH.fullmatch(path) is None:
        raise Failure("--path begins with / or ? and is written percent-encoded, without spaces.", EXIT_USAGE)
    if sign is None and (event or delivery_id or signed_url or sign_options):
        raise Failure("--event, --delivery-id and the options of signing need --sign PRESET.", EXIT_USAGE)
    if secret_file == STDIN and data is None and file in (None, STDIN):
        raise Failure("the body and the secret cannot both come from standard input.", EXIT_USAGE)
    fields = [header_field("--header", text) for text in headers]
    framing = next((name for name, _ in fields if name.lower() in FRAMING), None)
    if framing is not None:
        raise Failure(f"--header cannot set {framing}: it follows from the body.", EXIT_USAGE)
    method = "PUT" if put else "POST"
    body = _body(file, data)
    if content_type is None and not any(name.lower() == "content-type" for name, _ in fields):
        content_type = _guess_type(body)
    if content_type is not None:
        fields.append(("Content-Type", content_type))
    value = read_secret(secret, secret_env, secret_file, prompt=sign is not None)
    if sign is not None and value is not None:
        fields += _signature(
            sign,
            named_values("--sign-option", sign_options),
            value,
            body=body,
            method=method,
            url=signed_url or f"{remote.url.rstrip('/')}/in/{segment(slug)}{path}",
            delivery_id=delivery_id,
            event_type=event,
        )
    with remote.client() as client:
        _report(remote, slug, client.send(slug, path, fields, body, method))


def _body(file: str | None, data: str | None) -> bytes:
    if data is not None:
        if file is not None:
            raise Failure("give a file or --data, not both.", EXIT_USAGE)
        return data.encode(errors="surrogateescape")
    if file is None or file == STDIN:
        return sys.stdin.buffer.read()
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


def _signature(
    preset: str,
    options: dict[str, Any],
    secret: str,
    *,
    body: bytes,
    method: str,
    url: str,
    delivery_id: str | None,
    event_type: str | None,
) -> list[tuple[str, str]]:
    # Imported here: only a signed message needs the verifiers.
    from web.errors import ApiError
    from web.verify.signing import sign

    try:
        return sign(
            preset,
            options,
            secret.encode(),
            body=body,
            now_us=time.time_ns() // 1_000,
            method=method,
            url=url,
            delivery_id=delivery_id,
            event_type=event_type,
        )
    except ApiError as error:
        about = f" ({error.field})" if error.field else ""
        raise Failure(f"cannot sign{about}: {error.message}", EXIT_USAGE) from None


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
        click.echo(f"{safe(slug)} answered {response.status_code} in its own words:")
        click.echo(safe(response.text, lines=True))
    elif duplicate:
        click.echo(f"{safe(slug)} has this delivery already, as message {place['seq']} ({place['id']}).")
    else:
        click.echo(f"Stored in {safe(slug)} as message {place['seq']} ({place['id']}).")
