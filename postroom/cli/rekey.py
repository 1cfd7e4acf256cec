"""`postroom rekey`: the secrets of a data directory under another key, or none, while no server runs on it.

The configuration says how the secrets shall be kept from now on, and the options how they are kept now; so the server
that starts next has the right key by construction.
"""

import click

from postroom.cli.configured import offline_options
from postroom.cli.program import EXIT_USAGE, Failure, confirm, yes_option
from postroom.cli.secrets import read_secret
from postroom.cli.terminal import print_json, safe
from postroom.config import Config
from storage.secret import SecretBytes


@click.command()
@click.option("--old-key-env", metavar="NAME", help="Take the key that they are sealed with from a variable.")
@click.option("--old-key-file", metavar="FILE", help="Read that key from a file, - for stdin.")
@click.option("--plain", is_flag=True, help="Have them written plain; POSTROOM_SECRET_KEY must not be set.")
@click.option(
    "--forget", is_flag=True, help="Remove those that do not open: their key is lost, or they are damaged."
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
    yes: bool,
    as_json: bool,
) -> None:
    """Seal the secrets of inboxes with POSTROOM_SECRET_KEY instead of the key that they are sealed with.

    Works on the data directory itself, while no server runs on it: all of them or none. Set POSTROOM_SECRET_KEY to the
    new key and give the old one with --old-key-env or --old-key-file. With --plain they are not sealed any more.

    When the key is lost, --forget removes every secret that does not open, so that the server starts again. Messages to
    those inboxes are not verified until the secrets are set again.
    """
    from postroom.cli.offline import run_reseal

    text = read_secret(None, old_key_env, old_key_file)
    old = None if text is None else SecretBytes(text.encode())
    _check(config, old, plain=plain, forget=forget)
    if forget:
        confirm(f"Remove every secret of {config.data_dir} that no key given here opens?", yes)
    done = run_reseal(config, old, forget=forget)
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
            " If it is lost, see --forget.",
            EXIT_USAGE,
        )
    if old is not None and config.secret_key is None and not plain:
        raise Failure(
            "set POSTROOM_SECRET_KEY to the new key, or say --plain to have the secrets written plain.",
            EXIT_USAGE,
        )
