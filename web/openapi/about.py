"""What the document says of a route beside its method, its path and its handler's words. One line, where the route is.

Imports nothing of ours: every table of routes imports this.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal

import msgspec

Group = Literal["Sending", "Reading", "Agents", "Agents on machines", "Administration", "Server"]
"""The sections of the document, in its order."""

Who = Literal["anybody", "token", "reader", "agent", "member", "admin"]
"""Who may call: `token` any valid one, `reader` one that reads the inbox, `agent` one that is bound to an agent,
`member` one of an agent on a machine, of a machine, or an admin's."""


class Media(msgspec.Struct, frozen=True):
    """A body that is not JSON of ours: its media type, and in words what is in it. `others`: media types that it may
    have as well.
    """

    media_type: str
    text: str
    others: tuple[str, ...] = ()


Shape = type[msgspec.Struct] | Media

NO_MORE: Mapping[int | str, Shape] = MappingProxyType({})


class About(msgspec.Struct, frozen=True):
    """What of a route only its own place knows.

    `takes`: what is decoded from path and query, or from path and body where the method has one. `answers`: what is
    encoded with `status`, None for nothing; `also`: further answers by status. `refuses`: codes of errors, separated by
    spaces, beside those that follow from the rest (`web/openapi/errors.py`). `name` of the operation, if not that of
    its handler. `headers`: those of a request that matter; `gives`: those of its answers. `merges`: null stands for the
    default of a member, as in a merge patch (RFC 7396).
    """

    group: Group
    who: Who
    takes: Shape | None = None
    answers: Shape | None = None
    status: int = 200
    refuses: str = ""
    name: str = ""
    also: Mapping[int | str, Shape] = NO_MORE
    headers: tuple[str, ...] = ()
    gives: tuple[str, ...] = ()
    merges: bool = False
