"""Which errors an operation may answer with: most of them follow from who may call it and what it takes."""

from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from web.errors import STATUS
from web.openapi.about import About, Media, Who
from web.openapi.operations import Operation

UNPROCESSABLE = 422

NAMED_BY_THE_CALL: tuple[Who, ...] = ("reader", "agent", "member")
"""Whose calls are about an inbox or an agent that may be gone, also where the path does not name it."""


class Fault(msgspec.Struct, frozen=True):
    """What went wrong: `code` for programs, `message` for people, `field` names the parameter, `details` help to go
    on.
    """

    code: str
    message: str
    field: str | UnsetType = UNSET
    details: dict[str, Any] | UnsetType = UNSET


class Refused(msgspec.Struct, frozen=True):
    """Every refusal."""

    error: Fault


def refusals(operation: Operation) -> dict[int, tuple[str, ...]]:
    """Return the codes of an operation's errors by status, both in order."""
    found: dict[int, set[str]] = {}
    for code in _codes(operation):
        status = UNPROCESSABLE if code == "invalid_argument" and _of_the_mesh(operation) else STATUS[code]
        found.setdefault(status, set()).add(code)
    return {status: tuple(sorted(found[status])) for status in sorted(found)}


def _of_the_mesh(operation: Operation) -> bool:
    return operation.about.who == "member"


def _codes(operation: Operation) -> Iterator[str]:
    about = operation.about
    yield from about.refuses.split()
    yield from ("headers_too_large", "internal")
    if about.group == "Server" and about.who == "anybody":
        return
    yield from ("invalid_argument", "busy", "shutting_down")
    if about.who != "anybody":
        yield from ("unauthenticated", "rate_limited")
    if about.who not in ("anybody", "token", "reader"):
        yield "permission_denied"
    if "{" in operation.template or about.who in NAMED_BY_THE_CALL:
        yield "not_found"
    if operation.method in ("POST", "PUT", "PATCH"):
        yield "insufficient_storage"
        if about.takes is not None:
            yield from ("timeout", "payload_too_large")
    yield from _by_members(about)


def _by_members(about: About) -> Iterator[str]:
    if about.takes is None or isinstance(about.takes, Media):
        return
    members = about.takes.__struct_fields__
    if "epoch" in members:
        yield "epoch_changed"
        if "after" in members:
            yield "cursor_ahead"
    if "idempotency_key" in members:
        yield "conflict"
