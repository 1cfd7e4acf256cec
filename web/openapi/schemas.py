"""Schemas of the document: msgspec's own, with the words of docstrings for the caller."""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from web.decoding import MAX_SEQ
from web.openapi.operations import prose
from web.openapi.page import ApiPage
from web.openapi.shapes import OPEN

Schema = dict[str, Any]

PREFIX = "#/components/schemas/"
NULL: Schema = {"type": "null"}

LARGEST_INT32 = 2**31 - 1
"""What generated clients take an integer for that says nothing else."""

_END = "$(?!\\n)"
"""How our patterns end: Python's `$` also matches before a last line break, that of JSON Schema does not."""


class Schemas:
    """The schemas of these definitions, and of all that are in them."""

    def __init__(self, shapes: Iterable[type[msgspec.Struct]], page: ApiPage) -> None:
        """`page`: what members of forms mean whose definitions do not say it."""
        within = [shape for (owner, _), shapes_ in OPEN.items() for shape in (owner, *shapes_)]
        known = tuple(dict.fromkeys((*shapes, *within)))
        roots, components = msgspec.json.schema_components(known, ref_template=PREFIX + "{name}")
        self._refs = {shape: root["$ref"] for shape, root in zip(known, roots, strict=True)}
        self._components = {
            name: _described(component, page.words_of(name)) for name, component in components.items()
        }
        for (owner, member), inner in OPEN.items():
            self._open(owner, member, inner)

    def ref(self, shape: type[msgspec.Struct]) -> Schema:
        """Return a reference to a definition."""
        return {"$ref": self._refs[shape]}

    def of(self, shape: type[msgspec.Struct]) -> Schema:
        """Return the schema of a definition itself, not to be changed."""
        return self._components[self._refs[shape].removeprefix(PREFIX)]

    def members(self, shape: type[msgspec.Struct]) -> Mapping[str, Schema]:
        """Return the schemas of its members."""
        members: Mapping[str, Schema] = self.of(shape)["properties"]
        return members

    def merged(self, schema: Schema) -> Schema:
        """Return a schema as a merge patch has it: nothing is required, and null is the default of every member."""
        if "$ref" in schema:
            return self.merged(self._components[schema["$ref"].removeprefix(PREFIX)])
        if "properties" not in schema:
            return schema
        members = {name: self._or_null(member) for name, member in schema["properties"].items()}
        return {**{key: value for key, value in schema.items() if key != "required"}, "properties": members}

    def used_by(self, document: object) -> dict[str, Schema]:
        """Return, by name, the components that a document refers to."""
        used: set[str] = set()
        waiting = [document]
        while waiting:
            for name in _names(waiting.pop()):
                if name not in used:
                    used.add(name)
                    waiting.append(self._components[name])
        return {name: self._components[name] for name in sorted(used)}

    def _open(
        self, owner: type[msgspec.Struct], member: str, inner: tuple[type[msgspec.Struct], ...]
    ) -> None:
        refs = [self.ref(shape) for shape in inner]
        said = refs[0] if len(refs) == 1 else {"anyOf": refs}
        members = self.of(owner)["properties"]
        members[member] = {"type": "array", "items": said} if members[member]["type"] == "array" else said

    def _or_null(self, member: Schema) -> Schema:
        either = [one for one in member.get("anyOf", [{}]) if one != NULL]
        if len(either) > 1:
            return member if NULL in member["anyOf"] else {**member, "anyOf": [*member["anyOf"], NULL]}
        inner = self.merged(either[0] if "anyOf" in member else member)
        outer: Schema = {key: member[key] for key in ("description", "default") if key in member}
        return {**outer, "anyOf": [{key: inner[key] for key in inner if key not in outer}, NULL]}


def without_null(schema: Schema) -> Schema:
    """Return the schema of a member that can only be left out, as in a query string."""
    if "anyOf" not in schema:
        return schema
    either = [one for one in schema["anyOf"] if one != NULL]
    rest = {key: value for key, value in schema.items() if key != "anyOf"}
    return {**either[0], **rest} if len(either) == 1 else {**rest, "anyOf": either}


def _described(component: Schema, meanings: Mapping[str, str]) -> Schema:
    schema = _plain(component)
    members = schema.get("properties", {})
    for name, meaning in meanings.items():
        if name in members and "description" not in members[name]:
            members[name] = {"description": f"{meaning[:1].upper()}{meaning[1:]}.", **members[name]}
    words = prose(component.get("description"))
    schema.pop("description", None)
    return {"description": words, **schema} if words else schema


def _plain(node: Schema) -> Schema:
    """Return a schema without what says nothing, and with what generated clients want to know."""
    plain: Schema = {}
    for key, value in node.items():
        match key:
            case "properties":
                plain[key] = {name: _timed(name, _plain(inner)) for name, inner in value.items()}
            case "items" | "additionalProperties" if isinstance(value, dict):
                plain[key] = _plain(value)
            case "anyOf" | "prefixItems":
                plain[key] = [_plain(inner) for inner in value]
            case "pattern":
                plain[key] = value.replace(_END, "$")
            case "title":
                pass
            case "default" if value is None:
                pass
            case "maximum" if value == MAX_SEQ:
                pass
            case "required" if not value:
                pass
            case _:
                plain[key] = value
    told = [inner for inner in plain.get("anyOf", ()) if "description" in inner]
    if told and "description" not in plain:
        plain["description"] = told[0].pop("description")
    if "enum" in plain:
        plain.setdefault("type", "string")  # ours are words
    if plain.get("type") == "integer" and plain.get("maximum", MAX_SEQ) > LARGEST_INT32:
        plain["format"] = "int64"
    return plain


def _timed(name: str, member: Schema) -> Schema:
    """Say of a member that it is a time; our names of times all end alike."""
    if not name.endswith("_at") and name != "last_seen":
        return member
    if "anyOf" in member:
        return {**member, "anyOf": [_timed(name, inner) for inner in member["anyOf"]]}
    return {**member, "format": "date-time"} if member.get("type") == "string" else member


def _names(node: object) -> Iterable[str]:
    """Give the names of all components that a part of the document refers to."""
    waiting = [node]
    while waiting:
        one = waiting.pop()
        if isinstance(one, dict):
            ref = one.get("$ref")
            if isinstance(ref, str) and ref.startswith(PREFIX):
                yield ref.removeprefix(PREFIX)
            waiting += one.values()
        elif isinstance(one, list | tuple):
            waiting += one
