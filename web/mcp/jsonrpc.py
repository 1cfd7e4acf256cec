"""JSON-RPC 2.0 on the wire: a body becomes a message, an error becomes a body.

The words of the REST errors stand inside: `data: {"code", "field"?}`. What an HTTP status an error gets depends on the
era of the protocol and is decided there.
"""

from typing import Any

import msgspec

from web.decoding import SAFE_INTEGER, unreadable
from web.http import Answer

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
HEADER_MISMATCH = -32020
"""A header says another thing than the body (protocol version 2026-07-28)."""
MISSING_CAPABILITY = -32021
"""A tool needs a capability that the client does not have (protocol version 2026-07-28)."""
UNSUPPORTED_VERSION = -32022
"""The protocol version of a request is not served (protocol version 2026-07-28)."""

_SHOWN_CHARACTERS = 100

encode = msgspec.json.Encoder().encode


class RpcError(Exception):
    """An error in JSON-RPC's shape. The message is for the person at the other end, as in `web.errors.ApiError`."""

    def __init__(
        self, code: int, message: str, *, field: str | None = None, data: dict[str, object] | None = None
    ) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message
        self.field = field
        self.data = data

    def body(self, id_json: bytes, word: str) -> bytes:
        """Return the body. `word`: the code of the REST errors that stands inside, unless the error has other data."""
        data = self.data
        if data is None:
            data = {"code": word} if self.field is None else {"code": word, "field": self.field}
        error = {"code": self.code, "message": self.message, "data": data}
        return b'{"jsonrpc":"2.0","id":%b,"error":%b}' % (id_json, encode(error))


class Message(msgspec.Struct, frozen=True, gc=False):
    """A request, or a notification when `id_json` is None. `params` may still be anything."""

    method: str
    params: Any
    id_json: bytes | None


class _Arguments(msgspec.Struct):
    arguments: dict[str, msgspec.Raw] | None = None


class _Call(msgspec.Struct):
    params: _Arguments


_call = msgspec.json.Decoder(_Call)


class Malformed(Exception):
    """A body that is no message; `id_json` is `null` unless a usable id was found in it."""

    def __init__(self, error: RpcError, id_json: bytes = b"null") -> None:
        super().__init__(str(error))
        self.error = error
        self.id_json = id_json

    def answer(self) -> Answer:
        """Return 400."""
        return Answer(400, self.error.body(self.id_json, "invalid_argument"))


def parse(body: bytes) -> Message:
    """Return the message of a body. Raises `Malformed`.

    All of it is decoded: a body with invalid UTF-8 or a number beyond a double anywhere is no JSON for us. Nor is one
    with a member that is there twice a request, because readers differ in which of the two they take; but for what is
    in `payload` of a tool, which is kept as it came (`kept_payload`).
    """
    try:
        value = msgspec.json.decode(body)
        has_repeats = _has_repeats(body, value)
    except (msgspec.DecodeError, RecursionError) as error:
        raise Malformed(RpcError(PARSE_ERROR, f"The body {unreadable(error)}.")) from None
    if has_repeats:
        raise _invalid("Some member is there twice.")
    if isinstance(value, list):
        raise _invalid("Batches are not taken: send one request in each POST.")
    if not isinstance(value, dict):
        raise _invalid("The body must be a JSON-RPC request, which is an object.")
    id_json = _id(value)
    if value.get("jsonrpc") != "2.0":
        raise _invalid('jsonrpc must be "2.0".', "jsonrpc", id_json)
    method = value.get("method")
    if not isinstance(method, str):
        raise _invalid("method must be the name of a method.", "method", id_json)
    if id_json is None and not method.startswith("notifications/"):
        # It would have to be dropped without a word, and with it what its sender believes to have done.
        raise _invalid(f"{shown(method)} needs an id: only notifications/… come without one.", "id")
    return Message(method, value.get("params"), id_json)


def kept_payload(body: bytes) -> bytes | None:
    """Return the argument `payload` of a call in the bytes that it came in; None when it has none. Raises
    `RecursionError`, also for what `parse` has read: how deep is too deep depends on where it is called.
    """
    try:
        arguments = _call.decode(body).params.arguments or {}
    except msgspec.ValidationError:  # some other message
        return None
    return bytes(arguments["payload"]) if "payload" in arguments else None


def shown(text: str) -> str:
    """Return text of the client as an error may repeat it."""
    return text if len(text) <= _SHOWN_CHARACTERS else text[: _SHOWN_CHARACTERS - 1] + "…"


def _has_repeats(body: bytes, value: Any) -> bool:
    """Whether some member outside the payload is there twice: of two of one name the decoder has kept one."""
    lost = _strings(body) - _strings(encode(value))
    payload = kept_payload(body) if lost else None
    if payload is None:
        return lost > 0
    # Whatever is lost outside makes this more than nothing, also when the payload itself is there twice.
    return lost > _strings(payload) - _strings(encode(msgspec.json.decode(payload)))


def _strings(json: bytes) -> int:
    """Return how many quotes valid JSON has that are not escaped: two for each string. (Pairs of backslashes go first,
    from the left, so a quote that still has one before it is escaped.)
    """
    return json.replace(b"\\\\", b"").replace(b'\\"', b"").count(b'"')


def _id(value: dict[str, Any]) -> bytes | None:
    if "id" not in value:
        return None
    given = value["id"]
    # 1.0 is a whole number and is answered as it came; one so large that readers differ about it is not.
    whole = isinstance(given, float) and given % 1 == 0 and abs(given) <= SAFE_INTEGER
    if isinstance(given, bool) or not (whole or isinstance(given, (str, int))):
        raise _invalid("id must be a string or a whole number.", "id")
    return encode(given)


def _invalid(message: str, field: str | None = None, id_json: bytes | None = None) -> Malformed:
    return Malformed(RpcError(INVALID_REQUEST, message, field=field), id_json or b"null")
