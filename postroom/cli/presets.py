"""The names of verifiers as an option: checked and completed from the table that the server itself verifies with."""

from difflib import get_close_matches
from typing import Any

import click
from click.shell_completion import CompletionItem


def names() -> list[str]:
    """Return every name that an inbox's verifier may have, aliases included, in alphabetical order."""
    # Imported here: most commands do not need the verifiers.
    from web.verify.registry import SCHEMES

    return sorted(SCHEMES)


class Preset(click.ParamType[Any]):
    """The name of a verifier. `signing`: only of those that have something to sign with, which `none` has not."""

    name = "PRESET"

    def __init__(self, *, signing: bool = False) -> None:
        self._signing = signing

    def names(self) -> list[str]:
        """Return the names that are taken."""
        return [name for name in names() if not (self._signing and name == "none")]

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the name. Fails for an unknown one, with those that look like it."""
        known = self.names()
        if value not in known:
            close = get_close_matches(value.lower(), known)
            hint = f" Did you mean {' or '.join(close)}?" if close else ""
            self.fail(f"{value!r} is not a verifier.{hint} `postroom verifiers` lists them.", param, ctx)
        return value

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """Return the names that begin so, for completion in a shell."""
        return [CompletionItem(name) for name in self.names() if name.startswith(incomplete)]
