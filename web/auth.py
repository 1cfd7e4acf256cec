"""Who is calling, and what they may see. Tokens come as `Authorization: Bearer …`, nowhere else (never in a URL).

A principal is made anew for each request from the token book, so a revocation or a change of scope is in force on the
next call.
"""

from collections.abc import Sequence

import msgspec

from actors.tokens import TokenBook
from storage.records import TokenRecord
from web.errors import unauthenticated

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

    def may_read(self, slug: str) -> bool:
        """Whether the caller may read the inbox of this slug, if there is one.

        Decided by the slug alone, before anything is looked up: an inbox that is absent and one that is not the
        caller's take the same path, so neither the answer nor its duration tells them apart.
        """
        if self.token.kind == "admin":
            return True
        if self.token.inboxes is None:
            return not slug.startswith(PRIVATE_PREFIXES)
        return slug in self.token.inboxes


class Authenticator:
    """Turns request headers into a principal."""

    def __init__(self, tokens: TokenBook) -> None:
        self._tokens = tokens

    def authenticate(self, headers: Sequence[tuple[bytes, bytes]]) -> Principal:
        """Return the caller. Raises `ApiError` `unauthenticated` when the token is missing, repeated or not valid."""
        sent = [value for name, value in headers if name == b"authorization"]
        if not sent:
            raise unauthenticated(sent=False)
        scheme, _, credential = sent[0].partition(b" ")
        credential = credential.strip()
        if len(sent) > 1 or scheme.lower() != b"bearer" or not 0 < len(credential) <= MAX_TOKEN_BYTES:
            raise unauthenticated(sent=True)
        token = self._tokens.find(credential)
        if token is None:
            raise unauthenticated(sent=True)
        return Principal(token)
