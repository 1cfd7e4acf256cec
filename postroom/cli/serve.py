"""`postroom serve` and `postroom init`: the only commands, besides `token reset-admin`, that open a data directory."""

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING

import click

from postroom.cli.banner import exports, started
from postroom.cli.configured import configured, offline_options
from postroom.cli.program import EXIT_FAILED, Failure, leaves
from postroom.cli.terminal import print_json, safe
from postroom.config import Config

if TYPE_CHECKING:
    from postroom.server import Started


@click.command()
@click.option(
    "--same-life",
    is_flag=True,
    help="The data directory was moved, not copied: keep its epochs. Needed once after a move.",
)
@configured(again=True)
def serve(config: Config, again: Callable[[], Config], same_life: bool) -> None:
    """Run the server until SIGTERM or SIGINT.

    Without any configuration it listens on 127.0.0.1:8025 and keeps its data in ./postroom-data, which it
    creates with an admin token (printed once) and an inbox `demo`. Settings come from --config, the
    environment (POSTROOM_…) and these flags, the later ones winning; `postroom config` shows the result.
    SIGHUP reads the file again and brings into force what needs no restart.
    """
    # Imported here: no other command needs the whole server, and each starts 0.3 s faster without it.
    import trio

    from postroom import logs
    from postroom.server import serve as run_server
    from web.serve import CannotListen

    logs.configure(config.log_format, config.log_level)

    def ready(start: "Started") -> None:
        click.echo(started(start.url, config, start.founded, start.new_life))

    try:
        trio.run(functools.partial(run_server, config, ready=ready, again=again, same_life=same_life))
    except* CannotListen as errors:
        raise Failure(str(next(leaves(errors))), EXIT_FAILED) from None


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@offline_options
def init(config: Config, as_json: bool) -> None:
    """Create the data directory with its admin token, and print the token once.

    Does nothing to a directory that has been used before.
    """
    from postroom import logs
    from postroom.cli.offline import run_init

    logs.configure(config.log_format, "warning")
    founded = run_init(config)
    if as_json:
        print_json(
            {"data_dir": str(config.data_dir), "created": founded.is_new, "token": founded.admin_token}
        )
        return
    if not founded.is_new:
        click.echo(f"{safe(config.data_dir)} has an admin token already; nothing was changed.")
        return
    click.echo(f"Created {safe(config.data_dir)}.")
    if founded.admin_token is not None:
        click.echo("The admin token, printed this once (only its hash is kept):\n")
        click.echo("\n".join(exports(f"http://{config.bind}", founded.admin_token)))
