"""Sealing: what a secret becomes before it is written, and back. Pure cryptography: no SQL, no files.

`POSTROOM_SECRET_KEY` is text. scrypt makes of it and of the database's own salt a key for AES-256-GCM and an id by
which that key is known: 40 bytes, of which the id is the last 8, so that it tells nothing of the key before them.
scrypt rather than a plain hash, because nobody can see whether a text was drawn at random or thought up; it runs once
per start. A salt of its own makes two databases with one `SECRET_KEY` differ in their keys.

A sealed value is nonce (12 random bytes), ciphertext, tag (16 bytes). What it was sealed for, the inbox's id and the
secret's name, is authenticated with it: copied into another row it does not open. Ids of inboxes are never used again.

What this cannot do: tell an older sealed value that was put back into its own row from the newer one.
"""

import logging
import os
from typing import TYPE_CHECKING, Protocol

import msgspec

from storage.errors import SecretUnreadable
from storage.secret import SecretBytes

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

SALT_BYTES = 16
"""Of randomness, new with each key."""

KEY_BYTES = 32
KEY_ID_BYTES = 8
"""Enough to tell a mistyped key; one in 2^64 passes for another, and then opens nothing."""

SCRYPT_N = 2**15
SCRYPT_R = 8
SCRYPT_P = 1
"""32 MiB and about 0.1 s, for each start and for each guess of somebody who has the file."""

NONCE_BYTES = 12
"""Drawn anew for each value: a repetition is expected after 2^48 of them."""

TAG_BYTES = 16

PURPOSE = b"postroom secret 1\0"
"""Begins what is authenticated: another use of the key, or another layout, would begin with something else."""

CHANGED = "its row was changed"

log = logging.getLogger("postroom.storage")


class Kept(msgspec.Struct, frozen=True):
    """A secret as its row has it. `key_id` is None: `value` is plain."""

    value: bytes
    key_id: bytes | None


class Seal(Protocol):
    """How secrets are kept in a database."""

    def keep(self, inbox_id: int, name: str, secret: SecretBytes) -> Kept:
        """Return what to write. Raises `SecretUnreadable` where nothing may be written."""

    def open(self, inbox_id: int, name: str, kept: Kept) -> SecretBytes:
        """Return the secret. Raises `SecretUnreadable`."""


class NoSeal:
    """No key. What is plain is read and written plain; what is sealed stays closed.

    `closed`: the database is sealed, so nothing may be written plain either. For commands that need no secret.
    """

    def __init__(self, *, closed: bool = False) -> None:
        self._closed = closed

    def keep(self, inbox_id: int, name: str, secret: SecretBytes) -> Kept:
        """Return it as it is."""
        if self._closed:
            raise _unreadable(inbox_id, name, "the secrets of this database are sealed")
        return Kept(secret.reveal(), None)

    def open(self, inbox_id: int, name: str, kept: Kept) -> SecretBytes:
        """Return what is plain."""
        if kept.key_id is not None:
            raise _unreadable(inbox_id, name, "it is sealed")
        return SecretBytes(kept.value)


class KeySeal:
    """One key. Everything is written sealed, and only what is sealed with this key is read. Thread-safe.

    `salt` and `key_id` are what the database keeps, to make the same key again and to know it.
    """

    def __init__(self, cipher: "AESGCM", key_id: bytes, salt: bytes) -> None:
        self.key_id = key_id
        self.salt = salt
        self._cipher = cipher
        self._told: set[tuple[int, str]] = set()

    def keep(self, inbox_id: int, name: str, secret: SecretBytes) -> Kept:
        """Return it sealed for its place."""
        nonce = os.urandom(NONCE_BYTES)
        return Kept(nonce + self._cipher.encrypt(nonce, secret.reveal(), _place(inbox_id, name)), self.key_id)

    def open(self, inbox_id: int, name: str, kept: Kept) -> SecretBytes:
        """Return it as it was when it was sealed for this place. The first failure of a place is logged."""
        secret = self.opened(inbox_id, name, kept)
        if secret is not None:
            return secret
        if (inbox_id, name) not in self._told:
            self._told.add((inbox_id, name))
            log.error(
                "the secret %s of inbox %d does not open: something else than Postroom has changed its row; "
                "what needs it does not work until `postroom rekey --forget` has removed it",
                name,
                inbox_id,
            )
        raise _unreadable(inbox_id, name, CHANGED)

    def opened(self, inbox_id: int, name: str, kept: Kept) -> SecretBytes | None:
        """Return it as `open` does, None when it does not open."""
        from cryptography.exceptions import InvalidTag

        nonce, sealed = kept.value[:NONCE_BYTES], kept.value[NONCE_BYTES:]
        if kept.key_id != self.key_id or len(sealed) < TAG_BYTES:
            return None
        try:
            return SecretBytes(self._cipher.decrypt(nonce, sealed, _place(inbox_id, name)))
        except InvalidTag:
            return None


def seal_of(secret_key: SecretBytes, salt: bytes | None = None) -> KeySeal:
    """Return the seal that a `SECRET_KEY` makes with a salt, without one with another each time. Takes about 0.1 s."""
    # Imported here: without a key nobody needs it, and it costs 9 MiB.
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM
    from cryptography.hazmat.primitives.kdf.scrypt import Scrypt

    if salt is None:
        salt = os.urandom(SALT_BYTES)
    made = Scrypt(salt, KEY_BYTES + KEY_ID_BYTES, SCRYPT_N, SCRYPT_R, SCRYPT_P).derive(secret_key.reveal())
    return KeySeal(AESGCM(made[:KEY_BYTES]), made[KEY_BYTES:], salt)


def _place(inbox_id: int, name: str) -> bytes:
    return PURPOSE + inbox_id.to_bytes(8, "big") + name.encode()


def _unreadable(inbox_id: int, name: str, why: str) -> SecretUnreadable:
    return SecretUnreadable(f"The secret {name} of inbox {inbox_id} cannot be read: {why}.")
