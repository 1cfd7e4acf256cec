"""`postroom drain`: what an agent's harness runs before each turn, to put new messages before its model.

It must never be in an agent's way. Its requests have one deadline together, so that the whole command ends within 2 s;
a server that is away or busy is one line on stderr and exit code 0; and no failure has exit code 2, by which several
harnesses understand that the turn is to be blocked.

What is printed is acknowledged by the *next* call: by then the harness has read it. A call that comes to nothing
acknowledges nothing.
"""

import os
import queue
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import click

from postroom.cli.digest import LEAST_BYTES, digest
from postroom.cli.program import EXIT_FAILED, EXIT_USAGE, Failure, Remote, remote
from postroom.cli.terminal import print_json, safe
from postroom.client import Client, ClientError, Refused, Unreachable
from postroom.deliveries import Item
from postroom.draining import BYTES_PER_TOKEN, Drainer, Handled
from postroom.remembering import Pairs, load, save, state_file

REQUESTS_SECONDS = 1.2
"""For all requests of one call, of the 2 s that it may take: loading the program takes half a second."""
WHOLE_SECONDS = 1.7
"""From the start of the program to the last answer. The rest is for starting Python, printing, and ending."""
LEAST_SECONDS = 0.3
"""For the requests, however long a busy machine has taken to load the program: a server nearby needs a tenth."""

DEFAULT_TOKENS = 2_000
"""Some 6,000 characters: harnesses take 10,000 from a hook whole."""
MOST_TOKENS = 100_000

TOKENS_OF_AN_ITEM = 40
"""The least that an item takes; a page of as many items as could be shown is the largest that is worth fetching."""
MOST_ITEMS = 100
"""Of a page: the server's own cap."""

T = TypeVar("T")


@contextmanager
def _never_two() -> Iterator[None]:
    """Let no failure end with the exit code that blocks an agent's turn."""
    try:
        yield
    except (Unreachable, Refused):
        raise
    except ClientError as error:
        raise Failure(str(error), EXIT_FAILED) from error
    except click.ClickException as error:
        if error.exit_code == EXIT_USAGE:
            error.exit_code = EXIT_FAILED  # type: ignore[misc]  # click reads it from the instance
        raise


class Hook(click.Command):
    """A command for harnesses: wrong usage, too, has exit code 1."""

    def make_context(self, *args: Any, **kwargs: Any) -> click.Context:
        """Read the command line."""
        with _never_two():
            return super().make_context(*args, **kwargs)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command."""
        with _never_two():
            return super().invoke(ctx)


@click.command(cls=Hook)
@click.option(
    "--budget-tokens",
    type=click.IntRange(LEAST_BYTES // BYTES_PER_TOKEN, MOST_TOKENS),
    default=DEFAULT_TOKENS,
    show_default=True,
    metavar="N",
    help="How much to print at most, in tokens of 3 bytes.",
)
@remote
def drain(remote: Remote, budget_tokens: int) -> None:
    """Print what is new in the inbox of the token's agent, for its model to read; the next call acknowledges it.

    For a hook that runs before each turn. Prints nothing when there is nothing, and ends within 2 seconds with
    exit code 0 when the server is away (one line on stderr). With --json: the items themselves, as many as fit
    but at least one.
    """
    if sys.stdout is None:  # closed before we were started
        raise Failure("standard output is closed.", EXIT_FAILED)
    token = remote.token()
    file, shown = _remembered(remote.url.rstrip("/"), token)
    try:
        drainer, items = within(_seconds_left(), lambda: _look(remote, budget_tokens, shown))
    except (Unreachable, Refused) as error:
        if isinstance(error, Refused) and error.status in (401, 403):
            raise
        click.echo(f"postroom: {safe(error)} New messages have to wait.", err=True)
        return
    room = budget_tokens * BYTES_PER_TOKEN
    if remote.as_json:
        printed = _fitting(items, room)
        more = drainer.has_more or len(printed) < len(items)
        print_json(_document(printed, more))
    else:
        made = digest(items, room, more=drainer.has_more)
        printed = list(made.shown)
        click.echo(made.text, nl=False)
    sys.stdout.flush()  # remembered only when it has been handed over
    for item in printed:
        drainer.handled.add(item)
    if file is not None and (now := drainer.handled.pairs()) != shown:
        try:
            save(file, now)
        except OSError as error:
            _say_forgotten(error)


def _seconds_left() -> float:
    """Return how long the requests may take. A context without an `obj` does not say when the program was started."""
    began = click.get_current_context().obj
    gone = 0.0 if began is None else time.monotonic() - began
    return max(min(REQUESTS_SECONDS, WHOLE_SECONDS - gone), LEAST_SECONDS)


def within(seconds: float, work: Callable[[], T]) -> T:
    """Return what `work` returns, or raise what it raises; raises `Unreachable` when that takes longer.

    In a thread that nobody waits for: looking a name up, connecting and reading each have limits of their own at best.
    """
    done: queue.SimpleQueue[tuple[T | None, BaseException | None]] = queue.SimpleQueue()

    def run() -> None:
        try:
            done.put((work(), None))
        except BaseException as error:
            done.put((None, error))

    threading.Thread(target=run, daemon=True).start()
    try:
        result, error = done.get(timeout=seconds)
    except queue.Empty:
        raise Unreachable("The server did not answer in time.") from None
    if error is not None:
        raise error
    return result  # type: ignore[return-value]  # of `work`, whose T may be Optional


def _look(remote: Remote, tokens: int, shown: Pairs) -> tuple[Drainer, list[Item]]:
    """Acknowledge what was shown, and return what is new."""
    limit = max(1, min(MOST_ITEMS, tokens // TOKENS_OF_AN_ITEM))
    with Client(remote.url, remote.token(), read_seconds=REQUESTS_SECONDS, session=remote.session()) as api:
        drainer = Drainer(api, limit=limit, handled=Handled(shown), patience_seconds=0)
        return drainer, drainer.look()


def _fitting(items: list[Item], room: int) -> list[Item]:
    """Return the first items whose JSON fits, at least one."""
    fitting: list[Item] = []
    for item in items:
        room -= item.size
        if fitting and room < 0:
            break
        fitting.append(item)
    return fitting


def _document(items: list[Item], more: bool) -> bytes:
    """Return the items as the server sent them, in one JSON document."""
    joined = b",".join(item.document for item in items)
    return b'{"items":[' + joined + b'],"more":' + (b"true" if more else b"false") + b"}"


def _remembered(url: str, token: str) -> tuple[Path | None, Pairs]:
    """Return the file of this server and token, and what it holds; None when there is nowhere to have one."""
    try:
        file = state_file(url, token, os.environ)
        return file, load(file)
    except OSError as error:
        _say_forgotten(error)
        return None, []


def _say_forgotten(error: OSError) -> None:
    """Say that something will be shown again. No failure: a harness throws away what a failed hook has printed."""
    reason = safe(error.strerror or error)
    click.echo(f"postroom: cannot remember what was shown ({reason}); it will be shown again.", err=True)
