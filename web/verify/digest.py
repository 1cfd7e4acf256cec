"""A computed digest that can only be compared in constant time."""

from storage.secret import Confidential


class Digest(Confidential):
    """The signature that a sender who knows the secret would have sent, as the exact ASCII text of it: upper-case hex
    or other padding is another text.

    Whoever learns a digest can forge that one request, so it is kept like a secret.
    """

    __slots__ = ()
