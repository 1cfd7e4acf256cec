"""Every metric moves when its thing happens, and none of them repeats what a sender wrote."""

import hashlib
import hmac
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

from actors.turn import Turn
from storage.errors import Fenced
from tests.virtual import pass_time
from tests.wire.client import head
from tests.wire.metrics_scene import SECRET, MetricsScene, Samples, Thing, metrics_scene
from web.errors import STATUS
from web.figures import ANSWERED, DUPLICATE, GONE, STORED, UNCHECKED, VERIFIED
from web.metrics.families import FAMILIES
from web.metrics.model import Family
from web.request_log import FIXED, UNKNOWN
from web.verify import model
from web.verify.registry import SCHEMES

DEBOUNCED_SECONDS = 6.0
MINUTES_SECONDS = 200.0
"""Until a wake has failed three times."""


# -- things that happen --------------------------------------------------------------------------------------
async def post(at: MetricsScene) -> None:
    assert (await at.post()).status == 200


async def half_a_body(at: MetricsScene) -> None:
    client = await at.keep_open()
    await client.send(head("POST", "/in/plain", [("Content-Length", "100")]) + b"half")
    await trio.testing.wait_all_tasks_blocked()


async def ask(at: MetricsScene) -> None:
    assert (await at.ask("GET", "/v1/inboxes")).status == 200


async def wrong_token(at: MetricsScene) -> None:
    async with at.served.connect() as client:
        assert (await client.request("GET", "/v1/inboxes", [("Authorization", "Bearer x")])).status == 401


async def page(at: MetricsScene) -> None:
    assert (await at.ask("GET", "/v1/inboxes/plain/messages?after=0")).status == 200


async def pull(at: MetricsScene) -> None:
    assert (await at.as_agent("POST", "/v1/inbox:pull", b"{}")).status == 200


async def wait(at: MetricsScene) -> None:
    await at.open_wait()


async def waits_too_many(at: MetricsScene) -> None:
    at.served.slots.resize(0, 0)
    assert (await at.ask("GET", "/v1/inboxes/plain/wait?after=0")).status == 429


async def wake(at: MetricsScene) -> None:
    client = await at.open_wait()
    await post(at)
    assert len((await client.reply("GET")).json["messages"]) == 1


async def connection(at: MetricsScene) -> None:
    await at.keep_open()
    await trio.testing.wait_all_tasks_blocked()


async def connections_too_many(at: MetricsScene) -> None:
    at.adopt(max_connections=1)
    await connection(at)
    assert (await at.post()).status == 503


async def crash(at: MetricsScene) -> None:
    def fault(unit: object) -> None:
        if isinstance(unit, Turn):
            raise Fenced

    at.store.fault = fault
    await at.post()
    at.store.fault = None


async def crashes(at: MetricsScene) -> None:
    for _ in range(10):
        await crash(at)


async def over_the_limit(at: MetricsScene) -> None:
    for _ in range(3):
        await at.post("demo")
    await pass_time(1)


async def minute(at: MetricsScene) -> None:
    await pass_time(61)


async def to_be_found(at: MetricsScene) -> None:
    await at.served.inbox("found", search=True)
    async with at.served.connect() as client:
        assert (await client.request("POST", "/in/found", body=b"{}")).status == 200


async def indexed(at: MetricsScene) -> None:
    await to_be_found(at)
    await pass_time(1)


async def search(at: MetricsScene) -> None:
    await to_be_found(at)
    assert (await at.ask("GET", "/v1/inboxes/found/search?q=word")).status == 200


async def routed(at: MetricsScene) -> None:
    await post(at)
    await pass_time(1)


async def beacon(at: MetricsScene) -> None:
    assert (await at.as_agent("PUT", "/v1/beacons/b", b'{"about": "deployments of the api"}')).status == 200


async def matching(at: MetricsScene) -> None:
    await beacon(at)
    assert (await at.post(body=b'{"text": "deployments of the api"}')).status == 200


async def delivered(at: MetricsScene) -> None:
    await matching(at)
    await pass_time(1)


async def delivering(at: MetricsScene) -> None:
    await matching(at)
    at.store.gate = at.gate.wait  # nothing that is delivered before that becomes durable
    await pass_time(1)


async def agent_called(at: MetricsScene) -> None:
    await at.world.machine("m", ("ada", "ben"))
    check_in = b'{"agent_id": "ben", "wake": {"url": "http://here/"}}'
    assert (await at.ask("POST", "/agent/checkin", body=check_in)).status == 200
    letter = b'{"to": "m", "to_agent": "ben", "from_agent": "ada", "msg_type": "note"}'
    assert (await at.ask("POST", "/agent/send", body=letter)).status == 200
    await pass_time(DEBOUNCED_SECONDS)


