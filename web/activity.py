"""Which calls are a sign of life of an agent, and which program it was that called (surface, section 8).

Every call of an agent's own token counts, but for streams and for waits while they are open: those are held by
programs, which go on when nobody thinks any more. So the route or the tool decides, never what a call says of itself.
It is heard before what it says is decoded: a call that is refused is one, too. What a machine's token does for an agent
is heard where its agent is known (`web/mesh.py`).
"""

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from functools import wraps

import msgspec

from actors.service import Service
from web.auth import Principal
from web.http import Answer, Handler, RawHeaders, Request, StreamedAnswer
from web.reads import principal_of
from web.routes import Route

SESSION_HEADER = b"postroom-session"
"""How a client names itself, when several programs of one machine share a token."""

MAX_SESSION_CHARS = 200


def session_of(caller: Principal, headers: RawHeaders, address: str | None) -> str:
    """Return what tells one program that speaks for an agent from another: what it calls itself, else its token, its
    address and its user agent.
    """
    found = {name: value for name, value in headers if name in (SESSION_HEADER, b"user-agent")}
    named = found.get(SESSION_HEADER)
    if named:
        return f"named {named.decode('latin-1')[:MAX_SESSION_CHARS]}"
    agent = found.get(b"user-agent", b"").decode("latin-1")[:MAX_SESSION_CHARS]
    return f"{caller.token.token_id} {address} {agent}"


def session_in(request: Request) -> str:
    """Return the session that a request belongs to."""
    return session_of(principal_of(request), request.headers, request.source_ip)


def never(_: Request) -> bool:
    """Make no exception."""
    return False


class Activity:
    """The signs of life of the agents of one service."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def heard(self, caller: Principal, session: str) -> None:
        """Note that the agent was heard of that a token is bound to. Synchronous."""
        agent = None if caller.agent is None else self._service.mail.agents.get(caller.agent)
        if agent is not None:
            self._service.mesh.touch(agent, session)

    def waiting(self, caller: Principal) -> AbstractContextManager[None]:
        """Return what is entered for as long as a wait of the caller is open."""
        agent = None if caller.agent is None else self._service.mail.agents.get(caller.agent)
        return nullcontext() if agent is None else self._service.mesh.waiting(agent)

    def counted(self, routes: Iterable[Route], but: Callable[[Request], bool] = never) -> tuple[Route, ...]:
        """Return the same routes, each call of which is a sign of life, `but` for some."""
        return tuple(
            msgspec.structs.replace(route, handler=self._counting(route.handler, but)) for route in routes
        )

    def _counting(self, handler: Handler, but: Callable[[Request], bool]) -> Handler:
        @wraps(handler)
        async def counting(request: Request) -> Answer | StreamedAnswer:
            caller = principal_of(request)
            if caller.agent is not None and not but(request):
                self.heard(caller, session_in(request))
            return await handler(request)

        return counting
