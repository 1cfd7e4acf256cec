"""Postroom under test: started as anybody starts it, set up through its own administration, checked
afterwards.

A figure counts only if the server did what the figure's name says, so an inbox is tried out before it is
measured (it verifies, it recognises a duplicate, it does not believe a wrong signature), and what was
answered is counted and sampled in the store when all rounds are done.
"""

import json
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from actors.tokens import mint
from tests.bench.client import Exchange
from tests.bench.processes import Server, running
from tests.bench.reading import Reader
from tests.bench.signed import ORDINARY_EVENT, Deliveries, body_of, delivery_id, headers_of

CALL_SECONDS = 30.0

ARGUMENTS = ("-m", "postroom", "serve")


class NotWhatItSays(Exception):
    """Postroom did not do what the benchmark claims to measure."""


class Subject:
    """A running Postroom and its administrator."""

    def __init__(self, server: Server, admin_token: str) -> None:
        self.server = server
        self._token = admin_token
        self._admin = httpx.Client(
            base_url=server.url,
            headers={"Authorization": f"Bearer {admin_token}"},
            timeout=CALL_SECONDS,
            trust_env=False,
        )
        self._sender = httpx.Client(base_url=server.url, timeout=CALL_SECONDS, trust_env=False)

    def close(self) -> None:
        """Close its connections."""
        self._admin.close()
        self._sender.close()

    def call(self, method: str, path: str, body: object = None) -> Any:
        """Make one API call and return the decoded answer. Raises `NotWhatItSays` for an error."""
        response = self._admin.request(method, path, json=body)
        if response.is_error:
            raise NotWhatItSays(f"{method} {path}: {response.status_code} {response.text[:500]}")
        return response.json() if response.content else None

    def reader(self, slug: str) -> Reader:
        """Return a reader of one inbox."""
        return Reader(self.server.port, slug, self._token)

    def github_inbox(self, slug: str) -> "GithubInbox":
        """Make an inbox that verifies as GitHub signs, and try it out."""
        secret = secrets.token_urlsafe(32)
        self.call("POST", "/v1/inboxes", {"slug": slug, "verifier": "github", "secret": secret})
        inbox = GithubInbox(self, slug, secret)
        inbox.try_out()
        return inbox

    def post(self, slug: str, headers: list[tuple[str, str]], body: bytes) -> httpx.Response:
        """Send a message as any sender would."""
        return self._sender.post(f"/in/{slug}", headers=headers, content=body)


class GithubInbox:
    """One inbox with the preset `github`, and what has been answered for it."""

    def __init__(self, subject: Subject, slug: str, secret: str) -> None:
        self.slug = slug
        self.secret = secret
        self._subject = subject
        self._answered: list[tuple[str, list[str]]] = []
        self._before = 0

    def try_out(self) -> None:
        """Send one delivery, the same again, and one with a wrong signature. Raises `NotWhatItSays`."""
        wanted = self.deliveries("tried-out", 2)
        body = body_of(0)
        first, again = (self._subject.post(self.slug, headers_of(wanted, 0, body), body) for _ in range(2))
        if first.status_code != 200 or again.status_code != 200 or first.json() != again.json():
            raise NotWhatItSays(f"a delivery and its duplicate: {first.text[:200]} {again.text[:200]}")
        if again.headers.get("postroom-duplicate") != "true":
            raise NotWhatItSays("a duplicate was not recognised")
        self._subject.post(self.slug, headers_of(wanted, 1, body), body_of(1))
        for seq, verified in ((1, True), (2, False)):
            if self._message(seq)["verified"] is not verified:
                raise NotWhatItSays(f"message {seq} should have been verified: {verified}")
        self._before = self.latest_seq

    def deliveries(self, prefix: str, count: int, event: str = ORDINARY_EVENT) -> Deliveries:
        """Return requests for this inbox."""
        return Deliveries(self._subject.server.port, self.slug, self.secret, prefix, count, event)

    @property
    def latest_seq(self) -> int:
        """The seq of its newest message."""
        return int(self._subject.call("GET", f"/v1/inboxes/{self.slug}")["latest_seq"])

    def answered(self, prefix: str, exchange: Exchange) -> None:
        """Remember what was answered to `deliveries(prefix, …)`, for `check`."""
        self._answered.append((prefix, exchange.answers))

    def check(self) -> int:
        """Return how many messages were answered, when each of them is stored. Raises `NotWhatItSays`.

        Answered seqs are dense and end at the inbox's `latest_seq`, ids are distinct, and the first and the
        last message of every round are read back: verified, byte for byte, under the id that was answered.
        """
        answers = [json.loads(answer) for _, batch in self._answered for answer in batch]
        seqs = sorted(answer["seq"] for answer in answers)
        latest = self.latest_seq
        if seqs != list(range(self._before + 1, latest + 1)):
            raise NotWhatItSays(f"{len(seqs)} answers, seq {self._before + 1} to {latest}: not one for one")
        if len({answer["id"] for answer in answers}) != len(answers):
            raise NotWhatItSays("an id was answered twice")
        for prefix, batch in self._answered:
            ours = [json.loads(answer) for answer in batch]
            for answer in (ours[0], ours[-1]):
                self._check_stored(prefix, answer)
        return len(answers)

    def _check_stored(self, prefix: str, answer: dict[str, Any]) -> None:
        message = self._message(answer["seq"])
        number = message["untrusted"]["body"]["number"]
        body = json.dumps(message["untrusted"]["body"], separators=(",", ":")).encode()
        if (
            message["id"] != answer["id"]
            or message["verified"] is not True
            or message["untrusted"]["delivery_id"] != delivery_id(prefix, number)
            or body != body_of(number)
        ):
            raise NotWhatItSays(f"message {answer['seq']} is not what was sent")

    def _message(self, seq: int) -> Any:
        return self._subject.call("GET", f"/v1/inboxes/{self.slug}/messages/{seq}")


@contextmanager
def postroom(
    directory: Path, settings: dict[str, str] | None = None, admin_token: str | None = None
) -> Iterator[Subject]:
    """Run Postroom with its data below `directory`; `settings` are further `POSTROOM_…` settings by name.

    `admin_token`: that of the first start there, for another one; a new one unless given.
    """
    token = admin_token or mint("admin")
    with served(directory, token, settings) as server:
        subject = Subject(server, token)
        try:
            yield subject
        finally:
            subject.close()


@contextmanager
def served(directory: Path, token: str, settings: dict[str, str] | None = None) -> Iterator[Server]:
    """Run Postroom as `postroom` does, without a connection of its administrator."""
    own = {
        "DATA_DIR": str(directory / "data"),
        "BIND": "127.0.0.1:0",
        "ADMIN_TOKEN": token,
        "LOG_FORMAT": "json",
    }
    environment = {f"POSTROOM_{name}": value for name, value in {**own, **(settings or {})}.items()}
    with running("postroom", ARGUMENTS, directory, environment) as server:
        yield server
