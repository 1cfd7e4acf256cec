"""A bare ASGI application that reads the body of a request and answers with the file that its command line names."""

import sys
from pathlib import Path

from hypercorn.typing import ASGIReceiveCallable, ASGISendCallable, Scope

from tests.bench.servers import run
from tests.bench.servers.bare_asgi import follow_lifespan, read_body, send_json

page = Path(sys.argv[1]).read_bytes()


async def app(scope: Scope, receive: ASGIReceiveCallable, send: ASGISendCallable) -> None:
    """Take a request and answer with the page."""
    if scope["type"] == "lifespan":
        await follow_lifespan(receive, send)
    elif scope["type"] == "http" and await read_body(receive) is not None:
        await send_json(send, page)


if __name__ == "__main__":
    run(app)
