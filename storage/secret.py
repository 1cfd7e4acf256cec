"""A secret that cannot be printed, compared with `==` or serialised by accident."""

import hmac
from typing import NoReturn


class SecretBytes:
    """Bytes that only `matches` and `reveal` give access to.

    `==` raises, because an ordinary comparison leaks the length of the common prefix through its duration
    (and because a reader of the code should see at once where secrets are compared).
    """

    __slots__ = ("_value",)
    __hash__ = None  # type: ignore[assignment]  # a secret is no dictionary key

    def __init__(self, value: bytes) -> None:
        self._value = bytes(value)

    def __eq__(self, other: object) -> NoReturn:
        raise TypeError("secrets are compared with matches(), never with ==")

    def __repr__(self) -> str:
        return "SecretBytes(…)"

    def __len__(self) -> int:
        return len(self._value)

    def matches(self, candidate: bytes) -> bool:
        """Compare in constant time. Bytes only: `hmac.compare_digest` raises on non-ASCII `str`."""
        return hmac.compare_digest(self._value, candidate)

    def reveal(self) -> bytes:
        """Return the bytes themselves, for keying an HMAC and for storing."""
        return self._value
