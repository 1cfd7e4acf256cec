"""A bare ASGI application that answers nobody: every request but `/healthz` stays open until its client leaves."""

from hypercorn.typing import ASGIReceiveCallable, ASGISendCallable, Scope

from tests.bench.servers import run
from tests.bench.servers.bare_asgi import answer, follow_lifespan


async def app(scope: Scope, receive: ASGIReceiveCallable, send: ASGISendCallable) -> None:
    """Hold a request."""
    if scope["type"] == "lifespan":
        await follow_lifespan(receive, send)
    elif scope["type"] == "http" and scope["path"] == "/healthz":
        await answer(receive, send)
    elif scope["type"] == "http":
        while (await receive())["type"] == "http.request":
            pass


if __name__ == "__main__":
    run(app)
