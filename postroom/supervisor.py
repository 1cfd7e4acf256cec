"""What a supervisor is told, by systemd's protocol (`NOTIFY_SOCKET`): that the server answers, that it is about to end.

With `Type=notify`, `systemctl start` returns when requests are answered, and whatever is ordered after the server finds
it there. Without the variable nothing is told.
"""

import os
import socket

import structlog

READY = "READY=1"
STOPPING = "STOPPING=1"

log = structlog.get_logger("postroom")


def tell(state: str) -> None:
    """Tell the supervisor, if there is one. Never fails: a supervisor that does not listen is not worth an end."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address:
        return
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
            sock.setblocking(False)
            # An at sign stands for the zero byte of a name that is no file's.
            sock.sendto(state.encode(), "\0" + address[1:] if address.startswith("@") else address)
    except OSError as error:
        log.warning("the supervisor could not be told", state=state, reason=(error.strerror or "").lower())
