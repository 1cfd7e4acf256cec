"""`forward`: every message of an inbox sent once more, to an address of your choice: a server on your own machine."""

import time
from collections.abc import Iterable, Iterator

import click
import msgspec

from postroom.cli.follow import ForwardPage, say_lost, type_option
from postroom.cli.lines import gap_line, life_line
from postroom.cli.program import EXIT_FAILED, EXIT_NOT_FOUND, EXIT_USAGE, Failure, Remote, remote_lines
from postroom.cli.terminal import print_json_line, safe
from postroom.cli.times import AnswerSeconds
from postroom.client import Client, Params, Refused, Unreachable, segment
from postroom.following import Backoff, Cursor, Follower, Gap, Item, Lost, Message, NewLife, cursor_now
from postroom.forwarding import Forwardable, Outcome, Target, forward

PAGE_MESSAGES = 100


@click.command("forward")
@click.argument("slug")
@click.option(
    "--to", required=True, metavar="URL", help="Where to; each message's own path and query follow."
)
@click.option(
    "--after", type=int, metavar="SEQ", help="Begin after SEQ (0: with the oldest).  [default: now]"
)
@click.option("--epoch", metavar="EPOCH", help="With --after or --only: the life that SEQ belongs to.")
@click.option("--only", type=click.IntRange(min=1), metavar="SEQ", help="Only the message SEQ, and then end.")
@click.option("--once", is_flag=True, help="End when everything that is there now has been sent.")
@type_option
@click.option(
    "--stop-on-error", is_flag=True, help="Stop at a message without an answer, or with any but a 2xx."
)
@click.option(
    "--timeout",
    type=AnswerSeconds(),
    default=30.0,
    show_default=True,
    metavar="SECONDS",
    help="For each whole answer, from when the message has been sent.",
)
@remote_lines
def forward_command(
    remote: Remote,
    slug: str,
    to: str,
    after: int | None,
    epoch: str | None,
    only: int | None,
    once: bool,
    types: tuple[str, ...],
    stop_on_error: bool,
    timeout: float,
) -> None:
    """Send each message of an inbox to a URL as its first sender sent it, and show what it answered.

    Method, path, query, headers and body are the original bytes. Left out: headers of the first connection,
    Host and Content-Length (made anew), and those that were redacted, which are named. Without --after only
    new messages are sent. Redirects are failures and not followed, and so is a path that would lead out of
    the path of URL. What fails is not sent again; --after SEQ does that.
    """
    if only is not None and (once or types or after is not None):
        raise Failure("--only sends one message: --after, --once and --type do not go with it.", EXIT_USAGE)
    if once and after is None:
        raise Failure("--once needs --after SEQ: what is there, from where on?", EXIT_USAGE)
    if epoch is not None and after is None and only is None:
        raise Failure("--epoch needs --after or --only.", EXIT_USAGE)
    failed = 0
    said: set[str] = set()
    with remote.api() as api, Target(to, timeout_seconds=timeout) as target:
        cursor = cursor_now(api, slug)
        last = cursor.after
        if after is not None:
            cursor = Cursor(after, epoch or cursor.epoch)
        items: Iterable[Item]
        if only is not None:
            items = [_one(api, slug, Cursor(only - 1, epoch or cursor.epoch))]
        elif once:
            items = _stored(api, slug, cursor, last, types)
        else:
            items = Follower(api, slug, cursor, types=types)
        for item in items:
            if not isinstance(item, Message):
                _show(item, remote.as_json)
                continue
            message = msgspec.json.decode(item.document, type=Forwardable)
            outcome = _carry(api, target, message)
            _report(outcome, remote.as_json)
            _say_left_out(outcome, said)
            if not outcome.is_success:
                failed += 1
                if stop_on_error:
                    again = f"--after {message.seq - 1} --epoch {message.epoch}"
                    raise Failure(f"stopped at message {message.seq}; to go on with it: {again}", EXIT_FAILED)
    if failed:
        verb = "was" if failed == 1 else "were"
        raise Failure(f"{failed} of the messages {verb} not taken.", EXIT_FAILED)


