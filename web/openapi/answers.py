"""What an operation answers, as the document has it: by status, successes first, and the refusals that share a
description.
"""

from collections.abc import Iterable
from typing import Any

from web.errors import STATUS
from web.openapi.about import Media, Shape
from web.openapi.errors import Refused, refusals
from web.openapi.operations import Operation
from web.openapi.page import ApiPage, Example
from web.openapi.schemas import Schema, Schemas

RESPONSES = "#/components/responses/"

HEADERS = {
    "Content-Range": "Which bytes these are, of how many.",
    "ETag": "Tag of these bytes.",
    "Postroom-Duplicate": "`true`: this was taken before, and the answer is the first one's.",
    "Retry-After": "Ask the same again after so many seconds.",
    "WWW-Authenticate": "`Bearer`.",
}
"""Of answers, by name. Those that every answer has are told in the introduction."""

OF_STATUS = {401: "WWW-Authenticate", 429: "Retry-After", 503: "Retry-After"}

_WORDS = {200: "Done.", 201: "Made.", 202: "Begun.", 204: "Done; the answer is empty.", 206: "The range."}


def answers(operation: Operation, schemas: Schemas, page: ApiPage) -> dict[str, Any]:
    """Return the answers of an operation by status."""
    about, example = operation.about, page.example(operation.key)
    told = {
        str(status): _answer(status, shape, about.gives, schemas, example)
        for status, shape in ((about.status, about.answers), *about.also.items())
    }
    for status, codes in refusals(operation).items():
        told[str(status)] = {"$ref": RESPONSES + _name(status, codes)}
    return told


def responses(operations: Iterable[Operation], schemas: Schemas, page: ApiPage) -> dict[str, Any]:
    """Return the refusals of all operations, by their names."""
    found = {
        _name(status, codes): _refusal(status, codes, schemas, page)
        for operation in operations
        for status, codes in refusals(operation).items()
    }
    return dict(sorted(found.items()))


def with_example(body: dict[str, Any], value: dict[str, Any] | None) -> dict[str, Any]:
    """Return a body with an example of it, if there is one."""
    if value is None:
        return body
    content = {kind: {**media, "example": value} for kind, media in body["content"].items()}
    return {**body, "content": content}


def _answer(
    status: int | str, shape: Shape | None, gives: tuple[str, ...], schemas: Schemas, example: Example
) -> dict[str, Any]:
    if shape is None:
        return {"description": _WORDS[int(status)]}
    headers = {"headers": _headers(gives)} if gives else {}
    if isinstance(shape, Media):
        kinds = [kind for kind in (shape.media_type, *shape.others) if kind]
        content: dict[str, Any] = {"content": {kind: {} for kind in kinds}} if kinds else {}
        return {"description": shape.text, **headers, **content}
    words = schemas.of(shape).get("description") or _WORDS[int(status)]
    told = {"description": words, **headers, "content": {"application/json": {"schema": schemas.ref(shape)}}}
    return with_example(told, example.answers.get(str(status)))


def _refusal(status: int, codes: tuple[str, ...], schemas: Schemas, page: ApiPage) -> dict[str, Any]:
    told: dict[str, Any] = {
        "description": " ".join(f"`{code}`: {page.codes.get(code, STATUS[code])}." for code in codes),
        "content": {"application/json": {"schema": schemas.ref(Refused)}},
    }
    if status in OF_STATUS:
        told["headers"] = _headers((OF_STATUS[status],))
    found = {code: {"value": page.errors[code]} for code in codes if code in page.errors}
    if found:
        told["content"]["application/json"]["examples"] = found
    return told


def _headers(names: Iterable[str]) -> dict[str, Schema]:
    return {name: {"description": HEADERS[name], "schema": {"type": "string"}} for name in names}


def _name(status: int, codes: tuple[str, ...]) -> str:
    """Return what refusals with these codes are called; with their status, where it is not that of the table."""
    name = "_or_".join(codes)
    return name if all(STATUS[code] == status for code in codes) else f"{name}_{status}"
