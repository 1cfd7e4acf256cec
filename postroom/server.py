"""The composition root: makes every part, nests their lifetimes, and ends them inside out.

storage ⊃ actors ⊃ web server. The actors' nursery is around the HTTP server, never inside the web framework, because a
crash there would leave HTTP answering with every background task dead (field notes, trap 5). An orderly end:
`stopping` is set, waits and streams are ended, the web server stops accepting and finishes what is in hand, the router
writes down where it is, the housekeeper ends, the actors finish their turns, the store drains its queue and closes. The
process ends only for the shared services: one inbox's failure never does it.
"""

import os
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING

import msgspec
import structlog
import trio

from actors.agents import AgentBook
from actors.backups import Backups
from actors.beacons import BeaconBook
from actors.directory import Directory
from actors.doubts import Doubts
from actors.housekeeping import Housekeeper
from actors.indexing import Indexer
from actors.machines import MachineBook
from actors.mail import Mail
from actors.mesh import Mesh
from actors.publishing import Publishing
from actors.registry import Registry
from actors.roster import Roster
from actors.router import Router
from actors.service import Service
from actors.tokens import TokenBook
from postroom import logs
from postroom.bootstrap import Founded, found, found_commons
from postroom.collector import freeze_start, tune_interpreter
from postroom.config import Config
from postroom.cores import forbid_core_dumps
from postroom.descriptors import check_limit, raise_limit
from postroom.grpc_port import serve_grpc_port
from postroom.metrics_port import serve_metrics_port
from postroom.ports import OpenPorts, Ports, bound_to, handed_over, open_ports, take_sockets
from postroom.reload import Reloader
from postroom.signals import watch_signals
from postroom.supervisor import READY, STOPPING, tell
from postroom.traces import open_tracing
from storage.clock import wall_clock_us
from storage.errors import StorageError
from storage.life import Finding, describe
from storage.sqlite import SqliteStore, open_store
from web.app import build_app
from web.auth import Authenticator
from web.figures import CallFigures
from web.notices import wakes_are_off
from web.options import WebOptions
from web.pulse import Pulse
from web.serve import serve_http
from web.signed_urls import warn_of_unknown_urls
from web.upstream.connections import Connections
from web.waking.sender import WakeSender

if TYPE_CHECKING:
    from web.tracing import Tracing  # not loaded unless there are traces

log = structlog.get_logger("postroom")


class Started(msgspec.Struct, frozen=True):
    """What there is to know once the server answers; `url` is the address that it listens on, empty without HTTP.

    `new_life`: why every inbox has a new epoch since this start (`storage.life`), empty when none has. `service` and
    `web` are what runs, for whoever embeds the server.
    """

    url: str
    founded: Founded
    service: Service
    web: WebOptions
    new_life: tuple[Finding, ...] = ()


async def serve(
    config: Config,
    ready: Callable[[Started], None],
    *,
    again: Callable[[], Config],
    same_life: bool = False,
) -> None:
    """Run the server until SIGTERM or SIGINT; `ready` is called once, when requests are answered.

    `again` reads the configuration anew, for SIGHUP. `same_life` accepts a data directory that was moved
    (`storage.sqlite.open_store`).
    Raises `DataDirectoryError` and `ConfigError` when it cannot start, `CannotListen` when the address cannot be had.
    """
    sockets = take_sockets(os.environ)
    config = bound_to(config, sockets)
    tune_interpreter()
    forbid_core_dumps()
    descriptors = raise_limit()
    check_limit(descriptors, config.max_connections)

    def adopt(old: Config, new: Config) -> None:
        if (old.log_format, old.log_level) != (new.log_format, new.log_level):
            logs.configure(new.log_format, new.log_level)
        if old.max_connections != new.max_connections:
            check_limit(descriptors, new.max_connections)

    reloader = Reloader(config, lambda: bound_to(again(), sockets))
    reloader.listeners.append(adopt)
    stopping = trio.Event()
    async with trio.open_nursery() as outermost:
        await outermost.start(
            watch_signals, stopping, lambda: reloader.config.shutdown_seconds, reloader.reload
        )

        outermost.start_soon(_tell_stopping, stopping)

        def answering(started: Started) -> None:
            freeze_start()
            ready(started)
            tell(READY)

        ports = handed_over(sockets)
        async with open_tracing() as tracing:
            await run(
                config,
                stopping,
                answering,
                reloader=reloader,
                same_life=same_life,
                ports=ports,
                tracing=tracing,
            )
        outermost.cancel_scope.cancel()


async def no_one() -> None:
    """Return at once."""


async def _tell_stopping(stopping: trio.Event) -> None:
    await stopping.wait()
    tell(STOPPING)


async def run(
    config: Config,
    stopping: trio.Event,
    ready: Callable[[Started], None],
    *,
    reloader: Reloader | None = None,
    same_life: bool = False,
    ports: OpenPorts = open_ports,
    tracing: "Tracing | None" = None,
    inside: Callable[[], Awaitable[None]] = no_one,
) -> None:
    """Run the server until `stopping` is set. Raises as `serve`; touches no signal and no interpreter setting.

    `inside` is for whoever calls without HTTP: it returns when nobody does so any more, and the actors stay until then.
    """
    async with open_store(config.storage, same_life=same_life) as store:
        if store.new_life:
            log.warning(describe(store.new_life), found=store.new_life)
        # The addresses first: an admin token is made once and must not be lost to a port that is taken.
        with ports(config) as opened:
            founded = await found(store, config, wall_clock_us())
            await found_commons(store, config)
            await _run(config, store, founded, opened, stopping, ready, reloader, tracing, inside)
    log.info("stopped")


