"""The operations of REST as the page calls them: in this process, by their paths, with the caller of a session.

A call goes through the very handler that a request over HTTP would reach, with the same parameters, so the page can
show and do nothing that its token may not. The one difference: such a call is no sign of life of an agent, because a
person made it.
"""

from collections.abc import Iterable
from typing import Any
from urllib.parse import quote, urlencode

import msgspec

from web.auth import Principal
from web.errors import ApiError
from web.http import Answer, RawHeaders, Request
from web.routes import Route, RouteTable

Query = Iterable[tuple[str, str]]


class Calls:
    """The routes that the page calls."""

    def __init__(self, routes: Iterable[Route]) -> None:
        """`routes` are those of REST that give complete answers, none of which counts as a sign of life."""
        self._table = RouteTable(routes)

    def has(self, method: str, path: str) -> bool:
        """Whether there is such a route."""
        found = self._table.match(path.encode())
        return found is not None and found.route(method) is not None

    async def call(
        self,
        page: Request,
        caller: Principal,
        method: str,
        path: str,
        *,
        query: Query = (),
        body: object = None,
    ) -> Any:
        """Return the decoded answer of a route, None when it has no body. `page`: the request that it is made for.

        Raises `ApiError`, and whatever the handler raises, as the front would be told.
        """
        encoded = b"" if body is None else msgspec.json.encode(body)

        async def read_body() -> bytes:
            return encoded

        headers: RawHeaders = [header for header in page.headers if header[0] == b"host"]
        request = Request(
            method, path.encode(), urlencode(list(query)).encode(), headers, page.source_ip, read_body, caller
        )
        found = self._table.match(request.raw_path)
        route = None if found is None else found.route(method)
        if found is None or route is None:
            raise ApiError("not_found", "There is nothing at this address.")
        request.params = found.params
        answer = await route.handler(request)
        if not isinstance(answer, Answer):
            raise TypeError(f"{route.template}: the page calls for complete answers only")
        if answer.sent is not None:
            answer.sent()
        if answer.status >= 400:
            raise _refusal(answer)
        return msgspec.json.decode(answer.body) if answer.body else None


def at(template: str, *names: str) -> str:
    """Return a path: `at("/v1/inboxes/{}", slug)`."""
    return template.format(*(quote(name, safe="") for name in names))


def _refusal(answer: Answer) -> ApiError:
    """Return an error that a handler has put into an answer itself, as one again."""
    told = msgspec.json.decode(answer.body)["error"]
    return ApiError(told["code"], told["message"], field=told.get("field"), details=told.get("details"))
