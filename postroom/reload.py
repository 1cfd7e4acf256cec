"""Reloading: what SIGHUP does. The sources of the start are read again, and what can change while running, changes.

`Reloader` owns the configuration in force. The file is read anew; environment and flags are those of the start, because
nobody can change them from outside. All or nothing: a configuration that cannot be used changes nothing. Settings that
only a start can bring into force keep their old values and are named.
"""

from collections.abc import Callable
from typing import Any

import msgspec
import structlog

from postroom.config import Config, ConfigError, check_together
from postroom.parsing import readable
from postroom.settings import SETTINGS, Setting
from storage.secret import SecretBytes

log = structlog.get_logger("postroom")


class Change(msgspec.Struct, frozen=True):
    """What a reload comes to: the configuration in force after it, the settings that are new in it, and those that
    wait for a restart.
    """

    config: Config
    changed: tuple[Setting, ...]
    waiting: tuple[Setting, ...]


def plan(current: Config, wanted: Config) -> Change:
    """Decide what of a new configuration comes into force.

    Raises `ConfigError` when what may change does not go together with what may not.
    """
    different = [s for s in SETTINGS if not _same(getattr(current, s.key), getattr(wanted, s.key))]
    changed = tuple(setting for setting in different if setting.reloads)
    waiting = tuple(setting for setting in different if not setting.reloads)
    origins = current.origins | {s.key: wanted.origins[s.key] for s in SETTINGS if s not in waiting}
    values = {setting.key: getattr(wanted, setting.key) for setting in changed}
    config = msgspec.structs.replace(current, **values, origins=origins)
    check_together(config)
    return Change(config, changed, waiting)


class Reloader:
    """The configuration in force, and how to bring another one into force.

    `again` makes a configuration from the sources of the start. Each of `listeners` is called, in order and without
    anything between, with the old and the new configuration.
    """

    def __init__(self, config: Config, again: Callable[[], Config]) -> None:
        self.config = config
        self._again = again
        self.listeners: list[Callable[[Config, Config], None]] = []

    def reload(self) -> None:
        """Read the sources again, apply what can be applied, and log what came of it. Raises nothing of a bad file."""
        try:
            change = plan(self.config, self._again())
        except ConfigError as error:
            log.error("nothing was reloaded", reason=str(error))
            return
        old, self.config = self.config, change.config
        for listener in self.listeners:
            listener(old, change.config)
        log.info("settings reloaded", changed=[_told(setting, change.config) for setting in change.changed])
        if change.waiting:
            log.warning("settings wait for a restart", settings=[setting.name for setting in change.waiting])


def _told(setting: Setting, config: Config) -> str:
    return f"{setting.name}={readable(getattr(config, setting.key), setting.kind.unit)}"


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, SecretBytes) and isinstance(other, SecretBytes):
        return one.matches(other.reveal())
    if isinstance(one, SecretBytes) or isinstance(other, SecretBytes):
        return False
    return bool(one == other)
