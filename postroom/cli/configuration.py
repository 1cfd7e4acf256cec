"""`postroom config`: every setting with its value, unit and origin, as `serve` would see them. Secrets never appear."""

from pathlib import Path
from typing import Any

import click

from postroom.cli.configured import configured
from postroom.cli.terminal import print_json, table
from postroom.config import DEFAULT_ORIGIN, Config
from postroom.parsing import readable
from postroom.settings import SETTINGS, Setting

HIDDEN = "(set, not shown)"


@click.command("config")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@click.option("--changed", is_flag=True, help="Only settings that are not at their default.")
@configured()
def config_command(config: Config, as_json: bool, changed: bool) -> None:
    """Show every setting, its value, its unit and where the value came from."""
    chosen = [s for s in SETTINGS if not changed or config.origins[s.key] != DEFAULT_ORIGIN]
    if as_json:
        print_json({"settings": [_document(setting, config) for setting in chosen]})
        return
    rows = (
        (s.name, _shown(s, getattr(config, s.key)), s.kind.unit, config.origins[s.key], s.reason)
        for s in chosen
    )
    table(("SETTING", "VALUE", "UNIT", "ORIGIN", "WHY"), rows)


def _shown(setting: Setting, value: Any) -> str:
    if setting.is_secret and value is not None:
        return HIDDEN
    return readable(value, setting.kind.unit)


def _document(setting: Setting, config: Config) -> dict[str, Any]:
    value = getattr(config, setting.key)
    if setting.is_secret and value is not None:
        value = HIDDEN
    return {
        "name": setting.name,
        "value": str(value) if isinstance(value, Path) else value,
        "unit": setting.kind.unit,
        "origin": config.origins[setting.key],
        "default": str(setting.default) if isinstance(setting.default, Path) else setting.default,
        "accepts": setting.kind.accepts,
        "reason": setting.reason,
    }
