"""`postroom watch`: a command that is run when an agent's mail has come, for as long as the watch runs."""

import os
import shutil
import sys
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from postroom.cli.follow import say_lost
from postroom.cli.program import (
    AGENT_VARIABLE,
    EXIT_FAILED,
    EXIT_USAGE,
    Failure,
    Remote,
    agent_option,
    remote_lines,
)
from postroom.cli.terminal import print_json_line, safe
from postroom.cli.times import AnswerSeconds, Span
from postroom.following import Lost
from postroom.news import DEBOUNCE_SECONDS, INTERVAL_SECONDS, MAX_FAILURES, Terms, prompt
from postroom.session import SESSION_VARIABLE
from postroom.watch_eyes import Eyes

if TYPE_CHECKING:
    from postroom.watch_runs import Runner
    from postroom.watching import Happening

STDOUT, STDERR = 1, 2


@click.command(context_settings={"allow_interspersed_args": False})
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED, metavar="COMMAND [ARG]…")
@agent_option
@click.option(
    "--debounce",
    type=AnswerSeconds(),
    default=DEBOUNCE_SECONDS,
    show_default=True,
    metavar="SECONDS",
    help="Wait so long after the first message for more.",
)
@click.option(
    "--interval",
    type=AnswerSeconds(),
    default=INTERVAL_SECONDS,
    show_default=True,
    metavar="SECONDS",
    help="Between two looks, for a token that is not the agent's own.",
)
@click.option(
    "--timeout", type=Span(), metavar="SPAN", help="End a run that takes longer, such as 30m.  [never]"
)
@click.option(
    "--max-failures",
    type=click.IntRange(min=1),
    default=MAX_FAILURES,
    show_default=True,
    metavar="N",
    help="Give up after so many failed runs in a row.",
)
@click.option(
    "--present", is_flag=True, help="Count the agent as there while the watch runs: it will be woken."
)
@click.option("--once", is_flag=True, help="End after the first run; exit code 1 if it failed.")
@click.option(
    "--stdin", "to_stdin", is_flag=True, help="Give the prompt on standard input, not as an argument."
)
@remote_lines
def watch(
    remote: Remote,
    command: tuple[str, ...],
    agent_id: str | None,
    debounce: float,
    interval: float,
    timeout: int | None,
    max_failures: int,
    present: bool,
    once: bool,
    to_stdin: bool,
) -> None:
    """Run a command whenever mail has come for an agent, with a prompt behind its arguments.

    The prompt is a fixed text with the number of unread messages, never what is in them. One run at a time; mail
    that comes meanwhile is a reason for another one. What the command leaves unread is none. Options of the watch
    stand before COMMAND. A signal ends it, and a run that is under way. Exit code 1: the command has failed too
    often in a row.
    """
    # Imported here: it loads trio, which most other commands do without.
    import trio

    from postroom.watch_runs import Runner

    if shutil.which(command[0]) is None:
        raise Failure(f"there is no command {command[0]!r} to run.", EXIT_USAGE)
    with remote.api() as api:
        eyes = Eyes(api, agent_id)
        given = {
            "POSTROOM_URL": remote.url,
            AGENT_VARIABLE: eyes.agent_id,
            SESSION_VARIABLE: remote.session(),
        }
        runner = Runner(
            command,
            os.environ | given,
            to_stdin=to_stdin,
            limit_seconds=timeout,
            stdout=STDERR if remote.as_json else STDOUT,
        )
        said = _Said(remote.as_json, command[0])
        said.watching(eyes.agent_id)
        terms = Terms(
            debounce_seconds=debounce,
            interval_seconds=interval,
            max_failures=max_failures,
            present=present,
            once=once,
        )
        gave_up = trio.run(_watch, eyes, runner, said, terms)
    if gave_up is not None:
        raise Failure(gave_up, EXIT_FAILED)


async def _watch(eyes: Eyes, runner: "Runner", said: "_Said", terms: Terms) -> str | None:
    """Watch until a signal comes, or the command has failed too often; then return how."""
    import trio

    from postroom.watch_runs import until_signal
    from postroom.watching import Watch, keep_present, ring_at_events, ring_at_intervals

    watch = Watch(
        partial(trio.to_thread.run_sync, eyes.look, abandon_on_cancel=True),
        lambda look: runner.run(prompt(look, eyes.how)),
        said.happened,
        terms,
    )

    async def work() -> str | None:
        async with trio.open_nursery() as nursery:
            if eyes.has_stream:
                nursery.start_soon(ring_at_events, watch.bell, eyes.listen, said.happened)
            else:
                nursery.start_soon(ring_at_intervals, watch.bell, terms.interval_seconds)
            if terms.present:
                nursery.start_soon(keep_present, eyes.renew, said.happened)
            gave_up = await watch.run()
            nursery.cancel_scope.cancel()
        return gave_up

    return await until_signal(work, runner.kill)


class _Said:
    """What a watch says: JSON Lines on stdout, or sentences on stderr; stdout is the command's then."""

    def __init__(self, as_json: bool, command: str) -> None:
        self._as_json = as_json
        self._command = command

    def watching(self, agent_id: str) -> None:
        """Say that it begins."""
        self._say(f"watching the inbox of {agent_id}.", {"event": "watching", "agent_id": agent_id})

    def happened(self, happening: "Happening") -> None:
        """Say what has happened."""
        from postroom.watching import Running

        if isinstance(happening, Lost):
            say_lost(happening)
        elif isinstance(happening, Running):
            unread = happening.unread
            self._say(f"{unread:,} unread; running {self._command}.", {"event": "running", "unread": unread})
        else:
            code, again = happening.exit_code, happening.again_seconds
            how = "took too long, and was ended" if code is None else f"ended with exit code {code}"
            more = "" if again is None else f"; unless everything is read, again in {again:.0f} s"
            document = {
                "event": "ran",
                "exit_code": code,
                "seconds": round(happening.seconds, 3),
                "again_seconds": again,
            }
            self._say(f"{self._command} {how}{more}.", document)

    def _say(self, sentence: str, document: dict[str, Any]) -> None:
        if self._as_json:
            print_json_line(document)
            sys.stdout.flush()
        else:
            click.echo(f"postroom: {safe(sentence)}", err=True)
