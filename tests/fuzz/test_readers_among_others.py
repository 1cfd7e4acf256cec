"""Readers that follow their cursors while everybody else is at work at the same time: senders send without a pause,
retention and purges drop, the server restarts. Whatever the interleaving, each reader sees the messages it wants once,
in order, and every one that it misses lies in a gap that it was told of.

Real server, real sockets, real SQLite. The state machine beside this compares every answer with a model, one call at a
time; here nothing waits for anything else.
"""

import random
import secrets
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import httpx

from tests.fuzz.inprocess import InProcess
from tests.fuzz.test_reader_machine import events_of

TYPES = ("push", "ping", "issues")
WANTED: tuple[tuple[str, ...], ...] = ((), (), ("push",), ("ping", "issues"))
SENDERS = 3
MESSAGES = 100
"""Of each sender in a round."""
CALL_SECONDS = 20.0
QUIET_SECONDS = 0.3
"""A stream that says nothing for so long is hung up on."""


class Box:
    """The server of a round, and what its senders were told."""

    def __init__(self, directory: Path) -> None:
        token = f"prm_admin_{secrets.token_urlsafe(32)}"
        self.headers = {"Authorization": f"Bearer {token}"}
        self.server = InProcess(directory / "data", token)
        self.server.start()
        self.types: dict[int, str] = {}
        self.sending = SENDERS
        self.failures: list[BaseException] = []
        self._lock = threading.Lock()

    def client(self, **how: Any) -> httpx.Client:
        return httpx.Client(
            base_url=self.server.url, headers=self.headers, timeout=CALL_SECONDS, trust_env=False, **how
        )

    def told(self, seq: int, event_type: str) -> None:
        with self._lock:
            assert seq not in self.types, "a number was given out twice"
            self.types[seq] = event_type

    def run(self, work: Callable[[], None]) -> threading.Thread:
        """Run something beside the others; what it raises fails the test."""

        def noting() -> None:
            try:
                work()
            except BaseException as error:
                self.failures.append(error)

        thread = threading.Thread(target=noting, daemon=True)
        thread.start()
        return thread


def send(box: Box, seed: int) -> None:
    dice = random.Random(seed)
    left = MESSAGES
    while left:
        try:
            with box.client() as http:
                while left:
                    event_type = dice.choice(TYPES)
                    left -= 1
                    answer = http.post("/in/box", content=b"{}", headers={"X-Event": event_type})
                    if answer.status_code == 200:
                        box.told(answer.json()["seq"], event_type)
                    else:
                        assert answer.status_code == 503, answer.text
        except httpx.TransportError:
            continue  # the server restarts; what was under way may be stored, and is nobody's loss
    box.sending -= 1


def meddle(box: Box, seed: int) -> None:
    dice = random.Random(seed)
    while box.sending:
        try:
            with box.client() as http:
                while box.sending:
                    if dice.random() < 0.1:
                        http.post("/v1/inboxes/box:purge")
                    else:
                        limit = dice.choice([None, 5, 40])
                        http.patch("/v1/inboxes/box", json={"retention": {"max_messages": limit}})
                    http.get("/v1/inboxes/box/wait", params={"after": 0, "timeout_seconds": 0})
        except httpx.TransportError:
            continue