async def nobody_there(at: MetricsScene) -> None:
    at.world.answers = [False] * 3
    await agent_called(at)
    await pass_time(MINUTES_SECONDS)


def more(part: Callable[[MetricsScene], Any], figure: str) -> Thing:
    """Return a change of one figure by hand: that it is counted where it happens, other tests see to."""

    async def thing(at: MetricsScene) -> None:
        setattr(part(at), figure, getattr(part(at), figure) + 1)

    return thing


def of_sqlite(figure: str) -> Thing:
    """Return a change of what only SQLite has: tests/storage/test_figures.py sees to that it is counted."""
    return more(lambda at: at.store.health, figure)


def longer(figure: str) -> Thing:
    """The same of a histogram."""

    async def thing(at: MetricsScene) -> None:
        getattr(at.store.health, figure).add(0.1)

    return thing


async def store_full(at: MetricsScene) -> None:
    at.store.health.state = "full"


async def called_by_grpc(at: MetricsScene) -> None:
    at.calls.ended("OK")  # tests/web/test_grpc_calls.py sees to that it is counted


def reload(**options: int) -> Thing:
    async def thing(at: MetricsScene) -> None:
        at.adopt(**options)

    return thing


THINGS: Mapping[str, Thing] = {
    "store_state": store_full,
    "loop_delay_seconds": minute,
    "answers": ask,
    "wrong_tokens": wrong_token,
    "grpc_calls": called_by_grpc,
    "ingest_requests": post,
    "verifications": post,
    "append_seconds": post,
    "bodies_in_flight_bytes": half_a_body,
    "bodies_in_flight_limit_bytes": reload(bodies_in_flight_bytes=1),
    "transaction_units": post,
    "transaction_seconds": longer("transaction_seconds"),
    "commit_seconds": longer("commit_seconds"),
    "lost_transactions": of_sqlite("lost_transactions"),
    "unknown_commits": of_sqlite("unknown_commits"),
    "refused_full": of_sqlite("refused_full"),
    "database_bytes": of_sqlite("database_bytes"),
    "wal_bytes": of_sqlite("wal_bytes"),
    "checkpoints": of_sqlite("checkpoints"),
    "read_seconds": longer("read_seconds"),
    "reads_refused": of_sqlite("reads_refused"),
    "actors": post,
    "actor_restarts": crash,
    "quarantined_inboxes": crashes,
    "mailbox_peak_commands": post,
    "tail_bytes": post,
    "tail_limit_bytes": more(lambda at: at.world.registry.tails, "limit_bytes"),
    "page_seconds": page,
    "pull_seconds": pull,
    "watchers": wait,
    "watchers_limit": reload(max_streams=5),
    "watchers_refused": waits_too_many,
    "wake_seconds": wake,
    "connections": connection,
    "grpc_connections": more(lambda at: at.served.connections, "others"),
    "connections_limit": reload(max_connections=5),
    "connections_refused": connections_too_many,
    "connections_evicted": more(
        lambda at: at.served.connections, "evicted"
    ),  # tests/live, with a real socket
    "retention_dropped_messages": over_the_limit,
    "swept_rows": over_the_limit,
    "housekeeping_rounds": minute,
    "housekeeping_last_round_timestamp_seconds": minute,
    "router_lag_messages": delivering,
    "router_messages": routed,
    "router_deliveries": delivered,
    "router_overflow": more(lambda at: at.world.router, "_overflow"),
    "router_failed_deliveries": more(lambda at: at.world.router._dispatch, "failed"),
    "beacons": beacon,
    "wake_calls": agent_called,
    "wake_targets_given_up": nobody_there,
    "search_behind_inboxes": to_be_found,
    "search_indexed_messages": indexed,
    "search_failed_messages": more(lambda at: at.world.indexer, "failed"),
    "search_seconds": search,
}

CONSTANT = {"build_info"}


def test_every_metric_has_a_thing_that_moves_it() -> None:
    assert set(THINGS) | CONSTANT == {family.name for family in FAMILIES}


