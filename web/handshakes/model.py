"""The values around a handshake: the request as it sees it, what the inbox gives it, and its reply."""

from collections.abc import Callable, Sequence
from typing import Literal

import msgspec

from storage.secret import SecretBytes
from web.http import Answer, Request
from web.verify.model import MISMATCH, BodySource, Judgement

MAX_HANDSHAKE_BYTES = 64 * 1024
"""Bodies over this are no handshakes: the largest that a provider documents has under 2 KiB. They are not looked at."""

NO_HEADERS: frozenset[bytes] = frozenset()


class Asked(msgspec.Struct, frozen=True, gc=False):
    """One request. `query` and `headers` as in `web.http.Request`: raw, names in lower case. `body` is empty where the
    handshake has none. `verified` is the verdict, None before it.
    """

    query: bytes
    headers: Sequence[tuple[bytes, bytes]]
    body: bytes = b""
    verified: bool | None = None


class Setup(msgspec.Struct, frozen=True):
    """What an inbox gives its handshake. `key` is its newest secret apart from the one named `verify_token`."""

    key: SecretBytes | None = None
    verify_token: SecretBytes | None = None
    rate_per_minute: int | None = None


class Adoption(msgspec.Struct, frozen=True):
    """An answer to be given once the inbox has kept this secret as its own, or was found to have one already."""

    secret: SecretBytes
    answer: Answer


Reply = Answer | Adoption | None
"""None: this is no handshake, or not one that can be answered; the request goes the way of every other."""


class Recipe(msgspec.Struct, frozen=True):
    """One provider's handshake. Requests of its `method` are offered to `reply`.

    POST: before verification, or with the verdict where the provider demands a valid signature (`on_verdict`).
    Other methods have no verdict. `forgeable`: whether a POST's body is a text that `reply` would sign for anybody, so
    that its signature proves nothing. `secret_headers` (lower case) hold credentials and are redacted in a message.
    """

    method: Literal["GET", "OPTIONS", "POST"]
    reply: Callable[[Asked, Setup], Reply]
    on_verdict: bool = False
    forgeable: Callable[[bytes], bool] | None = None
    secret_headers: frozenset[bytes] = NO_HEADERS


class Handshake(msgspec.Struct, frozen=True):
    """A recipe with one inbox's setup, kept for as long as its settings and secrets are in force."""

    recipe: Recipe
    setup: Setup

    def without_body(self, request: Request) -> Answer | None:
        """Answer what is neither POST nor PUT."""
        if request.method != self.recipe.method:
            return None
        reply = self.recipe.reply(Asked(request.raw_query, request.headers), self.setup)
        return reply if isinstance(reply, Answer) else None

    def before(self, request: Request, body: BodySource) -> Answer | Adoption | None:
        """Reply to what was posted, before anything is known of its signature."""
        return None if self.recipe.on_verdict else self._posted(request, body, None)

    def after(self, request: Request, body: BodySource, judgement: Judgement) -> Answer | Adoption | None:
        """Reply to what was posted, where the verdict matters."""
        return self._posted(request, body, judgement.verified) if self.recipe.on_verdict else None

    def doubted(self, judgement: Judgement, body: BodySource) -> Judgement:
        """Return the judgement; a signature on what `recipe.reply` signs for anybody is none."""
        forgeable = self.recipe.forgeable
        if forgeable is None or not judgement.verified or body.size > MAX_HANDSHAKE_BYTES:
            return judgement
        if not forgeable(body.whole()):
            return judgement
        return msgspec.structs.replace(judgement, verified=False, error=MISMATCH)

    def _posted(self, request: Request, body: BodySource, verified: bool | None) -> Reply:
        if request.method != self.recipe.method or body.size > MAX_HANDSHAKE_BYTES:
            return None
        asked = Asked(request.raw_query, request.headers, body.whole(), verified)
        return self.recipe.reply(asked, self.setup)
