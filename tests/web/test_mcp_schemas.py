"""Schemas of tools: plain words, nothing but an object at the root, and made of the very parameters that decide."""

import json
from typing import Annotated, Any

import msgspec
import pytest
from msgspec import Meta

from web.decoding import MAX_SEQ, from_object
from web.errors import ApiError
from web.mail_params import PullInbox, ReadInbox
from web.mcp.schemas import bare, input_schema, output_schema, without_words
from web.mcp.shapes import ForwardPage, Inboxes, Message, Page
from web.params import GetMessage, QueryMessages, WaitForMessages

FORMS = (QueryMessages, GetMessage, WaitForMessages, PullInbox, ReadInbox)
SHAPES = (Inboxes, Page, ForwardPage, Message)


class Inner(msgspec.Struct):
    """An object in an object."""

    title: str
    format: Annotated[str, Meta(max_length=5)] | None = None


class Outer(msgspec.Struct):
    """What has members that are called like keywords."""

    inner: Inner
    many: list[Inner] = []
    pair: tuple[str, int] | None = None
    default: int = 0


@pytest.mark.parametrize("form", FORMS)
def test_an_input_is_an_object_without_further_members(form: type[msgspec.Struct]) -> None:
    schema = input_schema(form)
    assert schema["type"] == "object"
    assert schema["additionalProperties"] is False
    assert list(schema["properties"]) == list(form.__struct_fields__)
    assert schema.get("required", []) == [
        field.encode_name for field in msgspec.structs.fields(form) if field.required
    ]
    assert "null" not in json.dumps(schema)


@pytest.mark.parametrize("form", FORMS)
def test_a_bound_of_a_schema_is_the_bound_that_is_enforced(form: type[msgspec.Struct]) -> None:
    needed: dict[str, Any] = {"inbox": "demo", "after": 0, "seq": 1}
    least = {name: needed[name] for name in input_schema(form).get("required", [])}
    for name, member in input_schema(form)["properties"].items():
        if member["type"] != "integer":
            continue
        highest = member.get("maximum", MAX_SEQ)
        for inside in (member["minimum"], highest):
            from_object(form, {**least, name: inside})
        for outside in (member["minimum"] - 1, highest + 1):
            with pytest.raises(ApiError, match=r"Expected a whole number"):
                from_object(form, {**least, name: outside})


def test_members_that_are_called_like_keywords_stay() -> None:
    schema = output_schema(Outer)
    assert schema["properties"]["inner"] == {
        "type": "object",
        "properties": {"title": {"type": "string"}, "format": {"type": ["string", "null"]}},
        "required": ["title"],
    }
    assert schema["properties"]["many"]["items"] == schema["properties"]["inner"]
    assert schema["properties"]["default"] == {"type": "integer", "default": 0}
    assert schema["properties"]["pair"]["type"] == ["array", "null"]


@pytest.mark.parametrize("shape", SHAPES)
def test_a_later_member_still_validates(shape: type[msgspec.Struct]) -> None:
    assert "additionalProperties" not in json.dumps(output_schema(shape))


def test_a_neighbour_s_schema_goes_without_what_the_other_one_says() -> None:
    schema = input_schema(QueryMessages)
    unsaid = without_words(schema, "since")
    assert list(unsaid["properties"]) == list(schema["properties"])
    assert [name for name, member in unsaid["properties"].items() if "description" in member] == ["since"]
    assert unsaid["properties"]["limit"] == schema["properties"]["limit"]
    assert bare(schema)["properties"]["types"] == {"type": "array", "items": {"type": "string"}}
    assert bare(schema)["properties"]["limit"] == {"type": "integer"}