class Reader:
    """One cursor that goes by query, wait and stream in turn, as dice say."""

    def __init__(self, box: Box, types: tuple[str, ...], seed: int) -> None:
        self.box = box
        self.types = types
        self.dice = random.Random(seed)
        self.after = 0
        self.seen: list[int] = []
        self.gaps: list[tuple[int, int]] = []
        self.begun = False

    def follow(self) -> None:
        while self.box.sending:
            self._try(self.dice.choice([self._query, self._wait, self._stream, self._from_latest]))
        while self._try(self._query) is not True:
            pass

    def _try(self, step: Callable[[httpx.Client], bool]) -> bool | None:
        try:
            with self.box.client() as http:
                return step(http)
        except httpx.TransportError:
            return None

    def _params(self) -> list[tuple[str, str]]:
        return [("after", str(self.after)), *(("types", name) for name in self.types)]

    def _query(self, http: httpx.Client) -> bool:
        limit = ("limit", str(self.dice.choice([1, 5, 100])))
        return self._page(http.get("/v1/inboxes/box/messages", params=[*self._params(), limit]))

    def _wait(self, http: httpx.Client) -> bool:
        params = [*self._params(), ("timeout_seconds", self.dice.choice("001"))]
        return self._page(http.get("/v1/inboxes/box/wait", params=params))

    def _from_latest(self, http: httpx.Client) -> bool:
        """A cursor that one answer has given is good for the next one, whatever answers it."""
        newest = http.get("/v1/inboxes/box/messages", params={"limit": 1})
        if newest.status_code == 200:
            params = {"after": newest.json()["latest_seq"], "timeout_seconds": 0}
            answer = http.get("/v1/inboxes/box/wait", params=params)
            assert answer.status_code in (200, 503), answer.text
        return False

    def _page(self, answer: httpx.Response) -> bool:
        """Take a page; True when it reaches the newest message."""
        if answer.status_code == 503:
            return False
        assert answer.status_code == 200, answer.text
        page = answer.json()
        seqs = [message["seq"] for message in page["messages"]]
        if page["gap"]:
            self.gaps.append((self.after, seqs[0] if seqs else page["next_after"] + 1))
        for seq in seqs:
            self._take(seq)
        assert page["next_after"] >= self.after
        self.after = page["next_after"]
        return self.after == page["latest_seq"] and not self.box.sending

    def _stream(self, http: httpx.Client) -> bool:
        http.timeout = httpx.Timeout(CALL_SECONDS, read=QUIET_SECONDS)
        many = self.dice.choice([3, 50])
        with http.stream("GET", "/v1/inboxes/box/stream", params=self._params()) as answer:
            if answer.status_code == 503:
                return False
            assert answer.status_code == 200, answer.read()
            try:
                for event, data, last_id in events_of(answer):
                    if event == "message":
                        self._take(data["seq"])
                    elif event == "gap":
                        self.gaps.append((data["after"], data["first_seq"]))
                    else:
                        assert (event, data) == ("bye", {"reason": "shutdown"})
                    told = int(last_id.rpartition(":")[2])
                    assert told >= self.after
                    self.after = told
                    many -= 1
                    if not many:
                        break
            except httpx.ReadTimeout:
                pass
        return False

    def _take(self, seq: int) -> None:
        assert not self.seen or seq > self.seen[-1], (seq, self.seen[-3:])
        self.seen.append(seq)

    def judge(self) -> None:
        """Every message that a sender was told of was seen, or lies in a gap that was announced."""
        seen = set(self.seen)
        first = self.seen[0] if self.seen else self.after + 1
        for seq, event_type in self.box.types.items():
            if seq in seen or seq < first or (self.types and event_type not in self.types):
                continue  # before the first one: a cursor of 0 asks for what there is, and has no gap
            assert any(after < seq < end for after, end in self.gaps), (seq, self.gaps)


def test_readers_see_every_retained_message_once_whatever_the_others_do(
    machine_runs: int, tmp_path: Path
) -> None:
    for number in range(max(1, machine_runs // 20)):
        box = Box(tmp_path / str(number))
        with box.client() as http:
            options = {"header": "x-signature", "event_type": "header:x-event"}
            settings = {"slug": "box", "verifier": "hmac", "verifier_options": options}
            assert http.post("/v1/inboxes", json=settings).status_code == 201
        readers = [Reader(box, types, number * 100 + n) for n, types in enumerate(WANTED)]
        threads = [box.run(reader.follow) for reader in readers]
        threads += [box.run(partial(send, box, n)) for n in range(SENDERS)]
        threads.append(box.run(partial(meddle, box, number)))
        for restarts in range(1, 3):
            while len(box.types) < restarts * MESSAGES * SENDERS // 4 and box.sending and not box.failures:
                with box.client() as http:
                    http.get("/v1/me")
            box.server.stop()
            box.server.start()
        for thread in threads:
            thread.join(60)
            assert not thread.is_alive()
        box.server.stop()
        assert not box.failures, box.failures[0]
        for reader in readers:
            reader.judge()
            assert reader.after == readers[0].after
        assert any(reader.gaps for reader in readers) or all(
            len(reader.seen) > MESSAGES for reader in readers[:2]
        )
