"""`wait` and `tail`: sleeping until something comes, and following an inbox for as long as it runs."""

import math
import time

import click
import msgspec

from postroom.cli.lines import gap_line, life_line, message_line
from postroom.cli.program import EXIT_NOTHING, EXIT_USAGE, Failure, Remote, remote, remote_lines
from postroom.cli.terminal import print_json, print_json_line, safe
from postroom.cli.times import WholeSeconds
from postroom.client import Broken, Client, Params, Refused, Unreachable, segment
from postroom.following import Backoff, Cursor, Follower, Gap, Item, Lost, Message, NewLife, cursor_now

ONE_WAIT_SECONDS = 50
"""One call of a long wait: under the 60 s after which many proxies cut an answer off."""

BUSY = frozenset({429, 503})
"""What a server answers that is there and will be free later, or is stopping."""

DEFAULT_LINES = 10

type_option = click.option(
    "--type", "types", multiple=True, metavar="TYPE", help="Only this event type; may be repeated."
)


class ForwardPage(msgspec.Struct, frozen=True):
    """What `wait` looks at in a forward answer."""

    messages: list[msgspec.Raw]
    epoch: str
    next_after: int
    gap: bool


class BackwardPage(msgspec.Struct, frozen=True):
    """What `tail` looks at in a backward answer."""

    messages: list[msgspec.Raw]
    latest_seq: int
    epoch: str


@click.command()
@click.argument("slug")
@click.option("--after", type=int, required=True, metavar="SEQ", help="What you have read: 0 for nothing.")
@click.option(
    "--timeout",
    type=WholeSeconds(),
    default=30,
    show_default=True,
    metavar="SECONDS",
    help="How long to wait, in whole seconds; 0 only looks.",
)
@type_option
@click.option("--limit", type=int, metavar="N", help="At most N messages, 1 to 100.  [server's default: 20]")
@click.option("--bodies", is_flag=True, help="Include bodies up to the server's inline limit.")
@click.option(
    "--epoch", metavar="EPOCH", help="The life that --after belongs to; another one is exit code 6."
)
@remote
def wait(
    remote: Remote,
    slug: str,
    after: int,
    timeout: int,
    types: tuple[str, ...],
    limit: int | None,
    bodies: bool,
    epoch: str | None,
) -> None:
    """Wait until an inbox has messages after SEQ, and print them.

    Returns at once when there are any. Exit code 8: nothing came in time. With --json the answer is printed
    in both cases; its next_after is the SEQ of your next call. A server that is busy, or goes away once it
    has answered, is asked again until the time is up.
    """
    fixed: Params = [("types", one) for one in types]
    if limit is not None:
        fixed.append(("limit", limit))
    if bodies:
        fixed.append(("bodies", "true"))
    until = time.monotonic() + timeout
    with remote.api() as api:
        answer, page = _wait_until(until, api, slug, after, epoch, fixed)
    if remote.as_json:
        print_json(answer)
    elif page.gap:
        click.echo("Messages right after this cursor are no longer kept.", err=True)
    if not remote.as_json:
        for one in page.messages:
            click.echo(message_line(bytes(one), body=bodies))
        nothing = "" if page.messages or page.gap else "Nothing came in time. "
        click.echo(f"{nothing}Next: --after {page.next_after}", err=True)
    if not page.messages and not page.gap:
        raise click.exceptions.Exit(EXIT_NOTHING)


def _wait_until(
    until: float, api: Client, slug: str, after: int, epoch: str | None, fixed: Params
) -> tuple[bytes, ForwardPage]:
    """Return the first answer that says something, or the last empty one when it is `until` (of `time.monotonic`).

    Raises `Unreachable` when nobody is there at first, and it or `Refused` when there was no answer at all by then;
    also a refusal that is for good.
    """
    route = f"/v1/inboxes/{segment(slug)}/wait"
    backoff = Backoff()
    empty: tuple[bytes, ForwardPage] | None = None
    while True:
        seconds = math.ceil(min(max(until - time.monotonic(), 0.0), ONE_WAIT_SECONDS))
        params: Params = [("after", after), ("timeout_seconds", seconds), *fixed]
        if epoch is not None:
            params.append(("epoch", epoch))
        try:
            answer = api.call("GET", route, params=params)
        except (Unreachable, Refused) as error:
            if empty is None and not _is_there(error):
                raise
            lost = backoff.lost(error)
            left = until - time.monotonic()
            if left > 0:
                # One last look when the time is up: what came during a restart is not left for the next call.
                lost = Lost(lost.reason, min(lost.seconds, left))
                say_lost(lost)
                time.sleep(lost.seconds)
                continue
            if empty is None:
                raise
            return empty
        backoff.succeeded()
        page = msgspec.json.decode(answer, type=ForwardPage)
        if page.messages or page.gap or time.monotonic() >= until:
            return answer, page
        # Empty before its time: a long wait goes on, and a server that is stopping ends its waits early. It goes on
        # with the cursor and its life: a filter may have skipped messages, and a new life must not pass unnoticed.
        empty = answer, page
        after, epoch = page.next_after, page.epoch


