"""The cases, by the name that `--only` takes; each module has `NAME` and `measure(bench)`."""

from collections.abc import Callable

from tests.bench.cases import (
    drain,
    fanout,
    inboxes,
    ingest,
    log,
    matching,
    mcp,
    mesh,
    pages,
    router,
    signing,
    sse,
    waits,
    wakeup,
)
from tests.bench.figures import Figure
from tests.bench.harness import Bench

CASES: dict[str, Callable[[Bench], list[Figure]]] = {
    ingest.NAME: ingest.measure,
    log.NAME: log.measure,
    inboxes.NAME: inboxes.measure,
    signing.NAME: signing.measure,
    waits.NAME: waits.measure,
    wakeup.NAME: wakeup.measure,
    fanout.NAME: fanout.measure,
    sse.NAME: sse.measure,
    pages.NAME: pages.measure,
    mcp.NAME: mcp.measure,
    matching.NAME: matching.measure,
    drain.NAME: drain.measure,
    router.NAME: router.measure,
    mesh.NAME: mesh.measure,
}
