"""`grpc.health.v1.Health`, for whatever watches the process: what `/readyz` says, without a token.

`HealthService` owns its watchers; who changes what it shows calls `look`.
"""

import asyncio
from collections.abc import Callable, Collection
from typing import Any

import trio
from grpclib.health.v1.health_grpc import HealthBase
from grpclib.health.v1.health_pb2 import HealthCheckRequest, HealthCheckResponse
from grpclib.server import Stream

from web.errors import ApiError
from web.grpc.calls import stopping_now

WHOLE_SERVER = ""
"""The name by which a client asks for the server as a whole."""


class HealthService(HealthBase):
    """Answers for the server and for each of its services, which are all ready or none."""

    def __init__(self, services: Collection[str], ready: Callable[[], bool], stopping: trio.Event) -> None:
        self._services = {WHOLE_SERVER, *services}
        self._ready = ready
        self._stopping = stopping
        self._shown = True
        self._changed = asyncio.Event()

    def look(self) -> None:
        """Look whether the server is ready, and wake the watchers when that has changed. Synchronous."""
        if self._is_ready() != self._shown:
            self._shown = not self._shown
            self._wake()

    def end(self) -> None:
        """Let watchers say that the server is not ready any more, and end."""
        self._wake()

    def _wake(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    def _is_ready(self) -> bool:
        return self._ready() and not self._stopping.is_set()

    async def Check(self, stream: Stream[HealthCheckRequest, HealthCheckResponse]) -> None:
        """Say how it is now. A service that there is not is NOT_FOUND."""
        if await self._asked_for(stream) not in self._services:
            raise ApiError("not_found", "There is no such service here.")
        await stream.send_message(self._status())

    async def Watch(self, stream: Stream[HealthCheckRequest, HealthCheckResponse]) -> None:
        """Say how it is, and again whenever it changes, until the server stops."""
        known = await self._asked_for(stream) in self._services
        said: HealthCheckResponse | None = None
        while True:
            changed = self._changed
            now = self._status() if known else HealthCheckResponse(status=HealthCheckResponse.SERVICE_UNKNOWN)
            if now != said:
                await stream.send_message(now)
                said = now
            if self._stopping.is_set():
                raise stopping_now()
            await changed.wait()

    async def _asked_for(self, stream: Stream[HealthCheckRequest, Any]) -> str:
        request = await stream.recv_message()
        if request is None:
            raise ApiError("invalid_argument", "The call came without a message.")
        return request.service

    def _status(self) -> HealthCheckResponse:
        ready = self._is_ready()
        return HealthCheckResponse(
            status=HealthCheckResponse.SERVING if ready else HealthCheckResponse.NOT_SERVING
        )
