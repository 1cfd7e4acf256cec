"""The baselines: the least that a server on this stack can do with the same requests.

Both run on the stock `hypercorn.trio.serve`, one worker in the process; as in Postroom's configuration there is no
access log, no `Server` header, and no end to a connection. They get Postroom's interpreter settings too, though
hardly anybody would give them to a bare route: that makes them 3 to 6 % faster and lowers their p99 by a third
(measured at 32 connections), and what is left in a ratio is what the application itself adds.
"""

import trio
from hypercorn.config import Config
from hypercorn.trio import serve
from hypercorn.typing import ASGIFramework

from postroom.collector import freeze_start, tune_interpreter
from web.serve import BACKLOG, KEEP_ALIVE_REQUESTS


def run(app: ASGIFramework) -> None:
    """Serve `app` on a free port of the loopback until the process is ended; print the address when ready."""
    config = Config()
    config.bind = ["127.0.0.1:0"]
    config.backlog = BACKLOG
    config.keep_alive_max_requests = KEEP_ALIVE_REQUESTS
    config.include_server_header = False
    config.accesslog = None
    config.errorlog = None

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            addresses = await nursery.start(serve, app, config)
            freeze_start()
            print(addresses[0], flush=True)

    tune_interpreter()
    trio.run(main)
