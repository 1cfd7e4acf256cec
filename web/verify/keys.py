"""Keys of the signature methods: one object for each active secret, made once, and a run of it for each request.

A run is fed the signed text piece by piece. A MAC compares texts in constant time (`Digest`). Public keys are in
`web.verify.publickeys`.
"""

import hashlib
import hmac
from collections.abc import Callable, Sequence
from typing import Protocol, TypeAlias

from storage.secret import SecretBytes
from web.verify.digest import Digest
from web.verify.template import PresetTemplate

Whole: TypeAlias = Callable[[], bytes]
"""Gives the whole signed text, for what cannot be fed piece by piece."""


class Run(Protocol):
    """One request under one key."""

    def update(self, data: bytes) -> None:
        """Take the next piece of the signed text."""

    def matches(self, signatures: Sequence[bytes], whole: Whole) -> bool:
        """Whether one of the signatures, as texts, is right for what was fed."""


class Key(Protocol):
    """What one secret is for one template."""

    def start(self) -> Run:
        """Return a run that nothing was fed to."""


class Keyed(Protocol):
    """A keyed `hmac` or a `hashlib` object that has taken the secret."""

    def copy(self) -> "Keyed":
        """Return one that can be fed apart."""

    def update(self, data: bytes, /) -> None:
        """Take bytes."""

    def digest(self) -> bytes:
        """Return the digest."""


def make_key(template: PresetTemplate, secret: SecretBytes) -> Key:
    """Return the key of a secret. Raises `ValueError` with a sentence when it is none for this template."""
    key = template.decode_key(secret.reveal())
    if template.public:
        # Imported here: the library costs 9 MiB of memory, and few inboxes need it.
        from web.verify.publickeys import public_key

        return public_key(template, key)
    return MacKey(template, key)


def is_canonical(template: PresetTemplate, text: bytes) -> bool:
    """Whether a text that looks like a signature under a public key is the one way to write one down."""
    from web.verify.publickeys import is_canonical  # see `make_key`

    return is_canonical(template, text)


def mac(template: PresetTemplate, key: bytes) -> Keyed:
    """Return the keyed MAC of a template: an HMAC, or for `hash` the hash that has taken the key."""
    if template.method == "hash":
        return hashlib.new(template.algorithm, key)
    return hmac.new(key, digestmod=template.algorithm)


class MacKey:
    """An HMAC's key, as `secret` the bytes of it. Copying a keyed HMAC costs a third of keying one."""

    def __init__(self, template: PresetTemplate, key: bytes) -> None:
        self.secret = SecretBytes(key)
        self._keyed = mac(template, key)
        self._encode = template.encode

    def start(self) -> Run:
        """Return a run."""
        return _MacRun(self._keyed.copy(), self._encode)


class _MacRun:
    __slots__ = ("_encode", "_mac", "update")

    def __init__(self, keyed: Keyed, encode: Callable[[bytes], bytes]) -> None:
        self._mac = keyed
        self._encode = encode
        self.update = keyed.update

    def matches(self, signatures: Sequence[bytes], whole: Whole) -> bool:
        digest = Digest(self._encode(self._mac.digest()))
        return any(digest.matches(text) for text in signatures)
