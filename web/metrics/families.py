"""The table of everything that is published. `docs/operations.md` has the same table, and a test compares them.

Labels take their values from tables of ours: outcomes, error codes, verifiers, verdicts, statuses. Nothing names an
inbox, an agent or a sender, and nothing that a sender chose is a label, so a scrape has a bounded size and tells nobody
whose mail this server keeps.
"""

from collections.abc import Mapping
from typing import get_args

from storage.health import StoreState
from web.metrics.model import Family, Labels, counter, counters, gauge, gauges, histogram
from web.metrics.sources import Sources
from web.version import VERSION


def _by_one(counts: Mapping[str, int]) -> dict[Labels, float]:
    return {(name,): count for name, count in counts.items()}


def _state(sources: Sources) -> dict[Labels, float]:
    state = sources.service.log.health.state
    return {(name,): float(name == state) for name in get_args(StoreState)}


def _answers(sources: Sources) -> dict[Labels, float]:
    counts = sources.requests.answers.counts
    return {(surface, str(status)): count for (surface, status), count in counts.items()}


def _verdicts(sources: Sources) -> dict[Labels, float]:
    return {
        (verifier, verdict): count for (verifier, verdict), count in sources.ingest.figures.verdicts.items()
    }


def _watching(sources: Sources) -> dict[Labels, float]:
    streams = sources.pulse.streams
    return {("wait",): max(0, sources.slots.taken - streams), ("stream",): streams}


def _rounds(sources: Sources) -> dict[Labels, float]:
    return {("done",): sources.housekeeping.rounds, ("failed",): sources.housekeeping.failed}


def _wakes(sources: Sources) -> dict[Labels, float]:
    figures = sources.service.mesh.wakes.figures
    return {("reached",): figures.reached, ("failed",): figures.failed}


SERVER = (
    gauges("build_info", "1, with the version that runs.", ("version",), lambda s: {(VERSION,): 1}),
    gauges("store_state", "1 for the state that the store is in, as in /readyz.", ("state",), _state),
    histogram(
        "loop_delay_seconds",
        "How much later than asked for a sleep of a second ended: how busy the one event loop is.",
        lambda s: s.pulse.delay,
    ),
    counters(
        "answers",
        "Answers to everything but requests for inboxes, by part of the surface and status.",
        ("surface", "status"),
        _answers,
    ),
    counter(
        "wrong_tokens",
        "Requests with a token that is unknown, expired or revoked.",
        lambda s: s.authenticator.wrong_tokens,
    ),
    counters(
        "grpc_calls",
        "Calls over gRPC by the status that they ended with; CANCELLED: the client left.",
        ("status",),
        lambda s: _by_one(s.calls.counts),
    ),
)

INGEST = (
    counters(
        "ingest_requests",
        "Requests for inboxes by what became of them: stored, duplicate, answered (a handshake, or a look), "
        "client_gone, or the code of the error.",
        ("outcome",),
        lambda s: _by_one(s.ingest.figures.outcomes),
    ),
    counters(
        "verifications",
        "Verdicts on requests for inboxes by verifier: verified, none (the inbox has no verifier), or what was "
        "wrong.",
        ("verifier", "verdict"),
        _verdicts,
    ),
    histogram(
        "append_seconds",
        "From a received and verified message to its being durable.",
        lambda s: s.service.append_seconds,
    ),
    gauge(
        "bodies_in_flight_bytes",
        "Bytes of bodies that are being received or stored.",
        lambda s: s.ingest.in_flight.small + s.ingest.in_flight.large,
    ),
    gauge(
        "bodies_in_flight_limit_bytes",
        "How many there may be (BODIES_IN_FLIGHT_BYTES); more are answered 503.",
        lambda s: s.options.bodies_in_flight_bytes,
    ),
)

STORE = (
    histogram(
        "transaction_units",
        "Changes in one transaction: the size of a commit's batch.",
        lambda s: s.service.log.health.transaction_units,
    ),
    histogram(
        "transaction_seconds",
        "What a transaction takes, its commit included.",
        lambda s: s.service.log.health.transaction_seconds,
    ),
    histogram(
        "commit_seconds",
        "What the commit at its end takes: the sync to the disk.",
        lambda s: s.service.log.health.commit_seconds,
    ),
    counter(
        "lost_transactions",
        "Transactions that the disk did not take.",
        lambda s: s.service.log.health.lost_transactions,
    ),
    counter(
        "unknown_commits",
        "Commits of which nobody knows whether they are durable.",
        lambda s: s.service.log.health.unknown_commits,
    ),
    counter(
        "refused_full",
        "Changes that were refused for want of room.",
        lambda s: s.service.log.health.refused_full,
    ),
    gauge("database_bytes", "Size of the database.", lambda s: s.service.log.health.database_bytes),
    gauge("wal_bytes", "Size of its write-ahead log.", lambda s: s.service.log.health.wal_bytes),
    counter(
        "checkpoints",
        "How often the log was folded into the database and cut.",
        lambda s: s.service.log.health.checkpoints,
    ),
    histogram(
        "read_seconds",
        "What a read of the store takes, waiting for its turn included.",
        lambda s: s.service.log.health.read_seconds,
    ),
    counter(
        "reads_refused",
        "Reads that found no place in time (MAX_CONCURRENT_READS).",
        lambda s: s.service.log.health.reads_refused,
    ),
)

