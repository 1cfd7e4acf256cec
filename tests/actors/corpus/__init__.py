"""A labelled corpus: which of these beacons should hear of which of these messages, as a reader would say.

`beacons.json`: standing interests of fourteen agents, worded as agents word them. `messages.jsonl`: webhooks of build
systems, repositories, payments, shops, alerts and mail, and what agents write to each other; `hears` was decided by
what a message means, not by its words. Webhooks of two providers are put into the envelope that these providers send
with every event, with all its links and empty members (`envelopes.py`): that is where false matches come from.
"""

from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from actors.rules.matching.beacons import Beacon, Spec, beacon_of
from actors.rules.matching.judging import MatchInput
from actors.rules.matching.scoring import WEBHOOK_SALIENCE
from actors.rules.matching.texts import published_terms, webhook_terms
from storage.records import BodyKind
from tests.actors.corpus.envelopes import enclose

HERE = Path(__file__).parent
COMMONS = "commons"


class Placed(Spec, frozen=True, kw_only=True):
    """A beacon of the corpus and whose it is."""

    agent: str


class Sent(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A message of the corpus: a webhook when it has an `inbox`, else published."""

    hears: frozenset[str]
    inbox: str = ""
    type: str = ""
    via: str = ""
    repo: str = ""
    body: dict[str, Any] = {}
    text: str = ""
    content_type: str = "application/json"
    kind: str = ""
    subject: str = ""
    tags: list[str] = []
    salience: float = 0.5


@cache
def beacons() -> list[Beacon]:
    """Return the beacons, in the order of the file."""
    specs = msgspec.json.decode((HERE / "beacons.json").read_bytes(), type=list[Placed])
    return [beacon_of(spec.agent, spec) for spec in specs]


@cache
def sent() -> list[Sent]:
    """Return the messages as written, in the order of the file."""
    lines = (HERE / "messages.jsonl").read_bytes().splitlines()
    return [msgspec.json.decode(line, type=Sent) for line in lines]


@cache
def messages() -> list[MatchInput]:
    """Return the messages as they are matched, in the same order."""
    return [as_input(number, message) for number, message in enumerate(sent(), 1)]


def as_input(number: int, message: Sent) -> MatchInput:
    """Return a message as the router would have it."""
    if not message.inbox:
        terms = published_terms(message.subject, message.text, message.tags, message.kind)
        return MatchInput(number, number, COMMONS, message.kind, message.kind, message.salience, terms)
    body = message.text.encode()
    kind = BodyKind.TEXT
    if message.body:
        body = msgspec.json.encode(enclose(message.via, message.type, message.repo, message.body))
        kind = BodyKind.JSON
    terms = webhook_terms(message.type, body, kind, message.content_type)
    return MatchInput(number, number, message.inbox, message.type, "webhook", WEBHOOK_SALIENCE, terms)