async def _run(
    config: Config,
    store: SqliteStore,
    founded: Founded,
    ports: Ports,
    stopping: trio.Event,
    ready: Callable[[Started], None],
    reloader: Reloader | None,
    tracing: "Tracing | None",
    inside: Callable[[], Awaitable[None]],
) -> None:
    """Run actors and web server over an open store."""
    web = config.web
    options = config.actors
    doubts = Doubts(store)
    directory = Directory(store, options.known_inboxes, doubts)
    tokens = TokenBook(store, wall_clock_us, doubts)
    await tokens.load()
    registry = Registry(store, directory, options)
    agents = AgentBook(store, registry, directory, tokens)
    await agents.load()
    mail = Mail(store, registry, agents, wall_clock_us, options.pull_max_batch)
    beacons = BeaconBook(store, registry, agents, tokens, options, wall_clock_us)
    await beacons.in_force.load()
    publishing = Publishing(registry, directory, agents, options)
    router = Router(store, registry, agents, tokens, beacons.in_force, options)
    registry.on_messages = router.nudge
    machines = MachineBook(store, registry, directory, tokens, agents)
    waker = WakeSender(web)
    mesh = Mesh(
        store,
        registry,
        agents,
        machines,
        tokens,
        options,
        wall_clock_us,
        notice=wakes_are_off,
        post=waker.post if tracing is None else tracing.post(waker.post),
        check=waker.check_url,
    )
    await mesh.load()
    indexer = Indexer(store)
    directory.on_put = indexer.changed

    def mail_came(inbox_id: int) -> None:
        mesh.wakes.mail_came(inbox_id)
        indexer.mail_came(inbox_id)

    registry.on_mail = mail_came
    keeper = Housekeeper(store, registry, tokens, wall_clock_us, routing=True, roster=mesh.presences)
    registry.on_garbage = keeper.nudge
    log_of_requests = store if tracing is None else tracing.store(store)
    service = Service(log_of_requests, registry, directory, tokens, mail, beacons, publishing, router, mesh)
    await warn_of_unknown_urls(service, web.public_url)
    backups = Backups(store, config.data_dir, wall_clock_us)
    async with trio.open_nursery() as actors:
        await actors.start(registry.run)
        async with trio.open_nursery() as background:
            await background.start(router.run)
            await background.start(mesh.wakes.run)
            await background.start(keeper.run)
            await background.start(doubts.run)
            await background.start(indexer.run)
            await background.start(backups.run)
            background.start_soon(_end_watchers, stopping, registry)
            pulse = Pulse()
            background.start_soon(pulse.run)
            connections = Connections(web)
            authenticator = Authenticator(tokens, web)
            calls = CallFigures()
            app, metrics = build_app(
                service,
                web,
                stopping,
                spool_dir=config.data_dir,
                backups=backups,
                connections=connections,
                pulse=pulse,
                authenticator=authenticator,
                housekeeping=keeper.figures,
                indexer=indexer,
                calls=calls,
                tracing=tracing,
            )

            def adopt(old: Config, new: Config) -> None:
                app.adopt(new.web)
                mail.max_batch = new.pull_max_batch
                if old.mcp_inline_body_bytes != new.mcp_inline_body_bytes:
                    registry.keep_bodies(new.mcp_inline_body_bytes)

            if reloader is not None:
                reloader.listeners.append(adopt)
                adopt(config, reloader.config)  # SIGHUP may have come while we were starting
            async with trio.open_nursery() as serving:
                if ports.grpc is not None:
                    await serving.start(
                        partial(
                            serve_grpc_port,
                            service,
                            authenticator,
                            web,
                            listening=ports.grpc,
                            connections=connections,
                            calls=calls,
                            tracing=tracing,
                            stopping=stopping,
                        )
                    )
                if ports.metrics is not None:
                    await serving.start(
                        partial(serve_metrics_port, metrics, web, listening=ports.metrics, stopping=stopping)
                    )
                url = ""
                serving.start_soon(stopping.wait)
                serving.start_soon(inside)
                if ports.http is not None:
                    served = app if tracing is None else tracing.application(app)
                    http = partial(
                        serve_http,
                        served,
                        web,
                        listening=ports.http,
                        kept=ports.http_kept,
                        connections=connections,
                    )
                    url = (await serving.start(partial(http, stopping=stopping))).url
                    store.note_address(url)
                log.info("ready", url=url)
                ready(Started(url, founded, service, web, store.new_life))
            background.cancel_scope.cancel()
        await _note_last_use(tokens, mesh.presences)
        registry.close()


async def _note_last_use(tokens: TokenBook, roster: Roster) -> None:
    """Write down when tokens were used and agents heard of. No reason to end in disorder when the store does not take
    it.
    """
    try:
        await tokens.flush_use()
        await roster.flush()
    except StorageError as error:
        log.warning("the last use of tokens could not be written down", error=str(error))


async def _end_watchers(stopping: trio.Event, registry: Registry) -> None:
    """When the server is told to stop, let waits answer and streams say farewell, while there is time to send it."""
    await stopping.wait()
    registry.end_watchers()
