"""What may be compared in constant time only: the base class, and a secret."""

import hmac
from typing import NoReturn


class Confidential:
    """Bytes that cannot be printed, compared with `==` or serialised by accident; `matches` is the one way to compare.

    `==` raises, because an ordinary comparison leaks the length of the common prefix through its duration
    (and because a reader of the code should see at once where such bytes are compared).
    """

    __slots__ = ("_value",)
    __hash__ = None  # type: ignore[assignment]  # it is no dictionary key

    def __init__(self, value: bytes) -> None:
        self._value = bytes(value)

    def __eq__(self, other: object) -> NoReturn:
        raise TypeError(f"a {type(self).__name__} is compared with matches(), never with ==")

    def __repr__(self) -> str:
        return f"{type(self).__name__}(…)"

    def __len__(self) -> int:
        return len(self._value)

    def matches(self, candidate: bytes) -> bool:
        """Compare byte for byte in constant time. Bytes only: `hmac.compare_digest` raises on non-ASCII `str`."""
        return hmac.compare_digest(self._value, candidate)

    def reveal(self) -> bytes:
        """Return the bytes themselves, where nothing else will do."""
        return self._value


class SecretBytes(Confidential):
    """A secret. Revealed for keying an HMAC and for storing."""

    __slots__ = ()
