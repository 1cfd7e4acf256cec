"""Answers that are long in coming: a newline every few seconds before the JSON object, which is still JSON.

Some proxies close a connection on which nothing is sent for a while. Every official client reads such an answer. It is
off unless the operator asks for it, because the status has to be said before the outcome is known.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable

import trio

from web.http import Answer, StreamedAnswer

HEADERS = ((b"x-accel-buffering", b"no"),)
"""Asks the proxies that know it (nginx) to hand on each newline as it comes."""


def kept_alive(work: Callable[[], Awaitable[Answer]], seconds: float) -> StreamedAnswer:
    """Return an answer of status 200 that sends the body of `work`'s own, and a newline every `seconds` until then.

    The adapter cancels `work` when the client leaves. `work` raises nothing.
    """
    finished: Answer | None = None

    async def finish(done: trio.Event) -> None:
        nonlocal finished
        finished = await work()
        done.set()

    @trio.as_safe_channel
    async def pieces() -> AsyncGenerator[bytes, None]:
        done = trio.Event()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(finish, done)
            while not done.is_set():
                with trio.move_on_after(seconds):
                    await done.wait()
                if not done.is_set():
                    yield b"\n"
        if finished is not None:
            yield finished.body

    def sent() -> None:
        if finished is not None and finished.sent is not None:
            finished.sent()

    return StreamedAnswer(200, pieces, b"application/json", None, HEADERS, sent)