ACTORS = (
    gauge("actors", "Inboxes in use at present: actors that run.", lambda s: s.service.registry.running),
    counter("actor_restarts", "Actors that failed.", lambda s: s.service.registry.restarts),
    gauge(
        "quarantined_inboxes",
        "Inboxes that keep failing and are shut.",
        lambda s: s.service.registry.quarantined,
    ),
    gauge(
        "mailbox_peak_commands",
        "The most commands that an actor has taken at once since the start; 64 is the limit.",
        lambda s: s.service.registry.mailbox_peak,
    ),
    gauge(
        "tail_bytes", "Memory for the latest messages of inboxes.", lambda s: s.service.registry.tails.bytes
    ),
    gauge("tail_limit_bytes", "How much it may be.", lambda s: s.service.registry.tails.limit_bytes),
)

READING = (
    histogram(
        "page_seconds",
        "What a page of messages takes, until it can be sent.",
        lambda s: s.service.page_seconds,
    ),
    histogram(
        "pull_seconds",
        "The same of a pull of an agent's inbox, its acknowledgement included.",
        lambda s: s.service.pull_seconds,
    ),
    gauges("watchers", "Open waits and streams.", ("kind",), _watching),
    gauge("watchers_limit", "How many there may be (MAX_STREAMS).", lambda s: s.options.max_streams),
    counter("watchers_refused", "Waits and streams that found no place.", lambda s: s.slots.refused),
    histogram(
        "wake_seconds",
        "From a commit to the moment that a wait or stream which slept for it runs.",
        lambda s: s.service.registry.fanout.latency,
    ),
    gauge("connections", "Open HTTP connections.", lambda s: len(s.connections.live)),
    gauge("grpc_connections", "Open gRPC connections.", lambda s: s.connections.others),
    gauge(
        "connections_limit", "How many of both there may be (MAX_CONNECTIONS).", lambda s: s.connections.limit
    ),
    counter(
        "connections_refused", "Connections over the limit, answered 503.", lambda s: s.connections.refused
    ),
    counter(
        "connections_evicted",
        "Connections that were cut because their client had stopped reading.",
        lambda s: s.connections.evicted,
    ),
)

KEEPING = (
    counter(
        "retention_dropped_messages",
        "Messages that retention has taken out of inboxes.",
        lambda s: s.service.registry.aged,
    ),
    counter("swept_rows", "Rows that were deleted for good.", lambda s: s.housekeeping.rows),
    counters("housekeeping_rounds", "Rounds of the housekeeper.", ("outcome",), _rounds),
    gauge(
        "housekeeping_last_round_timestamp_seconds",
        "When the last one came to its end; it looks once a minute at least.",
        lambda s: s.housekeeping.last_round_at,
    ),
)

ROUTING = (
    gauge("router_lag_messages", "Messages that are not routed yet.", lambda s: s.service.router.figures.lag),
    counter("router_messages", "Messages that were routed.", lambda s: s.service.router.figures.routed),
    counter("router_deliveries", "Deliveries to agents.", lambda s: s.service.router.figures.delivered),
    counter(
        "router_overflow",
        "Matches that a limit kept back (ROUTE_RECIPIENTS, BEACON_DELIVERIES_PER_DAY).",
        lambda s: s.service.router.figures.overflow,
    ),
    counter(
        "router_failed_deliveries",
        "Deliveries that could not be stored and were left out: defects.",
        lambda s: s.service.router.figures.failed,
    ),
    gauge("beacons", "Beacons in force.", lambda s: len(s.service.beacons.in_force.index)),
    counters("wake_calls", "Calls to wake agents.", ("outcome",), _wakes),
    counter(
        "wake_targets_given_up",
        "Places that are not called any more, after three failures.",
        lambda s: s.service.mesh.wakes.figures.given_up,
    ),
)

SEARCHING = (
    gauge(
        "search_behind_inboxes",
        "Inboxes with search that have messages which cannot be found yet.",
        lambda s: s.indexer.behind,
    ),
    counter(
        "search_indexed_messages", "Messages that were put into search indexes.", lambda s: s.indexer.indexed
    ),
    counter(
        "search_failed_messages",
        "Messages that no word of could be put there: defects.",
        lambda s: s.indexer.failed,
    ),
    histogram(
        "search_seconds",
        "What a look of a search takes; a search has one or several.",
        lambda s: s.service.search_seconds,
    ),
)

FAMILIES: tuple[Family, ...] = (*SERVER, *INGEST, *STORE, *ACTORS, *READING, *KEEPING, *ROUTING, *SEARCHING)
