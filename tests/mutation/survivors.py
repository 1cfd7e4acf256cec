"""The mutants that are known to survive, each with the reason, as `survivors.toml` lists them."""

import tomllib
from pathlib import Path

from tests.mutation.mutants import Change

LIST = Path(__file__).with_name("survivors.toml")


def listed() -> dict[Change, str]:
    """Return the reason for each survivor that is known; raises ValueError for one that is listed twice."""
    reasons: dict[Change, str] = {}
    for module, survivors in tomllib.loads(LIST.read_text()).items():
        for one in survivors:
            change = Change(module, one["function"], one["was"], one["becomes"])
            if change in reasons:
                raise ValueError(f"{change} is listed twice")
            reasons[change] = one["reason"]
    return reasons


def entry(change: Change) -> str:
    """Return a survivor as the list has it, without its reason."""
    lines = [f'[["{change.module}"]]']
    lines += [f"{key} = {_quoted(getattr(change, key))}" for key in ("function", "was", "becomes")]
    return "\n".join(lines)


def _quoted(text: str) -> str:
    if "'" not in text:
        return f"'{text}'"
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
