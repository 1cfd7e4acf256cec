"""`postroom rekey`: the secrets of a data directory under another key, or none, while no server runs on it.

The configuration says how the secrets shall be kept from now on, and the options how they are kept now; so the server
that starts next has the right key by construction.
"""

from collections import Counter
from typing import TYPE_CHECKING

import click

from postroom.cli.configured import offline_options
from postroom.cli.program import EXIT_USAGE, Failure, confirm, yes_option
from postroom.cli.secrets import read_secret
from postroom.cli.terminal import print_json, safe
from postroom.config import Config
from storage.secret import SecretBytes

if TYPE_CHECKING:
    from storage.resealing import Names

MAX_ASKED = 20
"""Inboxes that the question before a removal names; the others are counted."""


@click.command()
@click.option("--old-key-env", metavar="NAME", help="Take the key that they are sealed with from a variable.")
@click.option("--old-key-file", metavar="FILE", help="Read that key from a file, - for stdin.")
@click.option("--plain", is_flag=True, help="Have them written plain; POSTROOM_SECRET_KEY must not be set.")
@click.option(
    "--forget", is_flag=True, help="Remove those that do not open although the key is the right one."
)
@click.option(
    "--forget-all", is_flag=True, help="Remove those that do not open, also all: their key is lost."
)
@yes_option
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@offline_options
def rekey(
    config: Config,
    old_key_env: str | None,
    old_key_file: str | None,
    plain: bool,
    forget: bool,
    forget_all: bool,
    yes: bool,
    as_json: bool,
) -> None:
    """Seal the secrets of inboxes with POSTROOM_SECRET_KEY instead of the key that they are sealed with.

    Works on the data directory itself, while no server runs on it: all of them or none. Set POSTROOM_SECRET_KEY to the
    new key and give the old one with --old-key-env or --old-key-file. With --plain they are not sealed any more.

    When the key is lost, --forget-all removes every secret that does not open, so that the server starts again.
    Messages to those inboxes are not verified until the secrets are set again. --forget removes damaged ones only, and
    refuses when the key given is not the one that they are sealed with.
    """
    from postroom.cli.offline import run_reseal

    text = read_secret(None, old_key_env, old_key_file)
    old = None if text is None else SecretBytes(text.encode())
    _check(config, old, plain=plain, forget=forget or forget_all)
    done = run_reseal(
        config,
        old,
        forget="all" if forget_all else "damaged" if forget else "nothing",
        agree=lambda names: confirm(question(names), yes),
    )
    if done.owed:
        click.echo(
            "Another process is reading the database, so what the secrets were before is still in postroom.db and its"
            " log. End it; the next start overwrites that.",
            err=True,
        )
    if as_json:
        print_json(
            {
                "data_dir": str(config.data_dir),
                "secrets": done.secrets,
                "sealed": done.sealed,
                "changed": done.changed,
                "forgotten": [{"inbox": slug, "name": name} for slug, name in done.forgotten],
            }
        )
        return
    for slug, name in done.forgotten:
        click.echo(f"Removed the secret {safe(name)} of {safe(slug)}.")
    how = "sealed with POSTROOM_SECRET_KEY" if done.sealed else "plain"
    if not done.changed:
        click.echo(f"The secrets of {safe(config.data_dir)} are {how} already; nothing was changed.")
        return
    count = "1 secret" if done.secrets == 1 else f"{done.secrets:,} secrets"
    click.echo(f"{count} of {safe(config.data_dir)}: {how} now. Backups from before are as they were.")


def question(names: "Names") -> str:
    """Return the question before these secrets are removed: how many they are, and of which inboxes."""
    counts = Counter(slug for slug, _ in names)
    shown = [f"{count} of {slug}" for slug, count in list(counts.items())[:MAX_ASKED]]
    if len(counts) > MAX_ASKED:
        shown.append(f"and those of {len(counts) - MAX_ASKED:,} more inboxes")
    total = "1 secret" if len(names) == 1 else f"{len(names):,} secrets"
    return f"Remove {total} that no key given here opens ({', '.join(shown)})?"


def _check(config: Config, old: SecretBytes | None, *, plain: bool, forget: bool) -> None:
    """Refuse what would not be what the next start finds, or not what was meant. Raises `Failure`."""
    if plain and config.secret_key is not None:
        raise Failure(
            "POSTROOM_SECRET_KEY is set, and the next start would seal the secrets again; take it away first.",
            EXIT_USAGE,
        )
    if old is None and not forget:
        raise Failure(
            "give the key that the secrets are sealed with: --old-key-env NAME or --old-key-file FILE."
            " If it is lost, see --forget-all.",
            EXIT_USAGE,
        )
    if old is not None and config.secret_key is None and not plain:
        raise Failure(
            "set POSTROOM_SECRET_KEY to the new key, or say --plain to have the secrets written plain.",
            EXIT_USAGE,
        )
