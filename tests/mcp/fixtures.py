"""The tools that the official conformance suite calls by fixed names, as tools of Postroom's own endpoint."""

from base64 import b64encode
from collections.abc import Sequence
from typing import Any

from web.mcp.jsonrpc import MISSING_CAPABILITY, RpcError, encode
from web.mcp.result import Outcome, failed
from web.mcp.tools import Arguments, Call, Hints, Run, Tool

HINTS = Hints(read_only_hint=True, destructive_hint=False, idempotent_hint=True, open_world_hint=False)

NO_ARGUMENTS = {"type": "object", "properties": {}, "additionalProperties": False}

SCHEMA_2020_12 = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }
    },
    "properties": {
        "name": {"type": "string"},
        "address": {"$ref": "#/$defs/address"},
        "contactMethod": {"type": "string", "enum": ["phone", "email"]},
        "phone": {"type": "string"},
        "email": {"type": "string"},
    },
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}
"""What the scenario `json-schema-2020-12` looks for in the listing, keyword by keyword."""

PNG = b64encode(
    bytes.fromhex(
        "89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c4890000000d49444154789c6360"
        "f8cfc0000003010100c9fe92ef0000000049454e44ae426082"
    )
).decode()
WAV = b64encode(
    b"RIFF\x24\x00\x00\x00WAVEfmt \x10\x00\x00\x00\x01\x00\x01\x00\x40\x1f\x00\x00\x80\x3e\x00\x00\x02\x00\x10\x00data"
    + bytes(4)
).decode()

TEXT = {"type": "text", "text": "This is a simple text response for testing."}
IMAGE = {"type": "image", "data": PNG, "mimeType": "image/png"}
AUDIO = {"type": "audio", "data": WAV, "mimeType": "audio/wav"}
RESOURCE = {
    "type": "resource",
    "resource": {
        "uri": "test://embedded-resource",
        "mimeType": "text/plain",
        "text": "An embedded resource.",
    },
}


def fixture_tools() -> Sequence[Tool]:
    """Return the tools."""
    return (
        _tool("test_simple_text", _returning(TEXT)),
        _tool("test_image_content", _returning(IMAGE)),
        _tool("test_audio_content", _returning(AUDIO)),
        _tool("test_embedded_resource", _returning(RESOURCE)),
        _tool("test_multiple_content_types", _returning(TEXT, IMAGE, RESOURCE)),
        _tool("test_error_handling", _fail),
        _tool("json_schema_2020_12_tool", _returning(TEXT), SCHEMA_2020_12),
        _tool("test_missing_capability", _miss),
        _tool("test_streaming_elicitation", _returning(TEXT)),
        _tool("test_logging_tool", _returning(TEXT)),
    )


def _tool(name: str, run: Run, schema: dict[str, Any] = NO_ARGUMENTS) -> Tool:
    description = "A fixture of the conformance suite."
    return Tool(name=name, title=name, description=description, hints=HINTS, input_schema=schema, run=run)


def _returning(*blocks: dict[str, Any]) -> Run:
    content = b'"content":%b' % encode(blocks)

    async def run(call: Call, arguments: Arguments) -> Outcome:
        return Outcome((content,))

    return run


async def _fail(call: Call, arguments: Arguments) -> Outcome:
    return failed("This tool intentionally returns an error for testing")


async def _miss(call: Call, arguments: Arguments) -> Outcome:
    """Refuse as a tool that must have a model at the other end to ask; no client of the suite declares one."""
    data: dict[str, object] = {"requiredCapabilities": {"sampling": {}}}
    raise RpcError(MISSING_CAPABILITY, "This tool needs the capability sampling.", data=data)
