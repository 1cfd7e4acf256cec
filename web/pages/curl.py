"""A message as a command that sends it once more. Pure.

The command is pasted into a terminal, and strangers wrote what is in it: only plain characters stand in it, all within
single quotes. A body of other characters, or a long one, is read from the server instead.
"""

import re
import shlex
from collections.abc import Iterable

import msgspec

INLINE_BYTES = 4096
"""A longer body makes a command that nobody can read."""

_PLAIN = re.compile(r"[\x20-\x7e]*")
_PLAIN_LINES = re.compile(rb"[\x20-\x7e\n]*")
_TARGET = re.compile(r"[\x21-\x7e]*")
_GLOB = re.compile(r"[\[\]{}]")
_DOTS = re.compile(r"/\.{1,2}(?=[/?#]|\Z)")
_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")

OF_THE_CONNECTION = frozenset(
    {
        "connection",
        "content-length",
        "expect",
        "host",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)
"""Headers of one connection: curl makes its own."""

OF_PROXIES = frozenset(
    {"forwarded", "via", "x-forwarded-for", "x-forwarded-host", "x-forwarded-proto", "x-real-ip"}
)
"""Headers that a proxy before us has added, and would add again."""

REDACTED = "[redacted]"


class Command(msgspec.Struct, frozen=True):
    """A command, and the names of the headers that are not in it though their sender sent them."""

    text: str
    left_out: tuple[str, ...]


def command(
    *,
    method: str,
    url: str,
    headers: Iterable[tuple[str, str]],
    body: bytes | None,
    raw_url: str,
) -> Command:
    """Return the command. `body` None: it is too long to be at hand, as `raw_url` has it."""
    left_out: dict[str, None] = {}
    glob = " -g" if _GLOB.search(url) else ""  # curl would take brackets for patterns
    dots = " --path-as-is" if _DOTS.search(url) else ""  # and go where `..` leads, which may be another inbox
    lines = [f"curl{glob}{dots} -X {method} {shlex.quote(url)}"]
    for name, value in headers:
        if name in OF_THE_CONNECTION or name in OF_PROXIES:
            continue
        if value == REDACTED or not _NAME.fullmatch(name) or not _PLAIN.fullmatch(value):
            left_out[name if _NAME.fullmatch(name) else "one with an odd name"] = None
            continue
        # curl takes "Name:" for "leave it out", and "Name;" for a header without a value.
        lines.append(f"-H {shlex.quote(f'{name}: {value}' if value else f'{name};')}")
    if body != b"" and not any(line.lower().startswith("-h 'content-type") for line in lines):
        lines.append("-H 'content-type:'")  # else curl says that it is a form
    before = ""
    if body is not None and len(body) <= INLINE_BYTES and _PLAIN_LINES.fullmatch(body):
        if body:
            # A body that begins with @ would be the name of a file.
            option = "--data-raw" if body.startswith(b"@") else "--data-binary"
            lines.append(f"{option} {shlex.quote(body.decode('ascii'))}")
    else:
        before = f'curl -fsS {shlex.quote(raw_url)} -H "Authorization: Bearer $POSTROOM_TOKEN" |\n  '
        lines.append("--data-binary @-")
    return Command(before + " \\\n  ".join(lines), tuple(left_out))


def is_plain(target: str) -> bool:
    """Whether a path or query can stand in a command as it is."""
    return _TARGET.fullmatch(target) is not None
