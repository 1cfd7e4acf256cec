"""What is wrapped around the `send` of an application (trap 3)."""

import trio
from hypercorn.typing import ASGISendCallable, ASGISendEvent


def shield_last_send(send: ASGISendCallable) -> ASGISendCallable:
    """Return a `send` that shields the last message of an answer from cancellation (trap 3).

    In it Hypercorn recycles or closes the connection; quart-trio cancels its task in the middle of that. The
    shield needs no deadline of its own: `Connections.watch` ends a send that stalls.
    """

    async def shielded(message: ASGISendEvent) -> None:
        if message["type"] == "http.response.body" and not message.get("more_body", False):
            with trio.CancelScope(shield=True):
                await send(message)
        else:
            await send(message)

    return shielded
