"""Signatures: what it costs the server to verify what it stores, by the way in which it is signed.

The same kind of request as in `ingest` goes to inboxes of one server that differ in their verifier alone: one verifies
nothing, though it reads the event type and the delivery id from the same headers. None of them deduplicates, because
only what is verified can be. Processor time for each request is compared, since all of them wait for the same commits,
and in short turns (`tests.bench.slices`), since a signature costs far less than a shared machine's mood from one second
to the next.
"""

import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from tests.bench.cases.ingest import CONNECTIONS, PREFIX
from tests.bench.figures import Figure, compare, quantile
from tests.bench.harness import Bench, run_client
from tests.bench.signed import Deliveries, Scheme, make_keys
from tests.bench.slices import Sliced, SlicedJob
from tests.bench.subject import NotWhatItSays, Subject, postroom

NAME = "signing"

HMAC_GOAL = 1.03
"""Of the processor time of a message that is not signed."""

UNSIGNED = "unsigned"
VERIFIERS: dict[str, tuple[Scheme, str]] = {
    UNSIGNED: ("hmac", "none"),
    "hmac": ("hmac", "github"),
    "ed25519": ("ed25519", "discord"),
    "ecdsa": ("ecdsa", "sendgrid"),
}
"""What is sent where: the unsigned contender gets signed requests and looks at no signature."""

FACTS = {"delivery_id": "header:X-GitHub-Delivery", "event_type": "header:X-GitHub-Event"}


SLICE = 3 * CONNECTIONS
"""Requests of one kind before the next one's turn: some 40 ms."""


def measure(bench: Bench) -> list[Figure]:
    """Measure the case."""
    with ExitStack() as stack:
        made = tempfile.TemporaryDirectory(prefix="postroom-bench-", dir=bench.directory)
        subject = stack.enter_context(postroom(Path(stack.enter_context(made))))
        slices = 1 + bench.effort.requests // 2 // SLICE
        kinds = [_kind(subject, name, slices * SLICE) for name in VERIFIERS]

        def of_round(number: int) -> Sliced:
            named = [kind.named(PREFIX.format(number)) for kind in kinds]
            job = SlicedJob(subject.server, named, CONNECTIONS, SLICE)
            return run_client("tests.bench.slices", job, Sliced)

        rounds = bench.rounds(NAME, {NAME: of_round})[NAME]
        for name in VERIFIERS:
            _check(subject, name)
    measured = {name: [one.cpu_us[place] for one in rounds] for place, name in enumerate(VERIFIERS)}
    plain = measured.pop(UNSIGNED)
    bench.note(f"{NAME}: {quantile(plain, 0.5):.0f} µs of processor time for a message that is not signed.")
    return [
        compare(
            f"{NAME}.{name}",
            cpu_us,
            UNSIGNED,
            plain,
            unit="µs",
            better="lower",
            goal=HMAC_GOAL if name == "hmac" else None,
        )
        for name, cpu_us in measured.items()
    ]


def _kind(subject: Subject, name: str, count: int) -> Deliveries:
    """Make an inbox and return the requests to it."""
    scheme, verifier = VERIFIERS[name]
    private, shared = make_keys(scheme)
    settings: dict[str, Any] = {"slug": name, "verifier": verifier, "dedupe_window_seconds": 0}
    if verifier == "none":
        settings["verifier_options"] = FACTS
    else:
        settings["secret"] = shared
    subject.call("POST", "/v1/inboxes", settings)
    return Deliveries(subject.server.port, name, private, "", count, scheme=scheme)


def _check(subject: Subject, name: str) -> None:
    """Raise `NotWhatItSays` unless the newest messages were verified as their inbox says."""
    verified = None if name == UNSIGNED else True
    page = subject.call("GET", f"/v1/inboxes/{name}/messages?limit=100")
    told = {(one["verified"], one["verify_error"]) for one in page["messages"]}
    if told != {(verified, None)}:
        raise NotWhatItSays(f"messages of {name} are {told}")
