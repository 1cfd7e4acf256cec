"""Where commands take secrets from: the environment, a file, standard input or a hidden prompt.

A secret on the command line is accepted because people will, and is visible to every user of the machine
while the command runs; the help says so.
"""

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import click

from postroom.cli.program import EXIT_USAGE, Failure

R = TypeVar("R")


def secret_options(command: Callable[..., R]) -> Callable[..., R]:
    """Add `--secret-env`, `--secret-file` and `--secret`."""
    command = click.option("--secret", metavar="VALUE", help="The secret itself; other users can see it.")(
        command
    )
    command = click.option("--secret-file", metavar="FILE", help="Read the secret from a file, - for stdin.")(
        command
    )
    return click.option("--secret-env", metavar="NAME", help="Take the secret from an environment variable.")(
        command
    )


def read_secret(
    secret: str | None, secret_env: str | None, secret_file: str | None, *, prompt: bool = False
) -> str | None:
    """Return the secret that the options name, None when they name none (with `prompt`: ask on a terminal).

    One trailing newline of a file is not part of the secret. Raises `Failure`.
    """
    if sum(source is not None for source in (secret, secret_env, secret_file)) > 1:
        raise Failure("give one of --secret-env, --secret-file and --secret.", EXIT_USAGE)
    if secret_env is not None:
        secret = os.environ.get(secret_env)
        if secret is None:
            raise Failure(f"the environment variable {secret_env} is not set.", EXIT_USAGE)
    elif secret_file is not None:
        try:
            from_stdin = secret_file == "-"  # noqa: S105 - a file name, not a password # nosec B105
            data = sys.stdin.buffer.read() if from_stdin else Path(secret_file).read_bytes()
            secret = data.decode().removesuffix("\n").removesuffix("\r")
        except UnicodeDecodeError:
            raise Failure("the secret is not UTF-8 text.", EXIT_USAGE) from None
    elif secret is None and prompt:
        if not sys.stdin.isatty():
            raise Failure("give the secret with --secret-env or --secret-file.", EXIT_USAGE)
        secret = click.prompt("Secret", hide_input=True, err=True)
    if secret == "":  # whether there is none # nosec B105
        raise Failure("the secret is empty.", EXIT_USAGE)
    return secret
