"""A computed digest that can only be compared in constant time."""

import hmac
from typing import NoReturn


class Digest:
    """The signature that a sender who knows the secret would have sent, as the exact ASCII text of it.

    The sister of `storage.secret.SecretBytes`: whoever learns a digest can forge that one request, so
    `==` raises here too, and `repr` shows nothing.
    """

    __slots__ = ("_text",)
    __hash__ = None  # type: ignore[assignment]  # a digest is no dictionary key

    def __init__(self, text: bytes) -> None:
        self._text = text

    def __eq__(self, other: object) -> NoReturn:
        raise TypeError("digests are compared with matches(), never with ==")

    def __repr__(self) -> str:
        return "Digest(…)"

    def matches(self, candidate: bytes) -> bool:
        """Compare byte for byte in constant time; upper-case hex or other padding is another text."""
        return hmac.compare_digest(self._text, candidate)

    def reveal(self) -> bytes:
        """Return the text itself, for signing a request of our own."""
        return self._text
