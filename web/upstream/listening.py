"""Our own listening socket, with the options that Hypercorn would not set (trap 4)."""

import socket


def listen(host: str, port: int, *, backlog: int, stalled_reader_seconds: float) -> socket.socket:
    """Return our own listening socket, port 0 for a free one. Raises `OSError` when the address cannot be had."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(backlog)
        prepare(listener, stalled_reader_seconds=stalled_reader_seconds)
    except BaseException:
        listener.close()
        raise
    return listener


def prepare(listener: socket.socket, *, stalled_reader_seconds: float) -> None:
    """Set our options on a listening socket, whoever has opened it.

    `TCP_USER_TIMEOUT`, which accepted sockets inherit, lets the kernel give up on a peer that acknowledges nothing.
    """
    if hasattr(socket, "TCP_USER_TIMEOUT"):  # Linux only
        milliseconds = int(stalled_reader_seconds * 1000)
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, milliseconds)
    listener.setblocking(False)
