"""gRPC: `postroom.v1.Inbox/PullInbox` on a port of its own, served by grpclib on an asyncio loop that runs inside trio.

Loaded only where `GRPC_BIND` is set: what is imported here changes how asyncio behaves in this process (trio-asyncio
takes the place of its event loop policy), and costs memory.
"""
