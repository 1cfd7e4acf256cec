"""Length extension of SHA-256: the hash of a text and of more, from the hash and the length of the text alone.

That is what makes a hash of secret and message no signature. `hashlib` cannot start from a digest, so the compression
function is here (FIPS 180-4).
"""

import struct
from itertools import count, islice
from math import isqrt
from typing import NamedTuple

MASK = 0xFFFF_FFFF


class Extended(NamedTuple):
    """`added` follows the text that was hashed; `digest`, in hex, is the hash of both."""

    added: bytes
    digest: str


def extended(digest: str, size: int, more: bytes) -> Extended:
    """Return how a text of `size` bytes with this SHA-256 can be carried on with `more`."""
    glue = padding(size)
    state = list(struct.unpack(">8I", bytes.fromhex(digest)))
    rest = more + padding(size + len(glue) + len(more))
    for start in range(0, len(rest), 64):
        state = compressed(state, rest[start : start + 64])
    return Extended(glue + more, struct.pack(">8I", *state).hex())


def padding(size: int) -> bytes:
    return b"\x80" + bytes((55 - size) % 64) + struct.pack(">Q", 8 * size)


def cube_root_bits(prime: int) -> int:
    """Return the first 32 bits of the fraction of a cube root."""
    low, high = 0, isqrt(prime << 96)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if middle**3 <= prime << 96 else (low, middle - 1)
    return low & MASK


PRIMES = islice((n for n in count(2) if all(n % m for m in range(2, n))), 64)
ROUNDS = [cube_root_bits(prime) for prime in PRIMES]


def turned(word: int, *by: int) -> int:
    """Xor rotations of a word; a negative number is a shift."""
    found = 0
    for n in by:
        found ^= word >> -n if n < 0 else (word >> n | word << (32 - n)) & MASK
    return found


def compressed(state: list[int], block: bytes) -> list[int]:
    words = list(struct.unpack(">16I", block))
    for n in range(16, 64):
        words.append(
            (
                words[n - 16]
                + turned(words[n - 15], 7, 18, -3)
                + words[n - 7]
                + turned(words[n - 2], 17, 19, -10)
            )
            & MASK
        )
    a, b, c, d, e, f, g, h = state
    for constant, word in zip(ROUNDS, words, strict=True):
        first = h + turned(e, 6, 11, 25) + (e & f ^ ~e & g) + constant + word
        second = turned(a, 2, 13, 22) + (a & b ^ a & c ^ b & c)
        a, b, c, d, e, f, g, h = (first + second) & MASK, a, b, c, (d + first) & MASK, e, f, g
    return [(old + new) & MASK for old, new in zip(state, (a, b, c, d, e, f, g, h), strict=True)]
