"""What all commands share: the top group, the options of client commands, exit codes, errors as one sentence.

Exit codes, for scripts: 0 done; 1 the server or the store refused or failed; 2 wrong usage or
configuration; 3 no server answered; 4 not authenticated or not allowed; 5 there is no such thing; 6 it
conflicts with what is there; 7 try again later; 8 nothing came in time; 130 interrupted.
"""

import functools
import os
import sys
import traceback
from collections.abc import Callable, Iterator
from typing import IO, Any, ParamSpec, TypeVar

import click

from postroom.cli.terminal import safe
from postroom.client import Client, ClientError, Refused, Unreachable
from postroom.config import ConfigError
from postroom.following import REVOKED, Ended
from postroom.session import SESSION_VARIABLE, session_of
from storage.errors import StorageError

DEFAULT_URL = "http://127.0.0.1:8025"

EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_UNREACHABLE = 3
EXIT_NOT_ALLOWED = 4
EXIT_NOT_FOUND = 5
EXIT_CONFLICT = 6
EXIT_LATER = 7
EXIT_NOTHING = 8
EXIT_INTERRUPTED = 130

LONGEST_SESSION = 128
"""Characters of POSTROOM_SESSION: enough for any id, little for a header."""

EXIT_BY_STATUS = {
    401: EXIT_NOT_ALLOWED,
    403: EXIT_NOT_ALLOWED,
    404: EXIT_NOT_FOUND,
    408: EXIT_LATER,
    409: EXIT_CONFLICT,
    429: EXIT_LATER,
    503: EXIT_LATER,
}

P = ParamSpec("P")
R = TypeVar("R")


class Failure(click.ClickException):
    """The end of a command that could not do its work: one sentence on stderr and an exit code."""

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(message)
        self.exit_code = exit_code  # type: ignore[misc]  # click reads it from the instance

    def show(self, file: IO[Any] | None = None) -> None:
        """Print the sentence; it may quote a server or a sender, so it is made safe."""
        click.echo(f"postroom: {safe(self.message)}", file=file, err=file is None)


def failure(error: BaseException) -> Failure | None:
    """Return how a command ends with this error, None for an error that nobody expects."""
    match error:
        case Refused():
            return Failure(str(error), EXIT_BY_STATUS.get(error.status, EXIT_FAILED))
        case Unreachable():
            return Failure(str(error), EXIT_UNREACHABLE)
        case Ended():
            return Failure(str(error), EXIT_NOT_ALLOWED if error.reason == REVOKED else EXIT_NOT_FOUND)
        case ConfigError() | ClientError():
            return Failure(str(error), EXIT_USAGE)
        case StorageError():
            return Failure(str(error) or type(error).__name__, EXIT_FAILED)
        case UnicodeEncodeError():  # the system hands arguments over as bytes, whatever they are
            return Failure("an argument holds bytes that are no UTF-8 text.", EXIT_USAGE)
        case OSError():
            return Failure(f"{error.strerror or error}: {error.filename or ''}".rstrip(": "), EXIT_FAILED)
    return None


def leaves(error: BaseException) -> Iterator[BaseException]:
    """Give the exceptions that a group (of a nursery) holds, or the exception itself."""
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            yield from leaves(inner)
    else:
        yield error


def ending(error: BaseException) -> Failure:
    """Return how a command ends with this error: what is known wins over what nobody expected."""
    every = list(leaves(error))
    for one in every:
        if isinstance(one, Failure):
            return one
        known = failure(one)
        if known is not None:
            return known
    if any(isinstance(one, KeyboardInterrupt) for one in every):
        return Failure("interrupted.", EXIT_INTERRUPTED)
    what = f"{type(every[0]).__name__}: {every[0]}"
    return Failure(f"a defect of this program: {what} (`postroom --traceback …` shows where).", EXIT_FAILED)


