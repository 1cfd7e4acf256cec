"""Work on a data directory while no server runs on it: the store takes the directory's lock, and refuses without it."""

from typing import TYPE_CHECKING

import click

from actors.units import Reading
from postroom.bootstrap import Founded, plan_found, plan_reset
from postroom.config import Config
from storage.clock import wall_clock_us
from storage.life import describe
from storage.secret import SecretBytes
from storage.sqlite import OfflineStore, open_offline

if TYPE_CHECKING:
    from collections.abc import Callable

    from storage.resealing import Forget, Names, Resealed

_tokens = Reading(lambda snapshot: snapshot.tokens())


def run_init(config: Config) -> Founded:
    """Make what a new data directory begins with. Raises `ConfigError`, `StorageError`."""
    with open_offline(config.storage, create=True) as store:
        _tell(store)
        unit, founded = plan_found(store.read(_tokens), config, wall_clock_us())
        if unit is not None:
            store.commit(unit)
        return founded


def run_reset(config: Config) -> str:
    """Make a new admin token in place of all others and return its text.

    Raises `StorageError`, also when there is no data directory: a mistyped path must not make one.
    """
    with open_offline(config.storage) as store:
        _tell(store)
        unit, text = plan_reset(store.read(_tokens), wall_clock_us())
        store.commit(unit)
        return text


def run_reseal(
    config: Config, old: SecretBytes | None, *, forget: "Forget", agree: "Callable[[Names], None]"
) -> "Resealed":
    """Put the secrets under the key of the configuration; `old` is the one that they are sealed with.

    As `storage.resealing.reseal` says. Raises `StorageError`.
    """
    with open_offline(config.storage) as store:
        _tell(store)
        return store.reseal(old, config.secret_key, forget=forget, agree=agree)


def _tell(store: OfflineStore) -> None:
    """Say it when opening the store found another database there: whoever runs the command should know."""
    if store.new_life:
        click.echo(describe(store.new_life), err=True)