@pytest.mark.parametrize(
    "family", [family for family in FAMILIES if family.name in THINGS], ids=lambda f: f.name
)
async def test_a_metric_moves_when_its_thing_happens(
    family: Family, tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async with metrics_scene(tmp_path) as at:
        before = at.scrape()
        await THINGS[family.name](at)
        after = at.scrape()
        at.gate.set()
    assert of(before, family.published_name) != of(after, family.published_name)


def of(samples: Samples, name: str) -> Samples:
    """Return the samples of one family."""
    parts = (name, f"{name}_bucket", f"{name}_count", f"{name}_sum")
    return {sample: value for sample, value in samples.items() if sample[0] in parts}


# -- what is counted as what ---------------------------------------------------------------------------------
def signed(body: bytes, secret: bytes = SECRET, delivery: str = "d") -> list[tuple[str, str]]:
    mac = hmac.new(secret, body, hashlib.sha256).hexdigest()
    return [
        ("X-Hub-Signature-256", f"sha256={mac}"),
        ("X-GitHub-Delivery", delivery),
        ("X-GitHub-Event", "push"),
    ]


async def test_requests_for_inboxes_are_counted_by_outcome_and_verdict(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async with metrics_scene(tmp_path) as at:
        async with at.served.connect() as client:
            for headers in (signed(b"{}"), signed(b"{}"), signed(b"{}", b"wrong"), []):
                await client.request("POST", "/in/demo", headers, b"{}")
            await client.request("GET", "/in/demo")
            await client.request("DELETE", "/in/demo")
            await client.request("POST", "/in/none", body=b"{}")
            await client.request("POST", "/in/plain", [("Transfer-Encoding", "chunked")], b"{}")
        async with at.served.connect() as client:
            await client.send(head("POST", "/in/plain", [("Content-Length", "9")]) + b"left")
        await trio.testing.wait_all_tasks_blocked()
        figures = at.served.front.ingest.figures
        assert {outcome: count for outcome, count in figures.outcomes.items() if count} == {
            "stored": 3,
            "duplicate": 1,
            "answered": 1,
            "method_not_allowed": 1,
            "not_found": 1,
            "invalid_argument": 1,
            "client_gone": 1,
        }
        assert figures.verdicts == {
            ("github", "verified"): 2,
            ("github", "signature mismatch"): 1,
            ("github", "missing signature"): 1,
        }
        assert ("postroom_answers_total", (("status", "404"), ("surface", "ingest"))) not in at.scrape()


async def test_waits_and_streams_are_told_apart(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async with metrics_scene(tmp_path) as at:
        await at.open_wait()
        client = await at.keep_open()
        await client.start("/v1/inboxes/plain/stream", [*at.admin, ("Accept", "text/event-stream")])
        open_now = of(at.scrape(), "postroom_watchers")
        assert {labels[0][1]: value for (_, labels), value in open_now.items()} == {"wait": 1, "stream": 1}


# -- labels --------------------------------------------------------------------------------------------------
WORDINGS = {value for name, value in vars(model).items() if name.isupper() and isinstance(value, str)}

ALLOWED: Mapping[str, set[str]] = {
    "outcome": {STORED, DUPLICATE, ANSWERED, GONE, *STATUS, "done", "failed", "reached"},
    "verifier": set(SCHEMES) | {"none"},
    "verdict": {VERIFIED, UNCHECKED, *WORDINGS},
    "surface": {*FIXED.values(), UNKNOWN, "api", "ui"},
    "kind": {"wait", "stream"},
    "state": {"open", "full", "degraded", "closed"},
    "generation": {"0", "1", "2"},
}
"""What may stand in each label. `le`, `status` and `version` are numbers."""

MARK = "chosen-by-a-sender"


async def test_no_label_takes_a_value_that_a_sender_chose(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    chosen = [(name, MARK) for name in ("X-Request-Id", "User-Agent", "X-GitHub-Event", "X-GitHub-Delivery")]
    async with metrics_scene(tmp_path) as at:
        for method in ("POST", "PUT", "BREW", MARK.upper(), "GET"):
            for path in (
                "/in/demo",
                "/in/plain",
                f"/in/plain/{MARK}",
                f"/in/{MARK}",
                f"/{MARK}",
                f"/v1/{MARK}",
                "/mcp",
            ):
                for more in (signed(MARK.encode(), delivery=MARK), [("Authorization", f"Bearer {MARK}")]):
                    async with at.served.connect() as client:
                        await client.request(method, f"{path}?q={MARK}", [*chosen, *more], MARK.encode())
        before = {name for name, _ in at.scrape()}
        for name, labels in at.scrape():
            for label, value in labels:
                if label in ("le", "status"):
                    float(value)
                elif label != "version":
                    assert value in ALLOWED[label], (name, label, value)
        assert MARK not in at.metrics.answer().body.decode().lower()
        assert {name for name, _ in at.scrape()} == before
