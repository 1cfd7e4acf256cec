"""A reader that follows its cursor through queries, waits and streams, mixed at random, while senders send, retention
and purges run, the inbox is made anew and the server restarts: it sees every retained message exactly once, in order,
and every gap is announced.

The model is a few integers: which seqs are kept, of which type. Everything that the server says is compared with it.
"""

import json
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
    run_state_machine_as_test,
)

from tests.fuzz.inprocess import InProcess

CALL_SECONDS = 20.0
TYPES = ("push", "ping", "issues")
READERS: tuple[tuple[str, ...], ...] = ((), ("push",), ("ping", "issues"))
"""What each of the readers wants; the first one wants everything."""


class Reader:
    """One cursor, and what its owner has been told."""

    def __init__(self, types: tuple[str, ...]) -> None:
        self.types = types
        self.after = 0
        self.epoch: str | None = None


class ReaderMachine(RuleBasedStateMachine):
    """The server and the model side by side."""

    def __init__(self) -> None:
        super().__init__()
        self.directory = Path(tempfile.mkdtemp(prefix="postroom-machine-"))
        token = f"prm_admin_{secrets.token_urlsafe(32)}"
        self.server = InProcess(self.directory / "data", token)
        self.server.start()
        self.headers = {"Authorization": f"Bearer {token}"}
        self.http = self._client()
        self.readers = [Reader(types) for types in READERS]
        self.types_of: dict[int, str] = {}
        self.first = 1
        self.latest = 0
        self.limit: int | None = None
        self.epoch = ""

    def teardown(self) -> None:
        self.http.close()
        self.server.stop()
        shutil.rmtree(self.directory)

    def _client(self) -> httpx.Client:
        return httpx.Client(
            base_url=self.server.url, headers=self.headers, timeout=CALL_SECONDS, trust_env=False
        )

    # -- what happens to the inbox -------------------------------------------------------------------------
    @initialize()
    def make(self) -> None:
        body = {
            "slug": "box",
            "verifier": "hmac",
            "verifier_options": {"header": "x-signature", "event_type": "header:x-event"},
        }
        answer = self.http.post("/v1/inboxes", json=body)
        assert answer.status_code == 201, answer.text
        self.epoch = answer.json()["epoch"]
        self.types_of.clear()
        self.first, self.latest, self.limit = 1, 0, None

    @rule(types=st.lists(st.sampled_from(TYPES), min_size=1, max_size=8))
    def send(self, types: list[str]) -> None:
        for event_type in types:
            answer = self.http.post("/in/box", content=b"{}", headers={"X-Event": event_type})
            assert answer.status_code == 200, answer.text
            self.latest += 1
            assert answer.json()["seq"] == self.latest
            self.types_of[self.latest] = event_type
            self._let_go()

    @rule(limit=st.none() | st.integers(1, 12))
    def set_retention(self, limit: int | None) -> None:
        answer = self.http.patch("/v1/inboxes/box", json={"retention": {"max_messages": limit}})
        assert answer.status_code == 200, answer.text
        self.limit = limit
        self._let_go()
        assert answer.json()["first_seq"] == self.first

    @rule()
    def purge(self) -> None:
        assert self.http.post("/v1/inboxes/box:purge").status_code == 200
        self.first = self.latest + 1

    @rule()
    def make_anew(self) -> None:
        assert self.http.delete("/v1/inboxes/box").status_code == 204
        self.make()

    @rule()
    def restart(self) -> None:
        self.http.close()
        self.server.stop()
        self.server.start()
        self.http = self._client()

    def _let_go(self) -> None:
        if self.limit is not None:
            self.first = max(self.first, self.latest - self.limit + 1)

    # -- what a reader does ------------------------------------------------------------------------------------
    @rule(which=st.integers(0, len(READERS) - 1), limit=st.integers(1, 9))
    def query(self, which: int, limit: int) -> None:
        reader = self.readers[which]
        self._page(
            reader, self.http.get("/v1/inboxes/box/messages", params=self._params(reader, limit)), limit
        )

    @rule(which=st.integers(0, len(READERS) - 1), limit=st.integers(1, 9))
    def wait(self, which: int, limit: int) -> None:
        reader = self.readers[which]
        waits = 30 if self._expected(reader) else 0
        params = [*self._params(reader, limit), ("timeout_seconds", str(waits))]
        self._page(reader, self.http.get("/v1/inboxes/box/wait", params=params), limit)

    @precondition(lambda self: self.latest > 0)
    @rule(which=st.integers(0, len(READERS) - 1), by_id=st.booleans(), limit=st.integers(1, 9))
    def stream(self, which: int, by_id: bool, limit: int) -> None:
        """Read a stream for as long as it must have something, then hang up and keep the cursor."""
        reader = self.readers[which]
        expected = self._expected(reader)[:limit]
        gap = self._gap(reader)
        headers = dict(self.headers)
        params: list[tuple[str, str]] = [("types", name) for name in reader.types]
        if by_id and reader.epoch is not None:
            headers["Last-Event-ID"] = f"{reader.epoch}:{reader.after}"
        else:
            params.append(("after", str(reader.after)))
            if reader.epoch is not None:
                params.append(("epoch", reader.epoch))
        with self.http.stream("GET", "/v1/inboxes/box/stream", params=params, headers=headers) as answer:
            if reader.epoch not in (None, self.epoch) and "Last-Event-ID" not in headers:
                assert answer.status_code == 409
                self._new_life(reader, json.loads(answer.read()))
                return
            assert answer.status_code == 200, answer.read()
            events = events_of(answer)
            if reader.epoch not in (None, self.epoch):
                event, data, _ = next(events)
                assert (event, data["epoch"]) == ("epoch_changed", self.epoch)
                reader.epoch, reader.after = self.epoch, 0
                return
            if gap:
                event, data, _ = next(events)
                assert event == "gap"
                assert (data["after"], data["first_seq"]) == (reader.after, self.first)
            for seq in expected:
                event, data, last_id = next(events)
                assert event == "message"
                assert (data["seq"], data["untrusted"]["event_type"]) == (seq, self.types_of[seq])
                assert last_id == f"{self.epoch}:{seq}"
                reader.epoch, reader.after = self.epoch, seq

    def _params(self, reader: Reader, limit: int) -> list[tuple[str, str]]:
        params = [("after", str(reader.after)), ("limit", str(limit))]
        params += [("types", name) for name in reader.types]
        if reader.epoch is not None:
            params.append(("epoch", reader.epoch))
        return params

    def _page(self, reader: Reader, answer: httpx.Response, limit: int) -> None:
        if reader.epoch not in (None, self.epoch):
            assert answer.status_code == 409, answer.text
            self._new_life(reader, answer.json())
            return
        assert answer.status_code == 200, answer.text
        page = answer.json()
        expected = self._expected(reader)
        assert [message["seq"] for message in page["messages"]] == expected[:limit]
        assert [message["untrusted"]["event_type"] for message in page["messages"]] == [
            self.types_of[seq] for seq in expected[:limit]
        ]
        assert page["gap"] is self._gap(reader)
        assert (page["latest_seq"], page["epoch"]) == (self.latest, self.epoch)
        assert page["next_after"] == (self.latest if len(expected) <= limit else expected[limit - 1])
        reader.after, reader.epoch = page["next_after"], page["epoch"]

    def _new_life(self, reader: Reader, body: Any) -> None:
        assert body["error"]["code"] == "epoch_changed"
        reader.after, reader.epoch = 0, self.epoch

    def _expected(self, reader: Reader) -> list[int]:
        """Every retained message after the cursor that the reader wants."""
        if reader.epoch not in (None, self.epoch):
            return []
        return [
            seq
            for seq in range(max(reader.after + 1, self.first), self.latest + 1)
            if not reader.types or self.types_of[seq] in reader.types
        ]

    def _gap(self, reader: Reader) -> bool:
        return 0 < reader.after < self.first - 1


def events_of(answer: httpx.Response) -> Iterator[tuple[str, Any, str]]:
    """Yield (event, data, last id) of a stream, comments and `retry` left out."""
    event, data, last_id = "message", [], ""
    for line in answer.iter_lines():
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if not line:
            if data:
                yield event, json.loads("\n".join(data)), last_id
            event, data = "message", []
        elif name == "event":
            event = value
        elif name == "data":
            data.append(value)
        elif name == "id":
            last_id = value


def test_a_reader_sees_every_retained_message_once_in_order_and_every_gap(
    machine_runs: int, request: pytest.FixtureRequest
) -> None:
    run_state_machine_as_test(
        ReaderMachine,
        settings=settings(
            max_examples=machine_runs,
            stateful_step_count=30,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
