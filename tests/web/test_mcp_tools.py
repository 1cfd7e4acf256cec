"""Who sees which tools, and that a tool that is not seen is one that there is not."""

import msgspec
import pytest

from storage.records import TokenKind, TokenRecord
from web.auth import Principal
from web.mcp.result import Outcome, structured
from web.mcp.tools import Arguments, Call, Hints, Tool, ToolBox


async def answer(call: Call, arguments: Arguments) -> Outcome:
    return structured(b"{}")


def tool(name: str, *, reads: bool = True, admins_only: bool = False) -> Tool:
    """Return a tool that does nothing."""
    hints = Hints(read_only_hint=reads, destructive_hint=False, idempotent_hint=True, open_world_hint=False)
    return Tool(
        name=name,
        title=name,
        description=name,
        hints=hints,
        input_schema={"type": "object"},
        run=answer,
        seen_by=(lambda caller: caller.is_admin) if admins_only else (lambda _: True),
    )


def caller(kind: TokenKind) -> Principal:
    return Principal(TokenRecord("id", b"", kind))


BOX = ToolBox((tool("read"), tool("write", reads=False), tool("govern", reads=False, admins_only=True)))


@pytest.mark.parametrize(
    ("kind", "read_only", "seen"),
    [
        ("admin", False, ["read", "write", "govern"]),
        ("admin", True, ["read"]),
        ("agent", False, ["read", "write"]),
        ("agent", True, ["read"]),
    ],
)
def test_a_caller_lists_and_finds_the_same_tools(kind: TokenKind, read_only: bool, seen: list[str]) -> None:
    listed = msgspec.json.decode(BOX.listed(caller(kind), read_only=read_only))
    assert [one["name"] for one in listed] == seen
    for name in ("read", "write", "govern", "absent"):
        assert (BOX.find(name, caller(kind), read_only=read_only) is not None) == (name in seen)


def test_two_tools_of_one_name_are_a_mistake() -> None:
    with pytest.raises(ValueError, match="same name"):
        ToolBox((tool("read"), tool("read")))


def test_hints_are_always_all_there() -> None:
    (one,) = msgspec.json.decode(ToolBox((tool("read"),)).listed(caller("agent"), read_only=False))
    assert one["annotations"] == {
        "readOnlyHint": True,
        "destructiveHint": False,
        "idempotentHint": True,
        "openWorldHint": False,
    }
