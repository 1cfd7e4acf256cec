"""The parameters of publishing and of beacons, one struct each, shared by REST and MCP (surface, section 7)."""

from hashlib import sha256
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from actors.rules.matching.beacons import DEFAULT_MIN_SCORE, DEFAULT_WEIGHT, Spec
from web.errors import invalid
from web.grammar import ULID_PATTERN
from web.params import EventType, Name, Slug
from web.published import DEFAULT_SALIENCE

MAX_SUBJECT = 200
MAX_TEXT_BYTES = 64 * 1024
MAX_TAGS = 20
MAX_TAG = 64
MAX_RECIPIENTS = 1_000
MAX_KEY = 200
MAX_ABOUT = 2_000
MAX_FILTERS = 100
"""Inboxes or event types that one beacon may name."""
MAX_TERMS = 32
MAX_TERM = 100
MAX_BACKFILL = 100
MAX_TTL_SECONDS = 100 * 366 * 86_400

Type = Literal["created", "updated", "superseded", "contradiction", "pattern", "promoted"]
PublishedKind = Literal["note", "decision", "fact", "task", "alert", "question"]
"""Kinds that an agent may choose: the others say what kind of sender a message has."""
Kind = Literal["note", "decision", "fact", "task", "alert", "question", "webhook", "message", "system"]

Share = Annotated[float, Meta(ge=0, le=1)]
Ttl = Annotated[int, Meta(ge=1, le=MAX_TTL_SECONDS)]
Tag = Annotated[str, Meta(min_length=1, max_length=MAX_TAG)]
Term = Annotated[str, Meta(min_length=1, max_length=MAX_TERM)]
BeaconName = Annotated[Name, Meta(examples=["ci"])]


class To(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """To whom a message goes: `agents` by name, or one topic inbox."""

    agents: Annotated[tuple[Name, ...], Meta(max_length=MAX_RECIPIENTS, description="By agent_id.")] = ()
    inbox: Annotated[Slug, Meta(description="A topic inbox.")] | None = None


class Publish(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`POST /v1/publish`, `publish`."""

    type: Type
    kind: PublishedKind
    subject: Annotated[str, Meta(max_length=MAX_SUBJECT, description="At most 200 characters.")]
    text: Annotated[str, Meta(max_length=MAX_TEXT_BYTES, description="At most 64 KiB.")]
    tags: Annotated[tuple[Tag, ...], Meta(max_length=MAX_TAGS)] = ()
    salience: Annotated[Share, Meta(description="How much it matters.")] = DEFAULT_SALIENCE
    to: (
        Annotated[
            To,
            Meta(description="Agents by name, or one topic inbox; without it the inbox commons."),
        ]
        | None
    ) = None
    supersedes: (
        Annotated[str, Meta(pattern=ULID_PATTERN, description="The diff_id that this one replaces.")] | None
    ) = None
    ttl_seconds: Annotated[Ttl, Meta(description="It expires after so many seconds.")] | None = None
    idempotency_key: (
        Annotated[
            str,
            Meta(
                min_length=1,
                max_length=MAX_KEY,
                description="The same again publishes nothing twice.",
            ),
        ]
        | None
    ) = None

    def check(self) -> None:
        """Refuse a text over 64 KiB, and a `to` that is not exactly one thing."""
        if len(self.text.encode()) > MAX_TEXT_BYTES:
            raise invalid("text", f"Expected text of at most {MAX_TEXT_BYTES:,} bytes.")
        if self.to is not None and bool(self.to.agents) == (self.to.inbox is not None):
            raise invalid("to", "Give agents, or an inbox: one of the two.")

    def fingerprint(self) -> bytes:
        """Return a hash of what is asked for, by which a repeated request is known as the same."""
        return sha256(msgspec.json.encode(msgspec.structs.replace(self, idempotency_key=None))).digest()


class _Interest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a beacon is about."""

    about: (
        Annotated[
            str,
            Meta(
                max_length=MAX_ABOUT,
                description="What is of interest; half of the words, by weight, must be in a message. "
                "Without it the filters decide alone.",
            ),
        ]
        | None
    ) = None
    inboxes: Annotated[
        tuple[Slug, ...], Meta(max_length=MAX_FILTERS, description="Only from these inboxes.")
    ] = ()
    types: Annotated[
        tuple[EventType, ...], Meta(max_length=MAX_FILTERS, description="Only these event types.")
    ] = ()
    kinds: Annotated[tuple[Kind, ...], Meta(max_length=9, description="Only these kinds.")] = ()
    require: Annotated[
        tuple[Term, ...], Meta(max_length=MAX_TERMS, description="Terms that must all be in a message.")
    ] = ()
    exclude: Annotated[
        tuple[Term, ...], Meta(max_length=MAX_TERMS, description="Terms of which none may be in it.")
    ] = ()
    min_score: Annotated[Share, Meta(description="Deliver nothing below this score.")] = DEFAULT_MIN_SCORE
    weight: Annotated[Share, Meta(description="How much this interest matters.")] = DEFAULT_WEIGHT

    def spec(self, name: str) -> Spec:
        """Return what is stored and matched; what is named twice counts once."""
        return Spec(
            name=name,
            about=self.about,
            inboxes=tuple(dict.fromkeys(self.inboxes)),
            types=tuple(dict.fromkeys(self.types)),
            kinds=tuple(dict.fromkeys(self.kinds)),
            require=tuple(dict.fromkeys(self.require)),
            exclude=tuple(dict.fromkeys(self.exclude)),
            min_score=self.min_score,
            weight=self.weight,
        )


class PlaceBeacon(_Interest, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`PUT /v1/beacons/{name}`, `place_beacon`."""

    name: BeaconName
    ttl_seconds: Annotated[Ttl, Meta(description="It goes out after so many seconds.")] | None = None
    backfill: Annotated[
        int,
        Meta(ge=0, le=MAX_BACKFILL, description="Deliver so many of the newest matches."),
    ] = 0


class TestBeacon(_Interest, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`POST /v1/beacons:test`, `test_beacon`: what such a beacon would have matched; with a `name` and nothing else,
    what the one in place under it would have.
    """

    __test__ = False  # not a test of ours

    name: Annotated[Name, Meta(description="With this alone: the beacon of this name.")] | None = None

    @property
    def names_only(self) -> bool:
        """Whether the beacon to test is one that is in place."""
        return self.name is not None and self == TestBeacon(name=self.name)


class BeaconNamed(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`GET` and `DELETE /v1/beacons/{name}`, `remove_beacon`."""

    name: BeaconName