def _is_there(error: Unreachable | Refused) -> bool:
    """Whether there is a server where the first call went, though it has not answered it."""
    return isinstance(error, Broken) or (isinstance(error, Refused) and error.status in BUSY)


@click.command()
@click.argument("slug")
@click.option("--follow", "-f", is_flag=True, help="Go on with what comes, until interrupted.")
@click.option(
    "--lines",
    "-n",
    type=click.IntRange(0, 100),
    default=DEFAULT_LINES,
    show_default=True,
    metavar="N",
    help="Begin with the last N messages.",
)
@click.option("--after", type=int, metavar="SEQ", help="With -f: begin after SEQ instead.")
@click.option("--epoch", metavar="EPOCH", help="With --after: the life that SEQ belongs to.")
@type_option
@click.option("--bodies", is_flag=True, help="Show bodies up to the server's inline limit.")
@remote_lines
def tail(
    remote: Remote,
    slug: str,
    follow: bool,
    lines: int,
    after: int | None,
    epoch: str | None,
    types: tuple[str, ...],
    bodies: bool,
) -> None:
    """Print the last messages of an inbox, one a line; with -f, go on with those that come.

    A broken connection or a server that starts again is reported on stderr and costs no message: the stream
    is resumed from its own cursor. Where messages are no longer kept, and where the inbox begins a new
    life, a line says so.
    """
    if after is not None and not follow:
        raise Failure("--after needs -f; `postroom messages SLUG --after SEQ` prints a page.", EXIT_USAGE)
    if epoch is not None and after is None:
        raise Failure("--epoch needs --after.", EXIT_USAGE)
    with remote.api() as api:
        if after is not None:
            cursor = Cursor(after, epoch or cursor_now(api, slug).epoch)
        elif lines == 0:
            cursor = cursor_now(api, slug)
        else:
            cursor = _print_last(api, slug, lines, types, bodies, remote.as_json)
        if follow:
            for item in Follower(api, slug, cursor, types=types, bodies=bodies):
                show(item, bodies, remote.as_json)


def _print_last(
    api: Client, slug: str, lines: int, types: tuple[str, ...], bodies: bool, as_json: bool
) -> Cursor:
    """Print the last messages, oldest first, and return the cursor of the same moment."""
    params: Params = [("limit", lines), *(("types", one) for one in types)]
    if bodies:
        params.append(("bodies", "true"))
    answer = api.call("GET", f"/v1/inboxes/{segment(slug)}/messages", params=params)
    page = msgspec.json.decode(answer, type=BackwardPage)
    for one in reversed(page.messages):
        show(Message(bytes(one).decode()), bodies, as_json)
    return Cursor(page.latest_seq, page.epoch)


def show(item: Item, bodies: bool, as_json: bool) -> None:
    """Print what happened, on one line. JSON Lines are messages, or one of `gap` and `epoch_changed`."""
    match item:
        case Message(document):
            if as_json:
                print_json_line(document)
            else:
                click.echo(message_line(document, body=bodies))
        case Gap(after, first_seq):
            if as_json:
                print_json_line({"gap": {"after": after, "first_seq": first_seq}})
            else:
                click.echo(gap_line(item))
        case NewLife(epoch):
            if as_json:
                print_json_line({"epoch_changed": {"epoch": epoch}})
            else:
                click.echo(life_line(item))
        case Lost():
            say_lost(item)


def say_lost(lost: Lost) -> None:
    """Say on stderr that there is no stream at present."""
    click.echo(f"postroom: {safe(lost.reason)} Trying again in {lost.seconds:.1f} s.", err=True)
