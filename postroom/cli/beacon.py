"""`postroom beacon …`: an agent's standing interests. Messages that match are delivered to its private inbox."""

import functools
from collections.abc import Callable
from typing import Any, TypeVar

import click

from postroom.cli.numbers import Share
from postroom.cli.program import EXIT_USAGE, Failure, Remote, remote
from postroom.cli.terminal import print_json, safe, table, when
from postroom.cli.times import Span
from postroom.client import segment

ROUTE = "/v1/beacons"

R = TypeVar("R")


def interest_options(command: Callable[..., R]) -> Callable[..., R]:
    """Give a command the options that say what a beacon is about, and their JSON as `interest`, empty without any."""

    @click.option(
        "--about", metavar="TEXT", help="What is of interest, in words; without it the rest decides."
    )
    @click.option("--inbox", "inboxes", multiple=True, metavar="SLUG", help="Only from it; may be repeated.")
    @click.option(
        "--type", "types", multiple=True, metavar="TYPE", help="Only this event type; may be repeated."
    )
    @click.option("--kind", "kinds", multiple=True, metavar="KIND", help="Only this kind; may be repeated.")
    @click.option(
        "--require", multiple=True, metavar="TERM", help="A term that must be in it; may be repeated."
    )
    @click.option("--exclude", multiple=True, metavar="TERM", help="A term that must not; may be repeated.")
    @click.option("--min-score", type=Share(), metavar="SCORE", help="Least score, 0 to 1.  [server's: 0.45]")
    @click.option("--weight", type=Share(), metavar="W", help="How much it matters, 0 to 1.  [server's: 1]")
    @functools.wraps(command)
    def wrapped(
        *args: Any,
        about: str | None,
        inboxes: tuple[str, ...],
        types: tuple[str, ...],
        kinds: tuple[str, ...],
        require: tuple[str, ...],
        exclude: tuple[str, ...],
        min_score: float | None,
        weight: float | None,
        **kwargs: Any,
    ) -> R:
        lists = {"inboxes": inboxes, "types": types, "kinds": kinds, "require": require, "exclude": exclude}
        interest: dict[str, Any] = {name: list(given) for name, given in lists.items() if given}
        single = {"about": about, "min_score": min_score, "weight": weight}
        interest |= {name: given for name, given in single.items() if given is not None}
        return command(*args, interest=interest, **kwargs)

    return wrapped


@click.group()
def beacon() -> None:
    """Place, list, remove and test beacons (needs a token of an agent)."""


@beacon.command()
@click.argument("name")
@interest_options
@click.option("--ttl", type=Span(), metavar="SPAN", help="How long it lives, such as 12h or 30d.  [for ever]")
@click.option("--backfill", type=int, metavar="N", help="Deliver the newest N of what is there, 0 to 100.")
@remote
def place(remote: Remote, name: str, interest: dict[str, Any], ttl: int | None, backfill: int | None) -> None:
    """Place a beacon, in place of one of the same name: messages that match it come into your inbox."""
    body = _said(interest)
    if ttl is not None:
        body["ttl_seconds"] = ttl
    if backfill is not None:
        body["backfill"] = backfill
    with remote.api() as api:
        answer = api.json("PUT", f"{ROUTE}/{segment(name)}", body=body)
    if remote.as_json:
        print_json(answer)
        return
    click.echo(f"Placed the beacon {safe(name)}.")
    if terms := answer["terms"]:
        table(("TERM", "WEIGHT"), ((one["term"], f"{one['idf']:.2f}") for one in terms), right=("WEIGHT",))
    click.echo(f"Messages of the last 7 days that match: {safe(answer['would_have_matched_7d'])}.")
    if answer["backfilled"]:
        click.echo(f"Delivered now: {safe(answer['backfilled'])}.")


def _said(interest: dict[str, Any]) -> dict[str, Any]:
    """Return a copy of what a beacon is about. Raises `Failure` when that is everything."""
    if not interest.keys() - {"min_score", "weight"}:
        raise Failure("say what it is about: --about TEXT, or --inbox, --type or --kind.", EXIT_USAGE)
    return dict(interest)


@beacon.command("list")
@remote
def list_(remote: Remote) -> None:
    """List the beacons of the token's agent."""
    with remote.api() as api:
        beacons = api.json("GET", ROUTE)["beacons"]
    if remote.as_json:
        print_json({"beacons": beacons})
        return
    if not beacons:
        click.echo("No beacons.")
        return
    rows = (
        (one["name"], _filters(one), one["about"] or "–", _today(one), when(one["expires_at"]))
        for one in beacons
    )
    table(("NAME", "ONLY", "ABOUT", "TODAY", "EXPIRES"), rows)


def _filters(one: dict[str, Any]) -> str:
    named = [*one["inboxes"], *one["types"], *one["kinds"]]
    named += [f"+{term}" for term in one["require"]] + [f"-{term}" for term in one["exclude"]]
    return " ".join(named) or "–"


def _today(one: dict[str, Any]) -> str:
    """Return how many messages a beacon has brought today, and how many its limit kept back."""
    kept_back = f" ({one['overflow_today']} kept back)" if one["overflow_today"] else ""
    return f"{one['delivered_today']}{kept_back}"


@beacon.command()
@click.argument("name")
@remote
def remove(remote: Remote, name: str) -> None:
    """Remove a beacon. What it has delivered stays."""
    with remote.api() as api:
        api.call("DELETE", f"{ROUTE}/{segment(name)}")
    if remote.as_json:
        print_json({"removed": name})
        return
    click.echo(f"Removed the beacon {safe(name)}.")


@beacon.command()
@click.argument("name", required=False)
@interest_options
@remote
def test(remote: Remote, name: str | None, interest: dict[str, Any]) -> None:
    """Show which messages the beacon NAME, or one with these options, would have matched.

    Nothing is placed or delivered.
    """
    if name is not None and interest:
        raise Failure("give the name of a beacon, or the options of one.", EXIT_USAGE)
    body = _said(interest) if name is None else {"name": name}
    with remote.api() as api:
        matches = api.json("POST", f"{ROUTE}:test", body=body)["matches"]
    if remote.as_json:
        print_json({"matches": matches})
        return
    if not matches:
        click.echo("It would have matched nothing.")
        return
    rows = (
        (one["inbox"], one["seq"], f"{one['score']:.2f}", " ".join(one["matched_terms"])) for one in matches
    )
    table(("INBOX", "SEQ", "SCORE", "TERMS"), rows, right=("SEQ", "SCORE"))
