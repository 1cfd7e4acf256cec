"""Routes as operations of the document: a name, and what the docstrings of handlers and forms say, for the caller.

A docstring is written for who reads the code. What of it is not the caller's business is left out: the route or tool
that it begins with, what is raised, where in the code or in a plan something is told.
"""

import re
from collections.abc import Callable, Iterable
from inspect import cleandoc
from typing import Any

import msgspec

from web.openapi.about import About
from web.routes import Route

_HEADING = re.compile(r"`[^`]+`(?:(?:, and|,| and) `[^`]+`)*[:.]\s*(?:\d{3}(?:[.;]| with)\s*)?")
"""Such as "`DELETE /v1/machines/{name}`: 204." or "`GET …/messages`, `query_messages`:"."""

_INSIDE = re.compile(r" \((?:surface|study)[^)]*\)")
_OURS = re.compile(r"^Raises |`(?:web|actors|storage|postroom)[./]|\bRaises `")
_SENTENCE = re.compile(r"(?<=[.:])\s+(?=[A-Z`(])")


class Operation(msgspec.Struct, frozen=True):
    """One operation. `text`: what it does, in sentences."""

    method: str
    template: str
    name: str
    text: str
    about: About

    @property
    def key(self) -> str:
        """What it is called in tables: method and path."""
        return f"{self.method} {self.template}"

    @property
    def title(self) -> str:
        """Its name as a heading."""
        return self.name.replace("_", " ").capitalize()


def operation(method: str, template: str, handler: Callable[..., Any], about: About) -> Operation:
    """Return what answers a path as an operation; its words are the docstring."""
    name = about.name or handler.__name__
    return Operation(method, template, name, prose(handler.__doc__), about)


def operations(routes: Iterable[Route]) -> tuple[Operation, ...]:
    """Return those routes of a table that are in the document."""
    return tuple(
        operation(route.method, route.template, route.handler, route.about)
        for route in routes
        if route.about is not None
    )


def prose(docstring: str | None) -> str:
    """Return a docstring as sentences for who calls; empty when nothing is left."""
    text = " ".join(cleandoc(docstring or "").split())
    text = _INSIDE.sub("", _HEADING.sub("", text, count=1) if _HEADING.match(text) else text)
    kept = " ".join(sentence for sentence in _SENTENCE.split(text) if not _OURS.search(sentence))
    return kept[:1].upper() + kept[1:]
