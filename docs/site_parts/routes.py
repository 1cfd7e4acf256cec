"""The reference of every route, as Markdown, from the OpenAPI document that the code describes itself with."""

import json
from collections.abc import Iterator
from typing import Any

Json = Any

_ERRORS = "[errors](errors.md)"


def reference(document: dict[str, Json]) -> str:
    """Return the text that stands below the heading of the page: routes by subject, then the objects that they name."""
    lines: list[str] = []
    for tag in document["tags"]:
        lines += [f"## {tag['name']}", "", tag["description"], ""]
        for path, methods in document["paths"].items():
            for method, operation in methods.items():
                if tag["name"] in operation["tags"]:
                    lines += _operation(f"{method.upper()} {path}", operation)
    lines += ["## Objects", "", "Members that are not marked as required may be left out.", ""]
    for name, schema in sorted(document["components"]["schemas"].items()):
        lines += _object(name, schema)
    return "\n".join(lines)


def _operation(key: str, operation: dict[str, Json]) -> Iterator[str]:
    yield from (f"### `{key}`", "", _text(operation.get("description") or operation["summary"]), "")
    parameters = operation.get("parameters", ())
    if parameters:
        yield from ("| parameter | in | is | |", "|---|---|---|---|")
        for one in parameters:
            needed = ", required" if one.get("required") else ""
            kind = _kind(one["schema"]) + needed
            yield f"| `{one['name']}` | {one['in']} | {kind} | {_cell(one.get('description', ''))} |"
        yield ""
    body = operation.get("requestBody")
    if body is not None:
        [(media, content)] = body["content"].items()
        what = _kind(content["schema"]) if "schema" in content else body.get("description", media)
        yield from (f"Body: {what}" + ("" if what.endswith(".") else "."), "")
        yield from _members(content.get("schema", {}))
        yield from _example(content)
    refused = []
    for status, answer in operation["responses"].items():
        if "$ref" in answer:
            refused.append(f"{status} ({_codes(answer['$ref'])})")
            continue
        content = next(iter(answer.get("content", {}).values()), {})
        kind = f": {_kind(content['schema'])}" if "schema" in content else ""
        yield from (f"**{status}**{kind}. {_text(answer['description'])}", "")
        yield from _example(content)
    if refused:
        yield from (f"Refused with {', '.join(refused)}; see {_ERRORS}.", "")


def _object(name: str, schema: dict[str, Json]) -> Iterator[str]:
    yield from (f"### `{name}`", "")
    if "description" in schema:
        yield from (_text(schema["description"]), "")
    if not schema.get("properties"):
        yield from ("No members.", "")
    yield from _members(schema)


def _members(schema: dict[str, Json]) -> Iterator[str]:
    """Give the table of an object's members, nothing where the object is told elsewhere or has none."""
    if not schema.get("properties"):
        return
    yield from ("| member | is | |", "|---|---|---|")
    for member, kind in schema["properties"].items():
        needed = ", required" if member in schema.get("required", ()) else ""
        yield f"| `{member}` | {_kind(kind)}{needed} | {_cell(kind.get('description', ''))} |"
    yield ""


def _kind(schema: Json) -> str:
    """Return in words what a value is."""
    if schema is True or not isinstance(schema, dict):
        return "anything"
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[`{name}`](#{name.lower()})"
    if "anyOf" in schema:
        return " or ".join(_kind(one) for one in schema["anyOf"])
    if "enum" in schema:
        return ", ".join(f"`{one}`" for one in schema["enum"])
    if "prefixItems" in schema:
        return "a pair of " + " and ".join(_kind(one) for one in schema["prefixItems"])
    match schema.get("type"):
        case "array":
            return "a list, each " + _kind(schema.get("items", True))
        case "object":
            return "an object"
        case "integer" | "number" as number:
            word = "whole number" if number == "integer" else "number"
            bounds = [schema.get("minimum"), schema.get("maximum")]
            text = f"a {word}" + _bounds(*bounds)
        case "boolean":
            text = "`true` or `false`"
        case "string":
            text = "a time" if schema.get("format") == "date-time" else "text"
            if "maxLength" in schema and text == "text":
                text += f" of at most {schema['maxLength']:,} characters"
        case "null":
            text = "null"
        case _:
            text = "any JSON"
    default = schema.get("default")
    return text if default in (None, "", [], {}) else f"{text}; `{json.dumps(default)}`"


def _bounds(low: float | None, high: float | None) -> str:
    if low is not None and high is not None:
        return f" from {low:,} to {high:,}"
    return f", {low:,} or more" if low is not None else ""


def _codes(reference: str) -> str:
    """Return the codes of a refusal, whose name is theirs with `_or_` between."""
    return " or ".join(f"`{code}`" for code in reference.rpartition("/")[2].split("_or_"))


def _example(content: dict[str, Json]) -> Iterator[str]:
    if "example" in content:
        value = content["example"]
        text = value if isinstance(value, str) else json.dumps(value, indent=2, ensure_ascii=False)
        yield from ("```json" if not isinstance(value, str) else "```text", text, "```", "")


def _text(text: str) -> str:
    return text.replace("<", "&lt;")


def _cell(text: str) -> str:
    return _text(text).replace("|", "\\|").replace("\n", " ")
