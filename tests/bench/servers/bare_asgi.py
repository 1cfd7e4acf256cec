"""A bare ASGI application: reads the body and returns a small JSON of the size of Postroom's."""

from itertools import count

from hypercorn.typing import ASGIReceiveCallable, ASGISendCallable, Scope

from tests.bench.servers import run

numbers = count(1)


async def app(scope: Scope, receive: ASGIReceiveCallable, send: ASGISendCallable) -> None:
    """Take a message and forget it."""
    if scope["type"] == "lifespan":
        await follow_lifespan(receive, send)
    elif scope["type"] == "http":
        await answer(receive, send)


async def answer(receive: ASGIReceiveCallable, send: ASGISendCallable) -> None:
    """Read the body and answer."""
    if await read_body(receive) is not None:
        await send_json(send, b'{"id":"01JZ0000000000000000000000","seq":%d}' % next(numbers))


async def read_body(receive: ASGIReceiveCallable) -> bytes | None:
    """Read the body; None when the client has left meanwhile."""
    body = bytearray()
    while True:
        message = await receive()
        if message["type"] != "http.request":
            return None
        body += message["body"]
        if not message["more_body"]:
            return bytes(body)


async def send_json(send: ASGISendCallable, payload: bytes) -> None:
    """Answer 200 with a JSON body."""
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(payload))]
    await send({"type": "http.response.start", "status": 200, "headers": headers, "trailers": False})
    await send({"type": "http.response.body", "body": payload, "more_body": False})


async def follow_lifespan(receive: ASGIReceiveCallable, send: ASGISendCallable) -> None:
    """Start and stop when told to."""
    await receive()
    await send({"type": "lifespan.startup.complete"})
    await receive()
    await send({"type": "lifespan.shutdown.complete"})


if __name__ == "__main__":
    run(app)
