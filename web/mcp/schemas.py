"""JSON Schemas for tools, made from msgspec definitions, in the plain words that every client understands.

An input's schema has an object at its root, no additional properties, no `$ref`, no `anyOf` for a mere null, no
`format`: clients that hand schemas on to a model refuse more. An output's schema is loose: later fields validate.
"""

from typing import Any

import msgspec

Schema = dict[str, Any]

_DROPPED = frozenset({"title", "format", "examples"})
_EMPTY_DEFAULTS: tuple[object, ...] = (None, "", (), [], {})
_NOTHING_FOLLOWS = r"(?!\n)"
"""What Python needs behind `$`; other dialects do not, and some have no lookahead."""


def input_schema(params: type[msgspec.Struct]) -> Schema:
    """Return the schema of a tool's arguments. Null, which stands for a default, is not offered."""
    schema = _plain(params, nulls=False)
    schema["additionalProperties"] = False
    return schema


def output_schema(shape: type[msgspec.Struct]) -> Schema:
    """Return the schema of a tool's structured content."""
    return _plain(shape, nulls=True)


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
        if key in _DROPPED or (key == "default" and value in _EMPTY_DEFAULTS and value is not False):
            continue
        if key == "properties":
            plain[key] = {name: _schema(inner, components, nulls) for name, inner in value.items()}
        elif key == "items" and isinstance(value, dict):
            plain[key] = _schema(value, components, nulls)
        elif key == "prefixItems":
            plain[key] = [_schema(inner, components, nulls) for inner in value]
        elif key == "pattern":
            plain[key] = value.removesuffix(_NOTHING_FOLLOWS)
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