class Program(click.Group):
    """The top group: whatever happens below it ends in an exit code and at most one sentence.

    `begins` is called when a command is about to run, from where an interrupt is caught here.
    """

    begins: Callable[[], object] = staticmethod(lambda: None)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command and translate its errors. `--traceback` shows where an error came from."""
        try:
            self.begins()
            return super().invoke(ctx)
        except (click.ClickException, click.exceptions.Exit):
            raise
        except (KeyboardInterrupt, click.Abort):
            raise Failure("interrupted.", EXIT_INTERRUPTED) from None
        except BrokenPipeError:
            raise  # click ends quietly: whoever read our output has had enough
        except (Exception, BaseExceptionGroup) as error:
            if ctx.params.get("traceback"):
                traceback.print_exc(file=sys.stderr)
            raise ending(error) from error


class Remote:
    """What a client command was asked with: which server, as whom, and how to print."""

    def __init__(self, url: str, as_json: bool, token: str | None) -> None:
        self.url = url
        self.as_json = as_json
        self._token = token

    def client(self) -> Client:
        """Return a client without a token, for sending messages."""
        return Client(self.url, None)

    def api(self) -> Client:
        """Return a client for the API. Raises `Failure` when there is no token to call it with."""
        return Client(self.url, self.token(), session=self.session())

    def session(self) -> str:
        """Return which of an agent's sessions this command belongs to. Raises `Failure` for one that is no name."""
        session = session_of(os.environ)
        plain = session.isascii() and session.isprintable() and " " not in session
        if not plain or len(session) > LONGEST_SESSION:
            takes = f"at most {LONGEST_SESSION} printable ASCII characters without spaces"
            raise Failure(f"{SESSION_VARIABLE} takes {takes}.", EXIT_USAGE)
        return session

    def token(self) -> str:
        """Return the token to call with. Raises `Failure` when there is none."""
        if not self._token:
            raise Failure("set POSTROOM_TOKEN to a token of this server.", EXIT_NOT_ALLOWED)
        if not (self._token.isascii() and self._token.isprintable()):
            raise Failure("POSTROOM_TOKEN holds characters that no token has.", EXIT_NOT_ALLOWED)
        return self._token


url_option = click.option(
    "--url",
    envvar="POSTROOM_URL",
    default=DEFAULT_URL,
    show_default=True,
    help="The server's base URL (POSTROOM_URL).",
)
"""Which server; `remote` includes it."""

AGENT_VARIABLE = "POSTROOM_AGENT"

agent_option = click.option(
    "--agent",
    "agent_id",
    envvar=AGENT_VARIABLE,
    metavar="AGENT",
    help="Who you are, for a token that is not one agent's own (POSTROOM_AGENT).",
)
"""In whose name a command of the mesh calls: an agent's own token says it by itself."""


def token_variable() -> str | None:
    """Return what `POSTROOM_TOKEN` says: a token has no option, since every user of a machine sees command lines."""
    return os.environ.get("POSTROOM_TOKEN")


def _remote(json_help: str) -> Callable[[Callable[..., R]], Callable[..., R]]:
    """Return a decorator that gives a command `--url`, `--json` and a `Remote` as its first argument."""

    def decorate(command: Callable[..., R]) -> Callable[..., R]:
        @url_option
        @click.option("--json", "as_json", is_flag=True, help=json_help)
        @functools.wraps(command)
        def wrapped(*args: Any, url: str, as_json: bool, **kwargs: Any) -> R:
            return command(Remote(url, as_json, token_variable()), *args, **kwargs)

        return wrapped

    return decorate


remote = _remote("Print one JSON document.")
"""Gives a command the options `--url` and `--json`, and a `Remote` as its first argument.

The token comes from `POSTROOM_TOKEN` only: a command line is visible to every user of the machine.
"""

remote_lines = _remote("Print JSON Lines: one object a line.")
"""The same for commands that print as they go."""


def confirm(question: str, yes: bool) -> None:
    """Ask before something that cannot be undone. Without a terminal only `--yes` is an answer."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise Failure(f"{question} Say --yes to do it without being asked.", EXIT_USAGE)
    if not click.confirm(safe(question), default=False, err=True):
        raise Failure("nothing was changed.", EXIT_FAILED)


yes_option = click.option("--yes", "-y", is_flag=True, help="Do it without asking.")
