"""The composition root: makes every part, nests their lifetimes, and ends them inside out.

storage ⊃ actors ⊃ web server. The actors' nursery is around the HTTP server, never inside the web framework, because a
crash there would leave HTTP answering with every background task dead (field notes, trap 5). An orderly end:
`stopping` is set, the web server stops accepting and finishes what is in hand, the housekeeper ends, the actors finish
their turns, the store drains its queue and closes. The process ends only for the shared services: one inbox's failure
never does it.
"""

from collections.abc import Callable
from functools import partial

import msgspec
import structlog
import trio

from actors.directory import Directory
from actors.housekeeping import Housekeeper
from actors.options import ActorOptions
from actors.registry import Registry
from actors.service import Service
from actors.tokens import TokenBook
from postroom.bootstrap import Founded, found
from postroom.collector import freeze_start, tune_interpreter
from postroom.config import Config
from postroom.signals import watch_signals
from storage.clock import wall_clock_us
from storage.sqlite import open_store
from web.app import build_app
from web.serve import serve_http

log = structlog.get_logger("postroom")


class Started(msgspec.Struct, frozen=True):
    """What a person needs to know once the server answers; `url` is the address that it listens on."""

    url: str
    founded: Founded


async def serve(config: Config, ready: Callable[[Started], None]) -> None:
    """Run the server until SIGTERM or SIGINT; `ready` is called once, when requests are answered.

    Raises `DataDirectoryError` and `ConfigError` when it cannot start, `OSError` when the address is taken.
    """
    tune_interpreter()
    stopping = trio.Event()
    async with trio.open_nursery() as outermost:
        await outermost.start(watch_signals, stopping, config.shutdown_seconds)
        await run(config, stopping, ready)
        outermost.cancel_scope.cancel()


async def run(config: Config, stopping: trio.Event, ready: Callable[[Started], None]) -> None:
    """Run the server until `stopping` is set. Raises as `serve`; touches no signal and no interpreter setting."""
    options = ActorOptions()
    async with open_store(config.storage) as store:
        founded = await found(store, config, wall_clock_us())
        directory = Directory(store, options.known_inboxes)
        tokens = TokenBook(store, wall_clock_us)
        await tokens.load()
        registry = Registry(store, directory, options)
        keeper = Housekeeper(store, registry, tokens, wall_clock_us)
        registry.on_garbage = keeper.nudge
        service = Service(store, registry, directory, tokens)
        async with trio.open_nursery() as actors:
            await actors.start(registry.run)
            async with trio.open_nursery() as background:
                await background.start(keeper.run)
                app = build_app(service, config.web, stopping, spool_dir=config.data_dir)
                async with trio.open_nursery() as serving:
                    address = await serving.start(partial(serve_http, app, config.web, stopping=stopping))
                    store.note_address(address.url)
                    freeze_start()
                    log.info("ready", url=address.url)
                    ready(Started(address.url, founded))
                background.cancel_scope.cancel()
            await tokens.flush_use()
            registry.close()
    log.info("stopped")
