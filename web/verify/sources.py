"""What a sender claims a message to be: its delivery id and its event type, from head or body.

A header of the delivery id that is there several times gives none: no message may be taken for another's repetition
because two readers would pick different ones.
"""

from collections.abc import Mapping
from functools import lru_cache

from web.verify.forms import FieldReader
from web.verify.model import BodySource, Judgement, Values
from web.verify.paths import Path, PathReader
from web.verify.template import Source, Sources

MAX_EVENT_TYPE_CHARS = 200
"""A longer event type counts as none: no filter could name it."""

MAX_DELIVERY_ID_CHARS = 1_024
"""A longer delivery id counts as none: providers' ids are some 40 characters."""


MAX_KEPT = 256
"""Sources whose claims are kept: those of the providers, and those that users have written themselves."""


class Claims:
    """Finds the delivery id and the event type, in the head and where configured in the body."""

    def __init__(self, sources: Sources) -> None:
        self._delivery_id = sources.find("delivery_id")
        self._event_type = sources.find("event_type")
        both = (*self._delivery_id, *self._event_type)
        self.headers = frozenset(source.name for source in both if source.kind == "header")
        paths = tuple(dict.fromkeys(source.path for source in both if source.kind == "body"))
        names = tuple(dict.fromkeys(source.name.decode() for source in both if source.kind == "form"))
        self._paths = PathReader(paths) if paths else None
        self._fields = FieldReader(names) if names else None

    def judgement(
        self, verified: bool | None, error: str | None, values: Values, body: BodySource
    ) -> Judgement:
        """Return the judgement with what the sender claims. The body is read only if a place in it asks for it."""
        found: Mapping[Path, str] = {}
        fields: Mapping[str, str] = {}
        if self._paths is not None or self._fields is not None:
            content = body.whole()
            if self._paths is not None:
                found = self._paths.read(content)
            if self._fields is not None:
                fields = self._fields.read(content)
        event_type = _first(self._event_type, values, found, fields)
        delivery_id = _first(self._delivery_id, values, found, fields, repeated="")
        return Judgement(
            verified=verified,
            error=error,
            event_type=event_type if len(event_type) <= MAX_EVENT_TYPE_CHARS else "",
            delivery_id=delivery_id if 0 < len(delivery_id) <= MAX_DELIVERY_ID_CHARS else None,
        )


claims_of = lru_cache(MAX_KEPT)(Claims)
"""Returns the `Claims` of sources; most inboxes share those of their provider."""


def _first(
    sources: tuple[Source, ...],
    values: Values,
    found: Mapping[Path, str],
    fields: Mapping[str, str],
    repeated: str | None = None,
) -> str:
    """Return the first text that is there; `repeated` instead of a header that is there several times, None for the
    first of its values.
    """
    for source in sources:
        if source.kind == "header":
            if repeated is not None and len(values.get(source.name, ())) > 1:
                return repeated
            text = values[source.name][0].decode("latin-1") if source.name in values else ""
        elif source.kind == "form":
            text = fields.get(source.name.decode(), "")
        else:
            text = found.get(source.path, "")
        if text:
            return text
    return ""
