"""JSON Schemas for tools, made from msgspec definitions, in the plain words that every client understands.

An input's schema has an object at its root, no additional properties, no `$ref`, no `anyOf` for a mere null, no
`format`: clients that hand schemas on to a model refuse more. A model pays for every word of it in each conversation,
so it has no patterns, no lengths of texts and no bound that is only the largest number there is: a call that breaks
one is refused in words. An output's schema is loose: later fields validate.
"""

from functools import lru_cache
from typing import Any

import msgspec

from web.decoding import MAX_SEQ

Schema = dict[str, Any]

_DROPPED = frozenset({"title", "format", "examples", "pattern", "minLength", "maxLength"})
_EMPTY_DEFAULTS: tuple[object, ...] = (None, "", (), [], {})


@lru_cache(maxsize=64)  # the forms of all tools are fewer
def input_schema(params: type[msgspec.Struct]) -> Schema:
    """Return the schema of a tool's arguments. Null, which stands for a default, is not offered."""
    schema = _plain(params, nulls=False)
    schema["additionalProperties"] = False
    return schema


@lru_cache(maxsize=64)
def output_schema(shape: type[msgspec.Struct]) -> Schema:
    """Return the schema of a tool's structured content."""
    return _plain(shape, nulls=True)


def without_words(schema: Schema, *but: str) -> Schema:
    """Return a schema without the descriptions of its members (`but` of these), for a tool whose neighbour has them."""
    members = {
        name: {key: value for key, value in member.items() if key != "description" or name in but}
        for name, member in schema["properties"].items()
    }
    return {**schema, "properties": members}


def bare(schema: Schema) -> Schema:
    """Return a schema with nothing of its members but their types, for a tool whose neighbour has the rest."""

    def types(member: Schema) -> Schema:
        kept = {"type": member["type"]}
        return {**kept, "items": types(member["items"])} if "items" in member else kept

    members = {name: types(member) for name, member in schema["properties"].items()}
    return {**schema, "properties": members}


def _plain(struct: type[msgspec.Struct], *, nulls: bool) -> Schema:
    (root,), components = msgspec.json.schema_components([struct], ref_template="{name}")
    schema = _schema(root, components, nulls)
    schema.pop("description", None)  # the docstring, which is for the readers of the code
    schema.setdefault("properties", {})
    return schema


def _schema(node: Schema, components: dict[str, Any], nulls: bool) -> Schema:
    if "$ref" in node:
        inner = _schema(components[node["$ref"]], components, nulls)
        inner.pop("description", None)
        return inner
    if "anyOf" in node:
        return _either(node, components, nulls)
    plain: Schema = {}
    for key, value in node.items():
        if key in _DROPPED or (key == "default" and (value is False or value in _EMPTY_DEFAULTS)):
            continue
        if key == "maximum" and value == MAX_SEQ:
            continue
        if key == "properties":
            plain[key] = {name: _schema(inner, components, nulls) for name, inner in value.items()}
        elif key == "items" and isinstance(value, dict):
            plain[key] = _schema(value, components, nulls)
        elif key == "prefixItems":
            plain[key] = [_schema(inner, components, nulls) for inner in value]
        elif key == "required" and not value:
            continue
        else:
            plain[key] = value
    if "enum" in plain:
        plain["type"] = "string"  # our alternatives are words; some clients refuse an enum without a type
    return plain


def _either(node: Schema, components: dict[str, Any], nulls: bool) -> Schema:
    """Return one schema for a value that may be null; more alternatives than that no tool of ours has."""
    (inner,) = [_schema(one, components, nulls) for one in node["anyOf"] if one != {"type": "null"}]
    rest = {key: value for key, value in node.items() if key != "anyOf"}
    merged = {**inner, **_schema(rest, components, nulls)}
    if nulls:
        merged["type"] = [merged["type"], "null"]
    return merged
