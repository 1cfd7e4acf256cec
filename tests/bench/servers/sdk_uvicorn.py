"""The SDK's server on uvicorn, its usual host, with what a plain installation of both brings: asyncio and h11."""

import socket

import uvicorn

from postroom.collector import freeze_start, tune_interpreter
from tests.bench.servers.sdk_tools import seeded_app
from web.serve import BACKLOG


class Server(uvicorn.Server):
    """Says where it listens.

    It listens itself: on a socket that it is given asyncio would not set TCP_NODELAY, and every answer would take the
    40 ms of a delayed acknowledgement.
    """

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        freeze_start()
        port = self.servers[0].sockets[0].getsockname()[1]
        print(f"http://127.0.0.1:{port}", flush=True)


if __name__ == "__main__":
    tune_interpreter()
    config = uvicorn.Config(
        seeded_app(), host="127.0.0.1", port=0, backlog=BACKLOG, access_log=False, log_level="warning"
    )
    Server(config).run()
