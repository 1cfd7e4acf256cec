"""Targets for what is decoded into the shapes of the interface, and for what a message is said to be.

As in `targets.py`, where they are put together with the others. Whatever is taken here is used as the server uses it.
"""

import json
import re
from math import isfinite
from typing import Any

import msgspec

from actors.commands import Refusal
from storage.records import BodyKind, InboxRecord, InboxSettings, Retention, TokenRecord
from web import raw
from web.claims import body_kind, redacted_path, said
from web.decoding import from_json, from_query, json_object
from web.errors import MAX_FIELD_CHARS, ApiError
from web.front import _loggable as loggable
from web.front import _origin_form as origin_form
from web.inbox_params import (
    PutSecret,
    apply_patch,
    check_new_secret,
    decode_create,
    decode_patch,
    new_inbox,
    secret_record,
)
from web.mail_params import PullInbox, ReadInbox, StreamInbox, WaitInbox
from web.mesh_params import AckMail, CheckIn, ListRoster, ListSent, ReadMail
from web.pages.bodies import hexdump, is_text
from web.pages.gate import cookies
from web.params import CreateToken, ListTokens, patch_token
from web.publish_params import PlaceBeacon, Publish, TestBeacon
from web.searching import SearchMessages
from web.verify.model import Judgement
from web.verify.registry import SCHEMES

NOW_US = 1_700_000_000_000_000
KEEP = Retention()
UNVERIFIED = Judgement(None, None, "", None)
REDACTED_BYTES = 64

INBOX = InboxRecord(1, "demo", "webhook", "", NOW_US, InboxSettings())
TOKEN = TokenRecord("01ARZ3NDEKTSV4RRFFQ69G5FAV", bytes(32), "agent", ("demo",))

_NAMES = tuple(sorted(SCHEMES))
_QUERIES: tuple[tuple[type[Any], dict[str, str]], ...] = (
    (SearchMessages, {"inbox": "demo"}),
    (ListTokens, {}),
    (ListRoster, {}),
    (ListSent, {}),
    (ReadMail, {"agent_id": "ada"}),
    (ReadInbox, {}),
    (StreamInbox, {}),
)
_BODIES = (Publish, PlaceBeacon, TestBeacon, CheckIn, AckMail, PullInbox, WaitInbox, CreateToken)
_ONE_LINE = re.compile(rb"[\x20-\x7e]+")


def check_refusal(error: ApiError | Refusal) -> None:
    """See that bad input is refused as such: with 400, in words that name no more than a field."""
    assert error.code == "invalid_argument", error
    assert len(error.field or "") <= MAX_FIELD_CHARS, error.field
    if isinstance(error, ApiError):
        assert error.answer().status == 400, error


def asked(data: bytes) -> None:
    """Queries and bodies of the routes. The first byte says which."""
    if not data:
        return
    at, text = data[0], data[1:]
    try:
        if at % 2:
            shape, path = _QUERIES[at // 2 % len(_QUERIES)]
            found = from_query(shape, text, path)
        else:
            found = from_json(_BODIES[at // 2 % len(_BODIES)], text)
    except ApiError as error:
        check_refusal(error)
        return
    match found:
        case SearchMessages():
            assert any(phrase.words for phrase in found.asked().wanted)
        case Publish():
            found.fingerprint()
        case PlaceBeacon() | TestBeacon():
            found.spec("b")
        case ReadInbox():
            found.after_us()
        case CreateToken():
            found.scope()


def settings(data: bytes) -> None:
    """Inboxes and tokens, made and changed; secrets in the syntax of each verifier."""
    if not data:
        return
    name, text = _NAMES[data[0] % len(_NAMES)], data[1:]
    with_verifier = msgspec.structs.replace(INBOX, settings=InboxSettings(verifier=name))
    steps = (
        lambda: new_inbox(decode_create(text, KEEP), slug="demo", default_retention=KEEP, now_us=NOW_US),
        lambda: apply_patch(INBOX, decode_patch(text), KEEP, "https://hooks.example.com"),
        lambda: apply_patch(with_verifier, decode_patch(text), KEEP),
        lambda: patch_token(TOKEN, json_object(text)),
        lambda: check_new_secret(secret_record(from_json(PutSecret, text), NOW_US), with_verifier),
        lambda: check_new_secret(
            secret_record(PutSecret(value=text.decode("latin-1")), NOW_US), with_verifier
        ),
    )
    for step in steps:
        try:
            step()
        except (ApiError, Refusal) as error:
            check_refusal(error)


def claims(data: bytes) -> None:
    """What a message is said to be, and what of it is shown. A body that counts as JSON is so to another decoder."""
    head, _, body = data.partition(b"\n\n")
    target, _, rest = head.partition(b"\n")
    path, _, query = target.partition(b"?")
    headers = [(name, value) for name, colon, value in (line.partition(b": ") for line in rest.split(b"\n"))]
    claimed = said(path, query, headers, UNVERIFIED)
    shown = msgspec.json.decode(claimed)
    assert [name.encode("latin-1") for name, _ in shown["headers"]] == [name.lower() for name, _ in headers]
    assert _ONE_LINE.fullmatch(raw.content_type(claimed))
    if body_kind(body) == BodyKind.JSON:
        json.loads(body, parse_float=_finite, parse_int=_finite, parse_constant=_finite)
    credential = path.lstrip(b"/").partition(b"/")[0]
    assert len(redacted_path(path)) <= len(path) - len(credential) + REDACTED_BYTES
    loggable(origin_form(target))
    for value in cookies([(name.lower(), value) for name, value in headers]):
        assert value.isascii()
    is_text(body)
    hexdump(body[:256])


def _finite(text: str) -> float:
    number = float(text)
    assert isfinite(number), text
    return number
