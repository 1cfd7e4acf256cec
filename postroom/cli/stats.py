"""`stats`: the figures of a running server."""

import json
from collections.abc import Iterator
from typing import Any

import click

from postroom.cli.program import Remote, remote
from postroom.cli.terminal import facts, print_json
from postroom.parsing import GIB, KIB, MIB, TIB, readable_size

MINUTE_SECONDS = 60
HOUR_SECONDS = 3600
DAY_SECONDS = 86_400


@click.command()
@remote
def stats(remote: Remote) -> None:
    """Show how the server is doing: store, actors, waits, connections, bodies. Needs an admin token."""
    with remote.api() as api:
        answer = api.call("GET", "/v1/stats")
    if remote.as_json:
        print_json(answer)
    else:
        facts(rows(json.loads(answer)))


def rows(figures: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Give the figures as names and values; a group's figures are named `group figure`."""
    for name, value in figures.items():
        if not isinstance(value, dict):
            yield _row(name, value)
            continue
        for inner, figure in value.items():
            if figure != "":  # the reason of a store that is open
                yield _row(f"{name} {inner}", figure)


def _row(name: str, value: Any) -> tuple[str, str]:
    if name.endswith("_bytes") or "_bytes_" in name:
        return name.replace("_bytes", "").replace("_", " "), approximate_size(value)
    if name.endswith("_seconds"):
        return name.removesuffix("_seconds").replace("_", " "), duration(value)
    return name.replace("_", " "), f"{value:,}" if isinstance(value, int) else str(value)


def approximate_size(count: int) -> str:
    """Return a number of bytes as people read it: in its largest unit, to a tenth unless it is whole."""
    for unit, factor in (("TiB", TIB), ("GiB", GIB), ("MiB", MIB), ("KiB", KIB)):
        if count >= factor:
            return f"{count / factor:.1f} {unit}" if count % factor else f"{count // factor} {unit}"
    return readable_size(count)


def duration(seconds: float) -> str:
    """Return a duration in its two largest units: `3 d 4 h`, `12 min 5 s`, `7.2 s`."""
    if seconds < MINUTE_SECONDS:
        return f"{seconds:.1f} s"
    whole = int(seconds)
    for unit, factor, smaller, part in (
        ("d", DAY_SECONDS, "h", HOUR_SECONDS),
        ("h", HOUR_SECONDS, "min", MINUTE_SECONDS),
        ("min", MINUTE_SECONDS, "s", 1),
    ):
        if whole >= factor:
            return f"{whole // factor} {unit} {whole % factor // part} {smaller}"
    raise ValueError("a minute is the smallest of these")
