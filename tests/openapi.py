"""The OpenAPI document as a judge: whether a request's body or an answer is as the document says.

Answers are judged more strictly than a client should: a member that the document does not name is wrong, so that what
a server says and what its document says cannot drift apart.
"""

from collections.abc import Iterator
from typing import Any

import msgspec
from jsonschema import Draft202012Validator, FormatChecker

from web.grammar import parse_time

Json = Any

_formats = FormatChecker(formats=())


@_formats.checks("date-time", raises=ValueError)
def _is_time(value: object) -> bool:
    return not isinstance(value, str) or parse_time(value) > 0


class Contract:
    """What a document promises."""

    def __init__(self, encoded: bytes) -> None:
        self.document: dict[str, Json] = msgspec.json.decode(encoded)
        self._open = self.document["components"]
        self._closed = {"schemas": {name: _closed(one) for name, one in self._open["schemas"].items()}}

    def operation(self, key: str) -> dict[str, Json]:
        """Return an operation by method and path."""
        method, _, path = key.partition(" ")
        found: dict[str, Json] = self.document["paths"][path][method.lower()]
        return found

    def answer(self, key: str, status: int | str) -> dict[str, Json]:
        """Return an answer of an operation. Raises `KeyError` for one that the document does not know."""
        answer: dict[str, Json] = self.operation(key)["responses"][str(status)]
        if "$ref" in answer:
            answer = self._open["responses"][answer["$ref"].rpartition("/")[2]]
        return answer

    def faults_of_body(self, key: str, value: Json) -> list[str]:
        """Return what is wrong with the body of a request."""
        content = self.operation(key)["requestBody"]["content"]
        if "application/json" not in content:
            return []
        return self._faults(content["application/json"]["schema"], value, self._open)

    def faults_of_answer(self, key: str, status: int | str, value: Json) -> list[str]:
        """Return what is wrong with an answer of JSON."""
        answer = self.answer(key, status)
        error = value.get("error")
        if (
            isinstance(error, dict)
            and f"`{error['code']}`" not in answer["description"]
            and str(status) != "416"
        ):
            return [f"{error['code']} is not told of at {status}"]
        return self._faults(answer["content"]["application/json"]["schema"], value, self._closed)

    def _faults(self, schema: Json, value: Json, components: Json) -> list[str]:
        validator = Draft202012Validator(
            {"allOf": [schema], "components": components}, format_checker=_formats
        )
        return [_sentence(error) for error in validator.iter_errors(value)]


def within(node: Json) -> Iterator[dict[str, Json]]:
    """Give every object in a document."""
    waiting = [node]
    while waiting:
        one = waiting.pop()
        if isinstance(one, dict):
            yield one
            waiting += one.values()
        elif isinstance(one, list):
            waiting += one


def _closed(schema: Json) -> Json:
    if isinstance(schema, list):
        return [_closed(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    closed = {name: _closed(inner) for name, inner in schema.items()}
    if "properties" in closed and closed.get("type") == "object":
        closed.setdefault("additionalProperties", False)
    return closed


def _sentence(error: Any) -> str:
    causes = "; ".join(cause.message[:200] for cause in error.context or ())
    return f"{error.json_path}: {error.message[:300]}" + (f" ({causes})" if causes else "")
