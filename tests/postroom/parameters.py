"""Parameters as the documentation shows them: name, range, default, from the very structs that decode them."""

from typing import Any

import msgspec
from msgspec import inspect

from web.agents import CreateAgent, ListAgents
from web.decoding import MAX_SEQ, SAFE_INTEGER
from web.grammar import INBOX_PATTERN, NAME_PATTERN, SLUG_PATTERN, ULID_PATTERN
from web.inbox_params import CreateInbox, PutSecret, ResponseForm, RetentionForm
from web.machines import CreateMachine, ListMachines
from web.mail_params import PullInbox, ReadInbox, StreamInbox, WaitInbox
from web.mesh_params import AckMail, CheckIn, ListRoster, ListSent, ReadMail, SendMail, Wake
from web.params import (
    CreateToken,
    GetMessage,
    ListInboxes,
    ListTokens,
    QueryMessages,
    StreamInboxes,
    StreamMessages,
    WaitForMessages,
)
from web.publish_params import PlaceBeacon, Publish, TestBeacon
from web.samples import SendSample
from web.searching import SearchMessages
from web.verify.template import Template

FORMS: dict[str, type[msgspec.Struct]] = {
    "hmac": Template,
    "response": ResponseForm,
    "ListInboxes": ListInboxes,
    "QueryMessages": QueryMessages,
    "SearchMessages": SearchMessages,
    "GetMessage": GetMessage,
    "WaitForMessages": WaitForMessages,
    "StreamMessages": StreamMessages,
    "StreamInboxes": StreamInboxes,
    "PullInbox": PullInbox,
    "WaitInbox": WaitInbox,
    "StreamInbox": StreamInbox,
    "ReadInbox": ReadInbox,
    "Publish": Publish,
    "PlaceBeacon": PlaceBeacon,
    "TestBeacon": TestBeacon,
    "CheckIn": CheckIn,
    "wake": Wake,
    "ListRoster": ListRoster,
    "SendMail": SendMail,
    "ReadMail": ReadMail,
    "AckMail": AckMail,
    "ListSent": ListSent,
    "CreateInbox": CreateInbox,
    "retention": RetentionForm,
    "PutSecret": PutSecret,
    "SendSample": SendSample,
    "CreateToken": CreateToken,
    "ListTokens": ListTokens,
    "CreateAgent": CreateAgent,
    "ListAgents": ListAgents,
    "CreateMachine": CreateMachine,
    "ListMachines": ListMachines,
}
"""By the name of its table in the pages about the API, in their order."""

IN_THE_PATH = "inbox"
"""The one parameter that stands in a path under another name, as `{slug}`."""

_PATTERNS = {
    SLUG_PATTERN: "a slug",
    INBOX_PATTERN: "a slug",
    NAME_PATTERN: "a name",
    ULID_PATTERN: "an id of a message",
}
_LIMITS = {MAX_SEQ: "2^63 − 1", SAFE_INTEGER: "2^53 − 1"}


def rows(form: type[msgspec.Struct]) -> list[list[str]]:
    """Return the first three cells of each row of a form's table."""
    described = inspect.type_info(form)
    assert isinstance(described, inspect.StructType)
    return [
        [f"`{field.name}`", accepts(field.type), default(field)]
        for field in described.fields
        if field.name != IN_THE_PATH
    ]


def accepts(kind: inspect.Type) -> str:
    """Return in words what a type accepts; null, which stands for the default everywhere, is left out."""
    match kind:
        case inspect.Metadata(extra_json_schema={"format": "date-time"}):
            return "a time"
        case inspect.Metadata(type=inner):
            return accepts(inner)
        case inspect.UnionType(types=types):
            words_first = sorted(types, key=lambda one: not isinstance(one, inspect.LiteralType))
            return " or ".join(accepts(one) for one in words_first if not isinstance(one, inspect.NoneType))
        case inspect.BoolType():
            return "`true` or `false`"
        case inspect.IntType(ge=low, le=high) if high is not None:
            return f"{low} to {_LIMITS.get(high, f'{high:,}')}"
        case inspect.IntType():
            return "a whole number"
        case inspect.FloatType(ge=low, le=high):
            return f"a number from {low} to {high}"
        case inspect.StrType(pattern=pattern) if pattern is not None:
            return _PATTERNS[pattern]
        case inspect.StrType(max_length=length):
            return "text" if length is None else f"text of at most {length:,} characters"
        case inspect.LiteralType(values=values):
            return " or ".join(", ".join(f"`{value}`" for value in values).rsplit(", ", 1))
        case inspect.VarTupleType(item_type=item, max_length=length):
            return (
                f"a list of {accepts(item)}" if length is None else f"up to {length:,}, each {accepts(item)}"
            )
        case inspect.DictType() | inspect.StructType():
            return "an object"
        case inspect.AnyType():
            return "any JSON"
    raise TypeError(f"no words for {kind}")


def default(field: inspect.Field) -> str:
    """Return a field's default as JSON would have it, `–` for nothing."""
    if field.required:
        return "required"
    value: Any = field.default
    if value is inspect.NODEFAULT or value in (None, "", ()):
        return "–"
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return f"`{value}`" if isinstance(value, str) else f"`{msgspec.json.encode(value).decode()}`"
