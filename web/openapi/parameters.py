"""What an operation takes, as the document has it: parameters in path, query and headers, and the body."""

import re
from collections.abc import Iterator
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from web.openapi.about import Media
from web.openapi.operations import Operation
from web.openapi.schemas import Schema, Schemas, without_null
from web.params import Inbox, Name, Seq

_IN_PATH = re.compile(r"\{(\w+)\}")

OTHERWISE_NAMED = {"slug": "inbox"}
"""How a parameter of a path is called in the forms."""


class InPaths(msgspec.Struct, frozen=True):
    """Parameters of paths that are in no form."""

    slug: Inbox
    seq: Annotated[Seq, Meta(description="Number of the message in its inbox.")]
    name: Annotated[Name, Meta(description="Its name.")]
    agent_id: Annotated[Name, Meta(description="Name of the agent.")]
    token_id: Annotated[str, Meta(description="As lists of tokens show it.")]
    backup_id: Annotated[str, Meta(description="As the beginning of the backup was answered.")]


HEADERS = {
    "Last-Event-ID": "Id of the last event that was heard: go on from there. It wins over `after` and `epoch`.",
    "Range": "One range of bytes, such as `bytes=0-1023`.",
    "If-Range": "The `ETag` of the bytes that the range continues.",
    "If-None-Match": "The `ETag` of the document that is at hand.",
    "Postroom-Session": "Tells one program that speaks for an agent from another. Without it: token, address and"
    " user agent.",
}
"""Of requests, by name."""

ANY_TEXT: Schema = {"type": "string"}


def parameters(operation: Operation, schemas: Schemas) -> list[Schema]:
    """Return the parameters of an operation: those of the path in their order, of the query, headers."""
    return [*_in_path(operation, schemas), *_in_query(operation, schemas), *_in_headers(operation)]


def body(operation: Operation, schemas: Schemas) -> Schema | None:
    """Return the body of an operation's request, None when it takes none."""
    takes, merges = operation.about.takes, operation.about.merges
    if takes is None or operation.method not in ("POST", "PUT", "PATCH"):
        return None
    if isinstance(takes, Media):
        return {"description": takes.text, "content": {takes.media_type: {}}}
    given = set(in_path(operation))
    required = [] if merges else [name for name in schemas.of(takes).get("required", ()) if name not in given]
    schema = schemas.merged(schemas.ref(takes)) if merges else schemas.ref(takes)
    if given & set(takes.__struct_fields__):  # what is in the path may be repeated here, and need not be
        schema = {**schemas.of(takes), "required": required}
        if not required:
            del schema["required"]
    return {"required": bool(required), "content": {"application/json": {"schema": schema}}}


def in_path(operation: Operation) -> list[str]:
    """Return the names of the parameters of a path, in its order."""
    return _IN_PATH.findall(operation.template)


def _form(operation: Operation) -> type[msgspec.Struct] | None:
    takes = operation.about.takes
    return None if isinstance(takes, Media) else takes


def _in_path(operation: Operation, schemas: Schemas) -> Iterator[Schema]:
    form = _form(operation)
    known = {} if form is None else schemas.members(form)
    for name in in_path(operation):
        member = known.get(OTHERWISE_NAMED.get(name, name)) or schemas.members(InPaths).get(name, ANY_TEXT)
        yield {**_parameter(name, "path", member), "required": True}


def _in_query(operation: Operation, schemas: Schemas) -> Iterator[Schema]:
    form = _form(operation)
    if form is None or operation.method != "GET":
        return
    elsewhere = {OTHERWISE_NAMED.get(name, name) for name in in_path(operation)}
    required = schemas.of(form).get("required", ())
    for name, member in schemas.members(form).items():
        if name not in elsewhere:
            yield {**_parameter(name, "query", member), **({"required": True} if name in required else {})}


def _in_headers(operation: Operation) -> Iterator[Schema]:
    for name in operation.about.headers:
        yield {"name": name, "in": "header", "description": HEADERS[name], "schema": {"type": "string"}}


def _parameter(name: str, place: str, member: Schema) -> Schema:
    schema = without_null(member)
    words: dict[str, Any] = {"description": schema["description"]} if "description" in schema else {}
    examples = schema.get("examples")
    if examples:
        words["example"] = examples[0]
    rest = {key: value for key, value in schema.items() if key not in ("description", "examples")}
    return {"name": name, "in": place, **words, "schema": rest}
