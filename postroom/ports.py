"""The addresses on which a server listens: opened here, handed over by its supervisor, or none.

`open_ports` is the usual way. `handed_over` takes sockets by systemd's protocol (`LISTEN_FDS`): the supervisor opened
them before we were started and keeps them open while we are not there, so a restart refuses nobody a connection. Then
`BIND` and `GRPC_BIND` are the addresses of those sockets, whatever was configured, because other settings depend on
whether strangers can reach the server. `no_ports` is for a server that is only embedded.
"""

import os
import socket
from collections.abc import Callable, Iterator, MutableMapping
from contextlib import AbstractContextManager, contextmanager

import msgspec

from postroom.config import Config
from postroom.grpc_port import open_grpc_listener
from postroom.metrics_port import open_metrics_listener
from web.serve import CannotListen, listening_at, open_listener
from web.upstream.listening import prepare

FIRST_DESCRIPTOR = 3
"""Where the sockets begin that a supervisor hands over (sd_listen_fds)."""

HTTP = "http"
GRPC = "grpc"
NAMES = (HTTP, GRPC)
"""What a socket unit calls its sockets (`FileDescriptorName=`)."""

ORIGIN = "socket handed over (LISTEN_FDS)"
"""Where such an address comes from, as `postroom config` would say it."""


class Ports(msgspec.Struct, frozen=True):
    """The listening sockets. Without `http` nobody can call the server but whoever embeds it. `http_kept`: a supervisor
    keeps that one open when we have ended.
    """

    http: socket.socket | None = None
    grpc: socket.socket | None = None
    metrics: socket.socket | None = None
    http_kept: bool = False


OpenPorts = Callable[[Config], AbstractContextManager[Ports]]
"""Opens the ports of a configuration, and closes them at the end. Raises `CannotListen`."""


@contextmanager
def open_ports(config: Config) -> Iterator[Ports]:
    """Listen on the configured addresses. Raises `CannotListen`."""
    with (
        open_listener(config.web) as http,
        open_grpc_listener(config) as grpc,
        open_metrics_listener(config) as metrics,
    ):
        yield Ports(http, grpc, metrics)


@contextmanager
def no_ports(config: Config) -> Iterator[Ports]:
    """Listen nowhere."""
    yield Ports()


def take_sockets(environment: MutableMapping[str, str]) -> dict[str, socket.socket]:
    """Return the sockets that the supervisor has handed over, by their names; none when this process was not meant.

    A single socket without a known name is that of HTTP. The variables are removed: they are for this process alone.
    Raises `CannotListen` when they cannot be used.
    """
    pid, count, names = (environment.pop(f"LISTEN_{name}", "") for name in ("PID", "FDS", "FDNAMES"))
    if pid != str(os.getpid()) or not count.isdecimal() or count == "0":
        return {}
    called = names.split(":") if names else []
    if int(count) == 1 and called[:1] != [GRPC]:
        called = [HTTP]
    if len(called) != int(count) or len(set(called)) < len(called) or not set(called) <= set(NAMES):
        raise CannotListen(
            f"The supervisor hands over {count} sockets named {names!r}; "
            "Postroom takes one named http and one named grpc (FileDescriptorName=)."
        )
    return {name: _taken(FIRST_DESCRIPTOR + n, name) for n, name in enumerate(called)}


def bound_to(config: Config, sockets: dict[str, socket.socket]) -> Config:
    """Return the configuration with the addresses of the sockets in place of the configured ones."""
    if not sockets:
        return config
    for name, key in ((HTTP, "bind"), (GRPC, "grpc_bind")):
        if name in sockets:
            origins = {**config.origins, key: ORIGIN}
            address = listening_at(sockets[name]).address
            config = msgspec.structs.replace(config, origins=origins, **{key: address})
    return config


def handed_over(sockets: dict[str, socket.socket]) -> OpenPorts:
    """Return what opens the ports: these sockets, and configured addresses for which there is none among them."""

    @contextmanager
    def open_(config: Config) -> Iterator[Ports]:
        for sock in sockets.values():
            prepare(sock, stalled_reader_seconds=config.stalled_reader_seconds)
        with (
            sockets.get(HTTP) or open_listener(config.web) as http,
            sockets.get(GRPC) or open_grpc_listener(config) as grpc,
            open_metrics_listener(config) as metrics,
        ):
            yield Ports(http, grpc, metrics, http_kept=HTTP in sockets)

    return open_


def _taken(descriptor: int, name: str) -> socket.socket:
    try:
        os.set_inheritable(descriptor, False)
        sock = socket.socket(fileno=descriptor)
    except OSError as error:
        reason = (error.strerror or "it is none").lower()
        raise CannotListen(f"The socket {name} that was handed over cannot be used: {reason}.") from error
    is_tcp = sock.family in (socket.AF_INET, socket.AF_INET6) and sock.type == socket.SOCK_STREAM
    if not is_tcp or not sock.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
        sock.close()
        raise CannotListen(
            f"The socket {name} that was handed over is no listening TCP socket (ListenStream=, Accept=no)."
        )
    return sock