def _stored(api: Client, slug: str, cursor: Cursor, last: int, types: tuple[str, ...]) -> Iterator[Item]:
    """Give what is stored after a cursor, up to `last`, and the gaps in it."""
    while cursor.after < last:
        params: Params = [("after", cursor.after), ("epoch", cursor.epoch), ("limit", PAGE_MESSAGES)]
        params += [("types", one) for one in types]
        answer = api.call("GET", f"/v1/inboxes/{segment(slug)}/messages", params=params)
        page = msgspec.json.decode(answer, type=ForwardPage)
        if page.gap:
            yield Gap(cursor.after, None)
        for one in page.messages:
            document = bytes(one).decode()
            if msgspec.json.decode(document, type=Forwardable).seq > last:
                return
            yield Message(document)
        cursor = Cursor(page.next_after, page.epoch)


def _one(api: Client, slug: str, before: Cursor) -> Message:
    """Return the message right after a cursor. Raises `Failure` when it is not there (any more)."""
    seq = before.after + 1
    params: Params = [("after", before.after), ("epoch", before.epoch), ("limit", 1)]
    try:
        answer = api.call("GET", f"/v1/inboxes/{segment(slug)}/messages", params=params)
        documents = [bytes(one).decode() for one in msgspec.json.decode(answer, type=ForwardPage).messages]
    except Refused as error:
        if error.code != "cursor_ahead":
            raise
        documents = []
    for document in documents:
        if msgspec.json.decode(document, type=Forwardable).seq == seq:
            return Message(document)
    raise Failure(f"{safe(slug)} has no message {seq}, or no longer.", EXIT_NOT_FOUND)


def _carry(api: Client, target: Target, message: Forwardable) -> Outcome:
    """Send one message, as soon as it can be fetched; one that is no longer there by then is an outcome, too."""
    backoff = Backoff()
    while True:
        try:
            return forward(api, target, message)
        except (Unreachable, Refused) as error:
            if isinstance(error, Refused) and error.status == 404:
                return _gone(message)
            lost = backoff.lost(error)
        say_lost(lost)
        time.sleep(lost.seconds)


def _gone(message: Forwardable) -> Outcome:
    said = message.untrusted
    return Outcome(
        seq=message.seq,
        method=message.method or "POST",
        path=said.path,
        event_type=said.event_type,
        status=None,
        error="no longer kept",
        milliseconds=0.0,
        redacted=(),
        left_out=(),
    )


def _report(outcome: Outcome, as_json: bool) -> None:
    if as_json:
        print_json_line(msgspec.to_builtins(outcome))
        return
    if outcome.status is None:
        answered = f"failed: {outcome.error}"
    else:
        answered = f"{outcome.status} ({outcome.error})" if outcome.error else str(outcome.status)
    line = f"{outcome.seq:>6}  {outcome.event_type or '–'}  {outcome.method} {outcome.path}  {answered}"
    line += f"  {outcome.milliseconds:,.0f} ms"
    if outcome.redacted:
        line += f"  (without {', '.join(outcome.redacted)}: redacted)"
    click.echo(safe(line))


def _say_left_out(outcome: Outcome, said: set[str]) -> None:
    """Say once of each header that is not sent because it belongs to a connection."""
    new = [name for name in outcome.left_out if name not in said]
    if new:
        said.update(new)
        click.echo(safe(f"Not sent, as they belong to a connection: {', '.join(new)}."), err=True)


def _show(item: Item, as_json: bool) -> None:
    match item:
        case Gap():
            line = gap_line(item)
        case NewLife():
            line = life_line(item)
        case Lost():
            say_lost(item)
            return
        case Message():
            return
    click.echo(line, err=as_json)
