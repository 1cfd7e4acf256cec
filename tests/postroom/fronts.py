"""The application as a server puts it together, over a store in memory; for tests of what is in it, not of calls.

`python -m tests.postroom.fronts FILE` writes its OpenAPI document.
"""

import sys
from pathlib import Path

import trio

from actors.backups import Backups
from actors.housekeeping import HousekeepingFigures
from storage.clock import wall_clock_us
from tests.actors.world import running
from web.app import build_app
from web.auth import Authenticator
from web.figures import CallFigures
from web.front import Front
from web.options import WebOptions
from web.pulse import Pulse
from web.upstream.connections import Connections


async def front(options: WebOptions | None = None) -> Front:
    """Return the application. Nothing behind it runs any more."""
    web = options or WebOptions()
    async with running() as world:
        made, _ = build_app(
            world.service,
            web,
            trio.Event(),
            spool_dir=Path(),
            backups=Backups(world.store, Path(), wall_clock_us),  # nothing is copied here
            connections=Connections(web),
            pulse=Pulse(),
            authenticator=Authenticator(world.tokens, web),
            housekeeping=HousekeepingFigures(),
            indexer=world.indexer,
            calls=CallFigures(),
        )
        return made


if __name__ == "__main__":
    Path(sys.argv[1]).write_bytes(trio.run(front).document.encoded)
