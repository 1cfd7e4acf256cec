"""The commonest signature on a short way: an HMAC of the body alone, in a header of its own, under one secret.

Ingest's figure for what a signature costs (`docs/performance.md`) is made by such a provider. Its processor has other
things to do between two verifications, so each object and each call costs several times of what it does in a loop:
one check with its two hashes costs half of a trial with runs. Only what is well-formed takes this way; every fault of
the head is left to the general one, which words it.
"""

import hashlib
import re
from binascii import hexlify
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

from web.verify.check import values_of
from web.verify.digest import Digest
from web.verify.keys import MacKey
from web.verify.model import MISMATCH, BodySource, Check, Judgement, SignedHead, Values, Verifier
from web.verify.sources import claims_of
from web.verify.template import PresetTemplate

if TYPE_CHECKING:
    from hashlib import _Hash as Hash  # the type of hashlib's objects has no public name

MAX_PLANS = 256
"""Templates whose plans are kept: those of the providers, and those that users have written themselves."""

_INNER, _OUTER = 0x36, 0x5C
"""The pads of RFC 2104."""


class Plan:
    """What the inboxes of one template share."""

    __slots__ = ("claims", "encode", "header", "wanted", "well_formed")

    def __init__(self, template: PresetTemplate) -> None:
        self.header = template.header.lower().encode()
        pattern = template.signature_pattern().pattern
        self.well_formed = re.compile(re.escape(template.prefix.encode()) + pattern).fullmatch
        self.claims = claims_of(template)
        self.wanted = self.claims.headers | {self.header}
        self.encode = hexlify if template.encoding == "hex" else template.encode


plan_of = lru_cache(MAX_PLANS)(Plan)


class LoneVerifier:
    """A verifier of one inbox whose template is `is_lone` and that has one key."""

    __slots__ = ("_general", "_inner", "_long_way", "always_reject", "name", "outer", "plan")

    secret_headers: frozenset[bytes] = frozenset()
    secret_path = False

    def __init__(
        self,
        name: str,
        template: PresetTemplate,
        key: MacKey,
        long_way: Callable[[], Verifier],
        *,
        always_reject: bool,
    ) -> None:
        """`long_way` makes the same verifier as any other, which few inboxes ever need."""
        self.name = name
        self.always_reject = always_reject
        self.plan = plan_of(template)
        self._inner, self.outer = halves(template.algorithm, key.secret.reveal())
        self._long_way = long_way
        self._general: Verifier | None = None

    def begin(self, head: SignedHead) -> Check:
        """Start hashing."""
        plan = self.plan
        values = values_of(head, plan.wanted)
        given = values.get(plan.header, ())
        if len(given) != 1 or (found := plan.well_formed(given[0])) is None:
            if self._general is None:
                self._general = self._long_way()
            return self._general.begin(head)
        return _Checking(self, values, found[1], self._inner.copy())


class _Checking:
    __slots__ = ("_inner", "_signature", "_values", "_verifier", "update")

    def __init__(self, verifier: LoneVerifier, values: Values, signature: bytes, inner: "Hash") -> None:
        self._verifier = verifier
        self._values = values
        self._signature = signature
        self._inner = inner
        self.update: Callable[[bytes], None] = inner.update

    def finish(self, body: BodySource) -> Judgement:
        verifier = self._verifier
        outer = verifier.outer.copy()
        outer.update(self._inner.digest())
        right = Digest(verifier.plan.encode(outer.digest())).matches(self._signature)
        return verifier.plan.claims.judgement(right, None if right else MISMATCH, self._values, body)


def is_lone(templates: Sequence[PresetTemplate]) -> bool:
    """Whether a scheme is one template that signs the body alone, by an HMAC in one header that holds nothing else."""
    if len(templates) != 1:
        return False
    (one,) = templates
    others = (one.timestamp, one.when, one.second_header, one.list_separator)
    return one.method == "hmac" and one.signed == "{body}" and all(other is None for other in others)


def halves(algorithm: str, key: bytes) -> "tuple[Hash, Hash]":
    """Return the two hashes of an HMAC (RFC 2104) that have taken the key."""
    block_bytes = hashlib.new(algorithm).block_size
    block = (hashlib.new(algorithm, key).digest() if len(key) > block_bytes else key).ljust(
        block_bytes, b"\0"
    )
    inner, outer = (hashlib.new(algorithm, bytes(byte ^ pad for byte in block)) for pad in (_INNER, _OUTER))
    return inner, outer
