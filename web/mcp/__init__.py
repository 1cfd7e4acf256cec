r"""The MCP endpoint: `POST /mcp`, stateless Streamable HTTP, one JSON answer to each request.

Every call stands alone and carries its own token; no session id is ever sent. Five versions of the protocol are served:
2024-11-05 to 2025-11-25 (legacy: an `initialize` handshake) and 2026-07-28 (modern: no handshake, version and
capabilities in every request).

    guard      what is refused before the protocol: method, origin, host, media types
    jsonrpc    from a body to a message, or to an error in JSON-RPC's shape
    exchange   a message with what came around it; what an era of the protocol is made of
    core       one message: which era, which method, what comes of it
    legacy     the methods of the four legacy versions
    modern     the methods of 2026-07-28, and the rules of its headers
    tools      what a tool is; the box of tools and who sees them; how one is called
    mailbox    the four tools that read
    agents     the tools of agents: their inbox, publishing, beacons
    shapes     what they return, as msgspec definitions
    schemas    JSON Schemas from those and from the parameters that REST has as well (`web/params.py`)
    result     results as bytes: structured content and its text copy, encoded once
    keepalive  newlines before an answer that is long in coming
    endpoint   from a request to an answer; the route

`web.app.mcp_endpoint(service, options, slots)` builds the endpoint with all tools, and `web/front.py` hands it the
requests for `/mcp`. To serve other tools, give `web.mcp.endpoint.Endpoint` a `ToolBox` of your own and
`web.front.Front` that endpoint.

    curl -s http://127.0.0.1:8025/mcp -H "Authorization: Bearer $POSTROOM_TOKEN" -H 'Content-Type: application/json' \
      -d '{"jsonrpc": "2.0", "id": 1, "method": "tools/list"}'
"""
