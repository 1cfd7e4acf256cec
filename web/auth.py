"""Who is calling, and what they may see. Tokens come as `Authorization: Bearer …`, nowhere else (never in a URL).

A principal is made anew for each request from the token book, so a revocation or a change of scope is in force on the
next call.
"""

from collections.abc import Sequence

import msgspec

from actors.agents import private_slug
from actors.machines import machine_slug
from actors.rules.scope import COMMONS
from actors.tokens import TokenBook
from storage.records import TokenRecord
from web.attempts import WrongTokens
from web.errors import unauthenticated
from web.options import WebOptions

PRIVATE_PREFIXES = ("agent.", "machine.")
"""Slugs that begin so are the server's own: private inboxes, which a token for all inboxes does not read."""

MAX_TOKEN_BYTES = 512
"""Longer credentials are refused without being hashed. Our own are under 64 bytes; an administrator may choose one."""


class Principal(msgspec.Struct, frozen=True, gc=False):
    """A caller with a valid token."""

    token: TokenRecord

    @property
    def is_admin(self) -> bool:
        """Whether the caller may do everything."""
        return self.token.kind == "admin"

    @property
    def agent(self) -> str | None:
        """The agent that the token is bound to: what it sends is that agent's, and it drains that agent's inbox."""
        return self.token.agent

    @property
    def machine(self) -> str | None:
        """The machine that a machine token acts for: for every agent of it."""
        return self.token.machine

    @property
    def own(self) -> tuple[str, ...]:
        """The slugs of the inboxes that the caller reads whatever its token was issued for: `commons`, and the private
        inbox of its agent, or that of its machine.
        """
        if self.token.agent is not None:
            return (COMMONS, private_slug(self.token.agent))
        return () if self.token.machine is None else (COMMONS, machine_slug(self.token.machine))

    @property
    def visible(self) -> frozenset[str] | None:
        """The slugs of the inboxes whose messages a token may see in an agent's inbox, as of this moment: those that it
        reads. None: every webhook and topic inbox.
        """
        return None if self.token.inboxes is None else frozenset((*self.token.inboxes, COMMONS))

    def may_read(self, slug: str) -> bool:
        """Whether the caller may read the inbox of this slug, if there is one.

        Decided by the slug alone, before anything is looked up: an inbox that is absent and one that is not the
        caller's take the same path, so neither the answer nor its duration tells them apart.
        """
        if self.token.kind == "admin":
            return True
        if slug in self.own:
            return True
        if self.token.inboxes is None:
            return not slug.startswith(PRIVATE_PREFIXES)
        return slug in self.token.inboxes


class Authenticator:
    """Turns request headers into a principal, for every way of reading and administering alike."""

    def __init__(self, tokens: TokenBook, options: WebOptions) -> None:
        self._tokens = tokens
        self._options = options
        self._wrong = WrongTokens()

    @property
    def wrong_tokens(self) -> int:
        """How many wrong tokens came since the start, from anywhere."""
        return self._wrong.counted

    def authenticate(self, headers: Sequence[tuple[bytes, bytes]], address: str | None) -> Principal:
        """Return the caller, whose request came from `address` (`web/addresses.py`).

        Raises `ApiError`: `unauthenticated` when the token is missing, repeated or not valid, `rate_limited` instead
        when too many that were sent from there lately were not. The token is looked up before anything is counted, so
        a valid one takes the same path whatever its neighbours send.
        """
        sent = [value for name, value in headers if name == b"authorization"]
        if not sent:
            raise unauthenticated(sent=False)
        token = self._find(sent)
        if token is None:
            raise self._wrong.refusal(address, self._options.auth_failures_per_minute)
        return Principal(token)

    def knows(self, headers: Sequence[tuple[bytes, bytes]]) -> bool:
        """Whether a request shows a valid token. Counts nothing."""
        sent = [value for name, value in headers if name == b"authorization"]
        return bool(sent) and self._find(sent) is not None

    def _find(self, sent: Sequence[bytes]) -> TokenRecord | None:
        """Return the token of the header's lines, None when they are not one valid token."""
        scheme, _, credential = sent[0].partition(b" ")
        credential = credential.strip()
        if len(sent) > 1 or scheme.lower() != b"bearer" or not 0 < len(credential) <= MAX_TOKEN_BYTES:
            return None
        return self._tokens.find(credential)
