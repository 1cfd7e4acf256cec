"""What a module of the page contributes to it."""

from collections.abc import Awaitable, Callable

import msgspec

from web.http import Answer, StreamedAnswer
from web.pages.visit import Visit

PageHandler = Callable[[Visit], Awaitable[Answer]]
StreamHandler = Callable[[Visit], Awaitable[Answer | StreamedAnswer]]


class Screens(msgspec.Struct, frozen=True):
    """Routes below `/ui`, for callers that are signed in: pages as (method, path, handler), which go through Quart, and
    (path, handler) of what is sent piece by piece.
    """

    pages: tuple[tuple[str, str, PageHandler], ...] = ()
    streams: tuple[tuple[str, StreamHandler], ...] = ()
