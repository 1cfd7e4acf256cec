"""`postroom.v1.Inbox`: pulling, with the same tokens, limits and refusals as over REST and MCP."""

from typing import Any, Protocol

import trio
from grpclib.const import Cardinality
from grpclib.const import Handler as Method
from grpclib.server import Stream

from web.addresses import TrustedProxies
from web.auth import Authenticator, Principal
from web.decoding import from_object
from web.errors import ApiError
from web.grpc.bridge import Bridge
from web.grpc.calls import Refused, refusal_of, too_late
from web.grpc.messages import arguments_of, response_of
from web.grpc.postroom.v1.inbox_pb2 import PullInboxRequest, PullInboxResponse
from web.grpc.statuses import Told, told
from web.grpc.upstream import bound
from web.mail_params import PullInbox
from web.options import WebOptions
from web.pulling import PullPage

SERVICE = "postroom.v1.Inbox"
PULL_INBOX = f"/{SERVICE}/PullInbox"
HEADERS = ("authorization", "x-forwarded-for", "forwarded")
"""Metadata that say who is calling."""

READ_API_OFF = "Reading is switched off on this server (READ_API_ENABLED)."


class Pulls(Protocol):
    """What is asked of pulling (`web/pulling.py`)."""

    async def pull(self, caller: Principal, params: PullInbox) -> PullPage:
        """Acknowledge and return a page. Raises `ApiError`, and faults of the layers below."""


class InboxService:
    """The service, as grpclib wants it."""

    def __init__(
        self,
        pulling: Pulls,
        authenticator: Authenticator,
        options: WebOptions,
        bridge: Bridge,
    ) -> None:
        self._pulling = pulling
        self._authenticator = authenticator
        self._options = options
        self._bridge = bridge
        self._proxies = TrustedProxies()
        self._trusted: tuple[str, ...] = ()

    def __mapping__(self) -> dict[str, Method]:
        unary = Cardinality.UNARY_UNARY
        return {PULL_INBOX: Method(self.pull_inbox, unary, PullInboxRequest, PullInboxResponse)}

    async def pull_inbox(self, stream: Stream[PullInboxRequest, PullInboxResponse]) -> None:
        """Answer one call. Runs on the asyncio loop; the token is looked at before the message."""
        caller = self._authenticate(stream)
        if not self._options.read_api_enabled:
            raise ApiError("not_found", READ_API_OFF)
        request = await stream.recv_message()
        if request is None:
            raise ApiError("invalid_argument", "The call came without a message.")
        params = from_object(PullInbox, arguments_of(request))
        page = await self._bridge.run(self._pull, caller, params, bound(stream).deadline)
        if isinstance(page, Told):
            raise Refused(page)
        await stream.send_message(response_of(page))

    async def _pull(self, caller: Principal, params: PullInbox, deadline: float) -> PullPage | Told:
        """Pull, in trio, until the deadline. When the call is cancelled, an acknowledgement may have been taken."""
        try:
            with trio.CancelScope(deadline=deadline):
                return await self._pulling.pull(caller, params)
        except Exception as error:
            return refusal_of(error, PULL_INBOX)
        return told(too_late())

    def _authenticate(self, stream: Stream[Any, Any]) -> Principal:
        metadata = () if stream.metadata is None else stream.metadata.items()
        headers = [(name.encode(), str(text).encode("latin-1")) for name, text in metadata if name in HEADERS]
        peer = stream.peer.addr()
        address = self._trusted_proxies().client(peer[0] if peer else None, headers)
        return self._authenticator.authenticate(headers, address)

    def _trusted_proxies(self) -> TrustedProxies:
        trusted = self._options.trusted_proxies  # a reload changes them
        if trusted != self._trusted:
            self._trusted, self._proxies = trusted, TrustedProxies(trusted)
        return self._proxies
