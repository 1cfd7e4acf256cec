"""Forms of the page as they are sent: fields by name, and what they become in a body of REST.

A field has the name of the member that it fills, with dots for members within (`retention.max_messages`), so that a
refusal of REST, which names its field, is shown beside the very input.
"""

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import parse_qsl

from web.errors import ApiError

MAX_FIELDS = 200
FORM_TYPE = b"application/x-www-form-urlencoded"

Fields = Mapping[str, Sequence[str]]


class Filled(dict[str, str]):
    """What a form is filled in with; empty where nothing is."""

    def __missing__(self, name: str) -> str:
        return ""


class Form:
    """The fields of one form. Texts come without blanks at their ends; browsers' CR LF is a line feed."""

    def __init__(self, fields: Fields) -> None:
        self._fields = fields

    def text(self, name: str) -> str:
        """Return a field's text, empty when it was not filled in or is not there."""
        values = self._fields.get(name)
        return values[0] if values else ""

    def shown(self, *hidden: str) -> Filled:
        """Return the fields as a form shows them again, without those that are secret."""
        return Filled(
            {name: values[0] for name, values in self._fields.items() if values and name not in hidden}
        )

    def texts(self, name: str) -> list[str]:
        """Return all values of a field that may be there several times, without the empty ones."""
        return [value for value in self._fields.get(name, ()) if value]

    def checked(self, name: str) -> bool:
        """Whether a box is ticked."""
        return name in self._fields

    def words(self, name: str) -> list[str]:
        """Return what a field lists, separated by commas or blanks."""
        return self.text(name).replace(",", " ").split()

    def lines(self, name: str) -> list[str]:
        """Return what a field lists, one in a line or separated by commas."""
        parts = self.text(name).replace(",", "\n").split("\n")
        return [part.strip() for part in parts if part.strip()]


def decode(body: bytes) -> Form:
    """Read a form. Raises `ApiError` `invalid_argument` for a body that is none."""
    try:
        pairs = parse_qsl(
            body.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=MAX_FIELDS
        )
    except ValueError:
        raise ApiError("invalid_argument", "The body is not a form as the page sends it.") from None
    fields: dict[str, list[str]] = {}
    for name, value in pairs:
        fields.setdefault(name, []).append(value.replace("\r\n", "\n").strip())
    return Form(fields)


def nested(members: Mapping[str, Any]) -> dict[str, Any]:
    """Return members whose names have dots as objects: `{"a.b": 1}` becomes `{"a": {"b": 1}}`."""
    made: dict[str, Any] = {}
    for name, value in members.items():
        *outer, last = name.split(".")
        place = made
        for part in outer:
            place = place.setdefault(part, {})
        place[last] = value
    return made
