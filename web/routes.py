"""Tables of routes: method and path template to handler, matched on the request's raw path.

Only the raw path is matched (`%2F` does not separate segments, `//` is not merged: field notes, trap 15), so
that the route that was authorised is the route that runs. `web/reads.py` and `web/admin.py` export tuples of
`Route`; a `RouteTable` is made of them once, at the start.
"""

from collections.abc import Iterable
from typing import NoReturn
from urllib.parse import unquote

import msgspec

from web.errors import ApiError
from web.http import Handler, Request
from web.openapi.about import About


class Route(msgspec.Struct, frozen=True):
    """One route. `template` is a path whose segments are literals, `{name}`, or `{name}:verb`. `about`: what the
    OpenAPI document says of it; None: it is not in there.
    """

    method: str
    template: str
    handler: Handler
    about: About | None = None


def switched_off(routes: Iterable[Route], reason: str) -> tuple[Route, ...]:
    """Return the same routes, all of which answer 404 with the reason."""

    async def refuse(request: Request) -> NoReturn:
        raise ApiError("not_found", reason)

    return tuple(Route(route.method, route.template, refuse) for route in routes)


class Found(msgspec.Struct, frozen=True):
    """The path is known: its routes by method, and the path's parameters, percent-decoded."""

    routes: dict[str, Route]
    params: dict[str, str]

    @property
    def allow(self) -> bytes:
        """The value of `Allow`: the methods of this path, HEAD wherever GET is."""
        methods = sorted({*self.routes, *(("HEAD",) if "GET" in self.routes else ())})
        return ", ".join(methods).encode()

    def route(self, method: str) -> Route | None:
        """Return the route of a method; HEAD is served by GET (the server leaves the body out)."""
        return self.routes.get("GET" if method == "HEAD" else method)


class _Node:
    """One segment of the paths: what may follow it, and the routes that end here."""

    __slots__ = ("literals", "param", "param_name", "routes", "verbs")

    def __init__(self) -> None:
        self.literals: dict[bytes, _Node] = {}
        self.param: _Node | None = None
        self.param_name = ""
        self.verbs: dict[bytes, _Node] = {}
        self.routes: dict[str, Route] = {}


class RouteTable:
    """Routes, ready to be matched. Raises `ValueError` when two routes claim the same method and path."""

    def __init__(self, routes: Iterable[Route]) -> None:
        self._root = _Node()
        self.routes = tuple(routes)
        for route in self.routes:
            self._add(route)

    def match(self, raw_path: bytes) -> Found | None:
        """Return what is known of a path, None when no route has it. A literal segment wins over a
        parameter.
        """
        node = self._root
        values: dict[str, str] = {}
        for segment in raw_path.split(b"/")[1:]:
            literal = node.literals.get(segment)
            if literal is not None:
                node = literal
                continue
            if node.param is None or not segment:
                return None
            name, following = node.param_name, node.param
            if node.verbs and b":" in segment:
                segment, _, verb = segment.rpartition(b":")
                verbal = node.verbs.get(verb)
                if verbal is None or not segment:
                    return None
                following = verbal
            # Bytes that are no UTF-8 become U+FFFD, which no name of ours contains: such a path is simply not found.
            values[name] = (
                unquote(segment.decode("latin-1")) if b"%" in segment else segment.decode("latin-1")
            )
            node = following
        return Found(node.routes, values) if node.routes else None

    def _add(self, route: Route) -> None:
        node = self._root
        for segment in route.template.split("/")[1:]:
            if not segment.startswith("{"):
                node = node.literals.setdefault(segment.encode(), _Node())
                continue
            name, _, verb = segment[1:].partition("}")
            if node.param is None:
                node.param, node.param_name = _Node(), name
            if node.param_name != name:
                raise ValueError(
                    f"{route.template}: {{{name}}} is called {{{node.param_name}}} in another route"
                )
            node = node.verbs.setdefault(verb[1:].encode(), _Node()) if verb else node.param
        if route.method in node.routes:
            raise ValueError(f"{route.method} {route.template} is in the table twice")
        node.routes[route.method] = route
