"""What the pages about the API say, for the document: examples, when which error comes, and what a member means where
its definition does not say so.

`page.json` is made of that page (`python -m tests.postroom.api_page`) and is a part of the package. So nothing is told
in two places: the page's examples are run by a test, its tables are held to the definitions, and another test says when
the file is no longer the page's.
"""

from collections.abc import Mapping
from importlib import resources
from typing import Any

import msgspec

Json = dict[str, Any]

TOLD_WITH = {
    "SettingsForm": "CreateInbox",
    "ChangeToken": "CreateToken",
    "CheckOut": "CheckIn",
    "EraseMessage": "GetMessage",
}
"""Forms without a table of their own, and whose it is that has their members."""


class Example(msgspec.Struct, frozen=True):
    """Of one operation: a body that is sent, if any, and answers by status."""

    request: Json | None = None
    answers: dict[str, Json] = {}


class ApiPage(msgspec.Struct, frozen=True):
    """`examples` by method and path; `errors`, an example each, and `codes`, when they come, by code; `words` by form
    and member.
    """

    examples: dict[str, Example] = {}
    errors: dict[str, Json] = {}
    codes: dict[str, str] = {}
    words: dict[str, dict[str, str]] = {}

    def example(self, key: str) -> Example:
        """Return what is shown of an operation."""
        return self.examples.get(key, Example())

    def words_of(self, form: str) -> Mapping[str, str]:
        """Return what the members of a form mean."""
        return self.words.get(form) or self.words.get(TOLD_WITH.get(form, ""), {})


def api_page() -> ApiPage:
    """Return what the page says."""
    return msgspec.json.decode(resources.files(__package__).joinpath("page.json").read_bytes(), type=ApiPage)
