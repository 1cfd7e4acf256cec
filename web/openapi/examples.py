"""Examples that the pages about the API do not show whole: values of the very definitions that a server encodes and
decodes, and those of an operation that answers the same.

A page shows little of the figures and of backups, whose numbers are others with every run.
"""

from typing import Any

import msgspec

from web.backups import BackupView
from web.mesh_params import AckMail
from web.openapi.page import ApiPage, Example, Json
from web.stats import (
    ActorFigures,
    BodyFigures,
    ConnectionFigures,
    Figures,
    RoutingFigures,
    StoreFigures,
    WaitFigures,
)
from web.version import VERSION

ALIKE = {
    "PUT /in/{slug}": "POST /in/{slug}",
    "PUT /v1/beacons": "PUT /v1/beacons/{name}",
    "PATCH /v1/inboxes/{slug}": "GET /v1/inboxes/{slug}",
}
"""Operations, and those whose answers are like theirs."""

_BACKUP = BackupView("e2f41c07b6a9d835", "copying", 0, 0, None, None, "2026-12-01T00:39:36.000000Z")
_COPIED = msgspec.structs.replace(_BACKUP, state="ready", pages=110, total=110, size=450_560)

_FIGURES = Figures(
    version=VERSION,
    uptime_seconds=86_412.5,
    store=StoreFigures("open", "", 51_204, 60_118, 64, 41_943_040, 4_153_344),
    actors=ActorFigures(12, 0, 0, 9, 1_310_720, 67_108_864),
    routing=RoutingFigures(0, 60_002, 418, 0, 0, 7),
    waits=WaitFigures(5, 0, 1024, 64),
    connections=ConnectionFigures(17, 2048, 0, 0),
    bodies=BodyFigures(0, 268_435_456),
)

_ACK = AckMail(agent_id="bob", message_ids=("01M8QGNT4FRHRPCDYN9SBYPJD1",))


def _made() -> dict[str, Example]:
    return {
        "POST /agent/ack": Example(_json(_ACK)),
        "POST /v1/backups": Example({}, {"202": _json(_BACKUP)}),
        "GET /v1/backups/{backup_id}": Example(None, {"200": _json(_COPIED)}),
        "GET /v1/stats": Example(None, {"200": _json(_FIGURES)}),
    }


def completed(page: ApiPage) -> ApiPage:
    """Return what the page says, with the examples that it lacks."""
    examples = dict(page.examples)
    for key, made in _made().items():
        shown = page.example(key)
        examples[key] = Example(
            made.request if shown.request is None else shown.request, {**made.answers, **shown.answers}
        )
    for key, other in ALIKE.items():
        shown = page.example(key)
        examples[key] = Example(shown.request, {**page.example(other).answers, **shown.answers})
    return msgspec.structs.replace(page, examples=examples)


def _json(value: msgspec.Struct) -> Json:
    plain: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(value))
    return plain
