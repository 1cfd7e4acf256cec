"""Bodies for trying a handler: a provider's kind of body with an event type and a delivery id in their places."""

from typing import Any
from urllib.parse import parse_qsl, urlencode

import msgspec

from web.errors import invalid
from web.verify.forms import MEDIA_TYPE
from web.verify.paths import Path
from web.verify.schemes import Sample, Wanted
from web.verify.template import Source, Sources

JSON = "application/json"
FORM = MEDIA_TYPE.decode()


class Base(msgspec.Struct, frozen=True):
    """What a sample is made from: a body as text, and its content type."""

    body: str = '{"message":"A sample from Postroom"}'
    content_type: str = JSON


JSON_BASE = Base()
FORM_BASE = Base("message=A+sample+from+Postroom", FORM)


def fill(
    name: str, base: Base, sources: Sources, wanted: Wanted, stamp: tuple[Source, int] | None = None
) -> Sample:
    """Return the base with what is wanted in the first of its places, where that is in the body.

    `stamp` is a further place and the number to put there. Raises `ApiError` (field `event_type`) when the verifier
    `name` has no place for an event type.
    """
    places = []
    event_type, delivery_id = sources.find("event_type"), sources.find("delivery_id")
    if wanted.event_type is not None:
        if not event_type:
            raise invalid("event_type", f"Messages of the verifier {name} have no event type.")
        places.append((event_type[0], wanted.event_type))
    if wanted.delivery_id is not None and delivery_id:
        places.append((delivery_id[0], wanted.delivery_id))
    if base == JSON_BASE and any(source.kind == "form" for source, _ in places):
        base = FORM_BASE  # of a verifier that any sender may use, and this one's are forms
    if base.content_type == FORM:
        return _form(base, places)
    values: list[tuple[Path, str | int]] = [(at.path, text) for at, text in places if at.kind == "body"]
    if stamp is not None:
        values.append((stamp[0].path, stamp[1]))
    if not values:
        return Sample(base.body.encode(), base.content_type)
    root: Any = msgspec.json.decode(base.body)
    for path, value in values:
        root = _put(root, path, value)
    return Sample(msgspec.json.encode(root), base.content_type)


def _form(base: Base, places: list[tuple[Source, str]]) -> Sample:
    fields = dict(parse_qsl(base.body, keep_blank_values=True))
    fields.update((source.name.decode(), text) for source, text in places if source.kind == "form")
    return Sample(urlencode(fields).encode(), base.content_type)


def _put(root: Any, path: Path, value: Any) -> Any:
    """Return the value with another one at a path; what is not there is made. A number stays one."""
    if not path:
        whole = isinstance(root, int) and isinstance(value, str) and value.isascii() and value.isdecimal()
        return int(value) if whole else value
    step, rest = path[0], path[1:]
    if isinstance(step, str):
        inner = root if isinstance(root, dict) else {}
        return {**inner, step: _put(inner.get(step), rest, value)}
    index = max(step, 0)  # the only element is the first
    items = list(root) if isinstance(root, list) else []
    items += [{} for _ in range(index + 1 - len(items))]
    items[index] = _put(items[index], rest, value)
    return items
