"""Public keys: ed25519, and ECDSA on P-256.

A signature is decoded, and counts only when encoding it again gives the very text that was sent. Nothing here is
secret, so nothing is compared in constant time.
"""

import hashlib
from collections.abc import Sequence

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ec import ECDSA, SECP256R1, EllipticCurvePublicKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.utils import (
    Prehashed,
    decode_dss_signature,
    encode_dss_signature,
)
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_der_public_key

from web.verify.keys import Key, Run, Whole
from web.verify.template import ED25519_BYTES, PresetTemplate, decode_exactly


def public_key(template: PresetTemplate, key: bytes) -> Key:
    """Return the key of a template with a public key. Raises `ValueError` with a sentence when it is none."""
    return Ed25519Key(key, template.encoding) if template.method == "ed25519" else EcdsaKey(key)


class Ed25519Key:
    """A public key. Its signatures hash the text twice, so the text is needed whole."""

    def __init__(self, key: bytes, encoding: str) -> None:
        try:
            self._key = Ed25519PublicKey.from_public_bytes(key)
        except (ValueError, UnsupportedAlgorithm):
            raise ValueError("This verifier's secrets are ed25519 public keys, and this is none") from None
        self._encoding = encoding

    def start(self) -> Run:
        """Return a run."""
        return _Ed25519Run(self._key, self._encoding)


class _Ed25519Run:
    def __init__(self, key: Ed25519PublicKey, encoding: str) -> None:
        self._key = key
        self._encoding = encoding

    def update(self, data: bytes) -> None:
        """Do nothing: the text is taken whole."""

    def matches(self, signatures: Sequence[bytes], whole: Whole) -> bool:
        text = whole()
        return any(self._verifies(signature, text) for signature in signatures)

    def _verifies(self, signature: bytes, text: bytes) -> bool:
        decoded = decode_exactly(signature, self._encoding)
        if decoded is None:
            return False
        try:
            self._key.verify(decoded, text)
        except InvalidSignature:
            return False
        return True


class EcdsaKey:
    """A public key on P-256, given as the DER of a SubjectPublicKeyInfo. What is signed is a SHA-256 of the text."""

    def __init__(self, key: bytes) -> None:
        try:
            loaded = load_der_public_key(key)
        except (ValueError, UnsupportedAlgorithm):
            loaded = None
        if (
            not isinstance(loaded, EllipticCurvePublicKey)
            or not isinstance(loaded.curve, SECP256R1)
            # The one way to write the key down: a point has a compressed and a hybrid form, too.
            or loaded.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo) != key
        ):
            raise ValueError(
                "This verifier's secrets are public keys on P-256 (base64 of DER), and this is none"
            )
        self._key = loaded

    def start(self) -> Run:
        """Return a run."""
        return _EcdsaRun(self._key)


class _EcdsaRun:
    def __init__(self, key: EllipticCurvePublicKey) -> None:
        self._key = key
        self._hash = hashlib.sha256()

    def update(self, data: bytes) -> None:
        """Hash the next piece."""
        self._hash.update(data)

    def matches(self, signatures: Sequence[bytes], whole: Whole) -> bool:
        digest = self._hash.digest()
        return any(self._verifies(signature, digest) for signature in signatures)

    def _verifies(self, signature: bytes, digest: bytes) -> bool:
        decoded = decode_exactly(signature, "base64")
        if decoded is None:
            return False
        try:
            self._key.verify(decoded, digest, ECDSA(Prehashed(SHA256())))
        except InvalidSignature:
            return False
        return True


def is_canonical(template: PresetTemplate, text: bytes) -> bool:
    """Whether a text that looks like a signature under a public key is the one way to write one down."""
    decoded = decode_exactly(text, template.encoding)
    if decoded is None:
        return False
    if template.method == "ed25519":
        return len(decoded) == ED25519_BYTES
    try:
        # Strict DER: no negative numbers, no leading zeros, nothing that follows.
        r, s = decode_dss_signature(decoded)
        return encode_dss_signature(r, s) == decoded and r > 0 and s > 0
    except ValueError:
        return False
