"""How the documentation is built: `make docs`, into `build/docs`, where every warning is an error.

The pages are plain Markdown that a code host shows as it is. What the site adds is made while it is built: its table of
contents from `index.md`, and the reference of every route from the OpenAPI document. It loads nothing from other hosts.
"""

import logging
import sys
from importlib.metadata import version as installed
from pathlib import Path

import msgspec
import structlog
import trio
from pygments.lexers import TextLexer
from sphinx.application import Sphinx

DOCS = Path(__file__).parent
sys.path[:0] = [str(DOCS), str(DOCS.parent)]

from site_parts import console, contents, routes  # noqa: E402 - after the path that they are on

from tests.postroom.fronts import front  # noqa: E402 - after the path that it is on

structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))

project = "Postroom"
author = "the authors of Postroom"
release = version = installed("postroom")

extensions = ["myst_parser"]
exclude_patterns = ["site_parts"]
nitpicky = True

myst_heading_anchors = 4
"""Down to which level a heading can be linked, by the name that code hosts give it."""

highlight_language = "text"
"""Of blocks that are indented, which say nothing of what they are."""

html_theme = "furo"
html_title = "Postroom"
html_static_path = ["site_parts/static"]
html_css_files = ["postroom.css"]
html_show_copyright = False
html_show_sphinx = False
html_copy_source = False

ROUTES = "<!-- routes -->\n"
"""Where the reference of every route goes, on the page of that name."""


def completed(app: Sphinx, page: str, source: list[str]) -> None:
    """Put into a page what is made while the site is built."""
    if page == "index":
        source[0] = contents.with_contents(source[0])
    elif ROUTES in source[0]:
        document = msgspec.json.decode(trio.run(front).document.encoded)
        source[0] = source[0].replace(ROUTES, routes.reference(document))


def setup(app: Sphinx) -> None:
    """Add what these pages need."""
    app.add_lexer("console", console.ConsoleLexer)
    app.add_lexer("caddyfile", TextLexer)  # Pygments has none
    app.connect("source-read", completed)
