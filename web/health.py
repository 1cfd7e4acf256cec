"""`/healthz` and `/readyz`: for whatever watches the process. No token, no counts that tell of anybody's
mail.
"""

import msgspec
import trio

from actors.service import Service
from web.http import Answer

ALIVE = Answer(200, b'{"status":"ok"}')


class Readiness(msgspec.Struct, frozen=True, omit_defaults=True):
    """What `/readyz` says. `store`: `open`, `full`, `degraded` or `closed`, with the reason unless it is
    open.

    Inboxes in quarantine are told, but do not make the server unready: one inbox must not take ten thousand
    others out of service (study, S18).
    """

    ready: bool
    store: str
    reason: str = ""
    quarantined_inboxes: int = 0
    stopping: bool = False


class Health:
    """Answers both."""

    def __init__(self, service: Service, stopping: trio.Event) -> None:
        self._service = service
        self._stopping = stopping

    def healthz(self) -> Answer:
        """Tell that the process serves: 200 for as long as it does."""
        return ALIVE

    def readyz(self) -> Answer:
        """Tell whether messages can be stored and read: 200, else 503; the body says why."""
        store = self._service.log.health
        readiness = Readiness(
            ready=store.state == "open" and not self._stopping.is_set(),
            store=store.state,
            reason=store.reason,
            quarantined_inboxes=self._service.registry.quarantined,
            stopping=self._stopping.is_set(),
        )
        headers = () if readiness.ready else ((b"retry-after", b"1"),)
        return Answer(200 if readiness.ready else 503, msgspec.json.encode(readiness), headers=headers)
