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
from typing import TYPE_CHECKING

from web.verify.check import SchemeVerifier, values_of
from web.verify.digest import Digest
from web.verify.keys import MacKey
from web.verify.model import MISMATCH, BodySource, Check, Judgement, SignedHead, Values
from web.verify.sources import Claims
from web.verify.template import PresetTemplate

if TYPE_CHECKING:
    from hashlib import _Hash as Hash  # the type of hashlib's objects has no public name

_INNER, _OUTER = 0x36, 0x5C
"""The pads of RFC 2104."""


class LoneVerifier:
    """A verifier of one inbox whose template is `is_lone` and that has one key."""

    secret_headers: frozenset[bytes] = frozenset()
    secret_path = False

    def __init__(self, general: SchemeVerifier, template: PresetTemplate, key: MacKey) -> None:
        """`general` is the same verifier on the long way."""
        self.name = general.name
        self.always_reject = general.always_reject
        self._begin = general.begin
        self._header = template.header.lower().encode()
        pattern = template.signature_pattern().pattern
        self._well_formed = re.compile(re.escape(template.prefix.encode()) + pattern).fullmatch
        self.claims = Claims(template)
        self._wanted = self.claims.headers | {self._header}
        self._inner, self.outer = halves(template.algorithm, key.secret.reveal())
        self.encode = hexlify if template.encoding == "hex" else template.encode

    def begin(self, head: SignedHead) -> Check:
        """Start hashing."""
        values = values_of(head, self._wanted)
        given = values.get(self._header, ())
        if len(given) != 1 or (found := self._well_formed(given[0])) is None:
            return self._begin(head)
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
        right = Digest(verifier.encode(outer.digest())).matches(self._signature)
        return verifier.claims.judgement(right, None if right else MISMATCH, self._values, body)


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
