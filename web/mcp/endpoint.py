"""The route `/mcp`: from a request to an answer. The caller is authenticated by the front, before anything else."""

from web.errors import ApiError
from web.http import Answer, Request, StreamedAnswer
from web.mcp.cancelling import Cancelling
from web.mcp.core import Core
from web.mcp.guard import Guard
from web.mcp.jsonrpc import INVALID_REQUEST, Malformed, RpcError
from web.mcp.tools import Heard, ToolBox, unheard
from web.options import WebOptions


class Endpoint:
    """A handler of requests for `/mcp`, over one box of tools."""

    def __init__(
        self,
        tools: ToolBox,
        options: WebOptions,
        cancelling: Cancelling | None = None,
        heard: Heard = unheard,
    ) -> None:
        """Serve these tools; `cancelling` knows the waits of theirs that a notification may end, `heard` is told of
        signs of life.
        """
        self._guard = Guard(options)
        self._core = Core(tools, options, cancelling or Cancelling(), heard=heard)

    async def __call__(self, request: Request) -> Answer | StreamedAnswer:
        """Answer one request. Raises `ApiError` for what the transport refuses, and `ClientGone`."""
        self._guard.check(request)
        try:
            body = await request.read_body()
        except ApiError as error:
            if error.status != 400:
                raise
            # Some clients fail hard on a 400 that is not JSON-RPC.
            return Malformed(RpcError(INVALID_REQUEST, error.message)).answer()
        return await self._core.handle(request, body)
