"""The options of commands that use the server's configuration: `--config` and one flag for every setting."""

import functools
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from postroom.config import Config, ConfigError, load
from postroom.settings import SETTINGS

R = TypeVar("R")


def configured(
    *, only: frozenset[str] | None = None, again: bool = False
) -> Callable[[Callable[..., R]], Callable[..., R]]:
    """Return a decorator that adds the flags and passes a `Config` as the first argument.

    `only` limits the flags to some settings, for commands that the others do not concern; file and
    environment are read whole all the same. With `again`, the command gets a second argument, a function that reads
    the same sources once more. Raises `ConfigError` when the command runs.
    """
    flagged = [(s, s.flag) for s in SETTINGS if s.flag is not None and (only is None or s.key in only)]

    def decorate(command: Callable[..., R]) -> Callable[..., R]:
        @functools.wraps(command)
        def wrapped(*args: Any, config_file: Path | None, **kwargs: Any) -> R:
            flags = {setting.key: kwargs.pop(setting.key) for setting, _ in flagged}
            read = functools.partial(load, file=config_file, environment=dict(os.environ), flags=flags)
            read_again = functools.partial(_read_again, config_file, read)
            return command(read(), *((read_again,) if again else ()), *args, **kwargs)

        decorated: Callable[..., R] = wrapped
        for setting, flag in reversed(flagged):
            decorated = click.option(
                flag, setting.key, metavar=(setting.kind.unit or "VALUE").upper(), help=setting.reason
            )(decorated)
        return click.option(
            "--config",
            "config_file",
            type=click.Path(dir_okay=False, path_type=Path),
            help="A TOML file with settings, named in lower case.",
        )(decorated)

    return decorate


def _read_again(file: Path | None, read: Callable[[], Config]) -> Config:
    """Read the same sources while a server runs, which would stand still for as long as a pipe gives nothing.

    At the start a pipe is fine (`--config <(…)`), but it can be read only once. Raises `ConfigError`.
    """
    try:
        is_regular = file is None or stat.S_ISREG(file.stat().st_mode)
    except OSError:
        is_regular = True  # reading says what is wrong
    if not is_regular:
        raise ConfigError(f"The configuration file {file} is not a regular file, and is not read again.")
    return read()


offline_options = configured(only=frozenset({"data_dir"}))
