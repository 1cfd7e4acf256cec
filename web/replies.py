"""Answers as ASGI messages: the headers of every answer, the refusal that can be read, the streamed body.

A small answer is two messages, the start and one final body, which `web.upstream.http1` writes as one piece.
"""

import structlog
import trio
from hypercorn.typing import ASGISendCallable

from web.http import Answer, StreamedAnswer
from web.limits import Incoming
from web.request_ids import ANSWER_HEADER, REQUEST_ID

EVERY_ANSWER = ((b"cache-control", b"no-store"), (b"x-content-type-options", b"nosniff"))
"""The headers that every answer of ours carries, whoever gives it."""

LASTING_ANSWER = ((b"cache-control", b"public, max-age=31536000, immutable"), EVERY_ANSWER[1])
"""The same of an answer that never changes: kept for a year, and not even asked for again when a page is reloaded."""

CLOSE = (b"connection", b"close")
"""Also tells `web.upstream.http1` to write the head at once, because the end of this answer may be long in
coming."""

BODILESS = frozenset({204, 205, 304})
"""Statuses whose answers have no body."""

UNSIZED = frozenset({204, 304})
"""Those of them whose answers end with their head. A 205 says by a length of 0 that it does, too (RFC 9110, 15.3.6)."""

Headers = list[tuple[bytes, bytes]]

log = structlog.get_logger("postroom.web")


def answer_headers(answer: Answer) -> Headers:
    """Return all headers of a complete answer."""
    headers: Headers = [*(LASTING_ANSWER if answer.lasting else EVERY_ANSWER), *answer.headers]
    request_id = REQUEST_ID.get()
    if request_id is not None:
        headers.append((ANSWER_HEADER, request_id.encode()))
    if answer.status in BODILESS:
        if answer.status not in UNSIZED:
            headers.append((b"content-length", b"0"))
    else:
        headers.append((b"content-length", b"%d" % len(answer.body)))
        if answer.body:
            headers.append((b"content-type", answer.content_type))
    return headers


async def send_answer(answer: Answer, incoming: Incoming, send: ASGISendCallable) -> None:
    """Send a complete answer, also to a sender that is not done with its body."""
    headers = answer_headers(answer)
    body = b"" if answer.status in BODILESS else answer.body
    if not incoming.ended:
        await incoming.discard_small_rest()
    if not incoming.ended:
        await _refuse(answer.status, headers, body, incoming, send)
        return
    await send({"type": "http.response.start", "status": answer.status, "headers": headers})
    # Not shielded like the other last messages: nothing is around this task that could be cancelled by the answer.
    await send({"type": "http.response.body", "body": body, "more_body": False})


async def send_streamed(answer: StreamedAnswer, incoming: Incoming, send: ASGISendCallable) -> None:
    """Send a body piece by piece, at the reader's pace.

    A body of a known length goes on until it is whole or a piece cannot be sent: who has closed its sending side may
    well be reading. One without a length, an event stream, lives as long as its client is there, and ends when that
    says that nothing more comes (trap 14). Either way the source is closed. When the source fails, the answer is left
    without its end, and Hypercorn closes the connection: a body that is short of its length, never a short one that
    looks whole.
    """
    headers: Headers = [*EVERY_ANSWER, *answer.headers, (b"content-type", answer.content_type)]
    request_id = REQUEST_ID.get()
    if request_id is not None:
        headers.append((ANSWER_HEADER, request_id.encode()))
    if answer.content_length is not None:
        headers.append((b"content-length", b"%d" % answer.content_length))
    async with trio.open_nursery() as nursery:

        async def until_gone() -> None:
            await incoming.swallow()
            if answer.content_length is None:
                nursery.cancel_scope.cancel()

        nursery.start_soon(until_gone)
        await send({"type": "http.response.start", "status": answer.status, "headers": headers})
        try:
            async with answer.pieces() as pieces:
                async for piece in pieces:
                    await send({"type": "http.response.body", "body": piece, "more_body": True})
                    if incoming.broken:
                        break
        except Exception as error:
            log.warning("a streamed answer was cut off", error=type(error).__name__)
        else:
            if not incoming.broken:
                await _send_last(send, b"")
        nursery.cancel_scope.cancel()


async def _refuse(
    status: int, headers: Headers, body: bytes, incoming: Incoming, send: ASGISendCallable
) -> None:
    """Answer, then throw away what still comes, so that the sender can read the answer; then close."""
    headers.append(CLOSE)
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body, "more_body": True})
    await incoming.discard_rest()
    if incoming.ended:
        await _send_last(send, b"")
        return
    async with trio.open_nursery() as nursery:
        nursery.start_soon(incoming.swallow)
        await _send_last(send, b"")
        nursery.cancel_scope.cancel()


async def _send_last(send: ASGISendCallable, body: bytes) -> None:
    # In the last message Hypercorn recycles or closes the connection; see `web.upstream.answers`.
    with trio.CancelScope(shield=True):
        await send({"type": "http.response.body", "body": body, "more_body": False})
