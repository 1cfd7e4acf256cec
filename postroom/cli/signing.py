"""The signed messages of `postroom send`: made here with a secret that was given, or by the server with its own.

Both go by the same description of the preset that the server verifies with.
"""

import base64
import time
from collections.abc import Callable
from typing import Any, TypeVar

import click
import msgspec

from postroom.cli.inbox_secret import inbox_route
from postroom.cli.inbox_settings import unique_fields
from postroom.cli.presets import Preset
from postroom.cli.program import EXIT_USAGE, Failure, Remote
from postroom.client import segment

R = TypeVar("R")

OPTIONS = (
    click.option(
        "--sign", type=Preset(signing=True), help="Sign as this provider does (`postroom verifiers`)."
    ),
    click.option("--event", metavar="TYPE", help="With --sign: the event type, where the provider has it."),
    click.option("--delivery-id", metavar="ID", help="With --sign: the delivery id; without, a new one."),
    click.option(
        "--secret-name", metavar="NAME", help="With --sign: the inbox's secret to use; without, the newest."
    ),
    click.option(
        "--sign-option",
        "sign_options",
        multiple=True,
        metavar="NAME=VALUE",
        help="With a secret of your own: the inbox's verifier options; VALUE is JSON, or text.",
    ),
    click.option(
        "--signed-url",
        metavar="URL",
        help="With a secret of your own: the URL to sign, where the provider signs one.",
    ),
)


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """A signed message as its options have it. `body` is None for a sample; `fields` are headers, `path` follows the
    slug, with its query.
    """

    preset: str
    slug: str
    body: bytes | None
    method: str
    path: str
    fields: list[tuple[str, str]]
    content_type: str | None
    event_type: str | None
    delivery_id: str | None


class Ready(msgspec.Struct, frozen=True, kw_only=True):
    """A message that was signed here."""

    body: bytes
    path: str
    fields: list[tuple[str, str]]


def signing_options(command: Callable[..., R]) -> Callable[..., R]:
    """Add the options of signing, but for those of a secret."""
    for option in reversed(OPTIONS):
        command = option(command)
    return command


def signed_here(
    wanted: Wanted, secret: str, options: dict[str, Any], *, signed_url: str | None, server: str
) -> Ready:
    """Return the message, signed with a secret of the caller's. Raises `Failure` for what cannot be signed."""
    # Imported here: only a signed message needs the verifiers.
    from web.errors import ApiError
    from web.making import Message, make

    message = Message(
        body=wanted.body,
        content_type=wanted.content_type,
        method=wanted.method,
        target=wanted.path,
        url=signed_url or f"{server.rstrip('/')}/in/{segment(wanted.slug)}{wanted.path}",
        event_type=wanted.event_type,
        delivery_id=wanted.delivery_id,
    )
    try:
        made = make(wanted.preset, options, secret.encode(), message, now_us=time.time_ns() // 1_000)
    except ApiError as error:
        about = f" ({error.field})" if error.field else ""
        raise Failure(f"cannot sign{about}: {error.message}", EXIT_USAGE) from None
    path = f"{made.path}?{made.query}" if made.query else made.path
    return Ready(body=made.body, path=path, fields=[*wanted.fields, *made.headers])


def signed_by_server(remote: Remote, wanted: Wanted, secret_name: str | None) -> dict[str, Any]:
    """Have the server sign and store the message; return what it says of it. Raises `Failure`, `Refused`."""
    asked = {
        "verifier": wanted.preset,
        "secret_name": secret_name,
        "event_type": wanted.event_type,
        "delivery_id": wanted.delivery_id,
        "content_type": wanted.content_type,
        "path": wanted.path or None,
        "method": wanted.method,
        "headers": unique_fields("--header", wanted.fields) or None,
        "body_base64": None if wanted.body is None else base64.b64encode(wanted.body).decode(),
    }
    body = {name: value for name, value in asked.items() if value is not None}
    with remote.api() as api:
        answer: dict[str, Any] = api.json("POST", inbox_route(wanted.slug, ":sample"), body=body)
    return answer
