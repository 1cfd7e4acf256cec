"""HTML from templates. Everything that is filled in is escaped, whatever it is; there is no way around it here.

Pure but for the files of the templates, which are read once each. What strangers wrote goes through the filter
`visible` first: characters that control, or that change the order of what is read, are shown as what they are.
"""

import json
import unicodedata
from collections.abc import Mapping
from typing import Any

import jinja2
import msgspec

from web.http import Answer

HTML = b"text/html; charset=utf-8"

POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data:",
        "connect-src 'self'",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
        # Text can become markup in no script of the page: browsers that know these two refuse every such assignment.
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    )
)
"""What the page may load and do: its own files, its own forms, and nothing inline."""

SAFETY_HEADERS: tuple[tuple[bytes, bytes], ...] = (
    (b"content-security-policy", POLICY.encode()),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    # Not no-referrer: with that, forms are sent with `Origin: null`.
    (b"referrer-policy", b"same-origin"),
    (b"x-frame-options", b"DENY"),
)

_HIDDEN = frozenset("\u034f\u115f\u1160\u3164\uffa0")
_LEFT_ALONE = frozenset(
    "\u200c\u200d\u0600\u0601\u0602\u0603\u0604\u0605\u06dd\u070f\u0890\u0891\u08e2\U000110bd\U000110cd"
)
"""Format characters (Cf) that letters are written with."""
_TAGS = range(0xE0000, 0xE1000)
"""Tags and further variants, in rows of which a text can be hidden."""
_ACTING = frozenset({"Cc", "Cs", "Zl", "Zp", "Cf"})
"""Controls, lone surrogates, line and paragraph separators, and what is not seen or reorders."""
_PICTURES = 0x2400
"""Where Unicode has pictures of the control characters."""

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")
_STEP = 1024


def visible(value: object, lines: bool = False) -> str:
    """Return text in which nothing acts or hides; `lines` keeps line feeds and tabs, for a body."""
    text = str(value)
    if text.isascii() and text.isprintable():
        return text
    kept = "\n\t" if lines else ""
    return "".join(c if c in kept else _shown(c) for c in text)


def escaped_json(value: object) -> str:
    """Return JSON in which what `visible` would show is escaped: nothing in it acts or hides, and it means the same."""
    text = msgspec.json.encode(value).decode()
    if text.isascii() and text.isprintable():
        return text
    return "".join(c if visible(c) == c else json.dumps(c)[1:-1] for c in text)


def human_bytes(count: int | None) -> str:
    """Return a size for people: `512 B`, `1.4 MiB`."""
    if count is None:
        return "no limit"
    size, unit = float(count), 0
    while size >= _STEP and unit < len(_UNITS) - 1:
        size, unit = size / _STEP, unit + 1
    return f"{count} B" if unit == 0 else f"{size:,.1f} {_UNITS[unit]}"


def human_seconds(seconds: float | None) -> str:
    """Return a duration for people, in its largest unit that says it well: `45 s`, `12 min`, `30 days`."""
    if seconds is None:
        return "no limit"
    for size, unit in ((86_400, "day"), (3_600, "h"), (60, "min")):
        if seconds >= 2 * size or seconds == size:
            count = round(seconds / size)
            return f"{count:,} {unit}s" if unit == "day" and count > 1 else f"{count:,} {unit}"
    return f"{seconds:,.0f} s"


def thousands(count: int) -> str:
    """Return a number with its digits grouped."""
    return f"{count:,}"


class Templates:
    """The templates of `web/pages/templates`."""

    def __init__(self, **globals_: Any) -> None:
        """`globals_` are there in every template."""
        self._environment = jinja2.Environment(
            loader=jinja2.PackageLoader(__package__),
            autoescape=True,
            undefined=jinja2.StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
            auto_reload=False,
        )
        self._environment.filters.update(
            visible=visible,
            bytes=human_bytes,
            seconds=human_seconds,
            thousands=thousands,
            json=escaped_json,
        )
        self._environment.globals.update(globals_)

    def answer(
        self,
        name: str,
        values: Mapping[str, Any],
        *,
        status: int = 200,
        headers: tuple[tuple[bytes, bytes], ...] = (),
    ) -> Answer:
        """Return a page. Raises `jinja2.UndefinedError` when a template wants what it was not given: a slip of ours."""
        text = self._environment.get_template(name).render(values)
        # Of a lone surrogate `visible` shows the number; one that slipped past it must not cost the page.
        return Answer(status, text.encode("utf-8", "replace"), HTML, (*SAFETY_HEADERS, *headers))


def _shown(character: str) -> str:
    code = ord(character)
    if character in _HIDDEN or code in _TAGS:
        return f"⟨U+{code:04X}⟩"
    if character in _LEFT_ALONE or unicodedata.category(character) not in _ACTING:
        return character
    if code < 0x20:
        return chr(_PICTURES + code)
    return "\u2421" if code == 0x7F else f"⟨U+{code:04X}⟩"
