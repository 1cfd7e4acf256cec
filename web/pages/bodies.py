"""A part of a body as text or as hex, for a page that shows some of it at a time. Pure.

Windows of text begin and end between bytes, wherever that is. A character belongs to the window that it begins in; so
the windows of a body, one after the other, are its whole text, each character of it once, and so are the marks that
stand for bytes which are no text.
"""

import codecs

import msgspec

TEXT_WINDOW = 64 * 1024
HEX_WINDOW = 4 * 1024
HEX_LINE = 16

MARGIN = 3
"""Bytes that are read on each side of a window: a character that has begun before it, or goes on behind it, has no more
of them there.
"""

SHOWN = "".join(chr(code) if 0x20 <= code < 0x7F else "." for code in range(256))


class Window(msgspec.Struct, frozen=True):
    """What is shown of a body. `first` and `last` count from 1, None when all of it is shown; `previous` and
    `following` are where the neighbours begin.
    """

    view: str
    text: str
    first: int | None = None
    last: int | None = None
    previous: int | None = None
    following: int | None = None


def around(at: int, length: int) -> tuple[int, int]:
    """Return what is read of a body for a window: where it begins, and where it ends unless the body does."""
    return max(at - MARGIN, 0), at + length + MARGIN


def window(view: str, at: int, length: int, read: bytes, size: int) -> Window:
    """Return a view (`text`, `hex`; `json` is text for who runs no scripts) of `length` bytes from `at` on.

    `read` is what `around` names, of a body of `size` bytes.
    """
    begin = at - around(at, length)[0]
    end = min(begin + length, len(read))
    if view == "hex":
        text = hexdump(read[begin:end], at)
    else:
        begin += _carried(read[max(begin - MARGIN, 0) : begin], read[begin : begin + MARGIN])
        end += _carried(read[max(end - MARGIN, 0) : end], read[end : end + MARGIN])
        text = read[begin:end].decode("utf-8", "replace")
    if at == 0 and size <= length:
        return Window(view, text)
    offset = around(at, length)[0]
    return Window(
        view,
        text,
        first=offset + begin + 1,
        last=offset + end,
        previous=max(at - length, 0) if at else None,
        following=at + length if at + length < size else None,
    )


def is_text(piece: bytes) -> bool:
    """Whether a body's beginning reads as text: UTF-8, which may break off within a character, and no more than a few
    control characters in it.
    """
    controls = sum(piece.count(bytes((code,))) for code in range(32) if code not in (9, 10, 13, 27))
    try:
        codecs.getincrementaldecoder("utf-8")().decode(piece)
    except UnicodeDecodeError:
        return False
    return controls * 100 <= len(piece)


def _carried(before: bytes, after: bytes) -> int:
    """Return how many of the bytes `after` an edge belong to a character that has begun `before` it.

    Three bytes on each side tell: a character, or what is marked as a broken one, begins with a byte that no character
    goes on with, and has four bytes at most.
    """
    for back in range(1, len(before) + 1):
        if before[-back] & 0xC0 != 0x80:
            return max(0, _first_length(before[-back:] + after) - back)
    return 0


def _first_length(piece: bytes) -> int:
    """Return how many bytes the first character of a piece has, or what is marked as one when it is broken."""
    try:
        first = piece.decode()[0]
    except UnicodeDecodeError as error:
        if error.start == 0:
            return error.end
        first = piece[: error.start].decode()[0]
    return len(first.encode())


def hexdump(piece: bytes, at: int = 0) -> str:
    """Return lines of sixteen bytes: where, the bytes, and the letters among them."""
    lines = []
    for n in range(0, len(piece), HEX_LINE):
        part = piece[n : n + HEX_LINE]
        left, right = part[:8].hex(" "), part[8:].hex(" ")
        letters = "".join(SHOWN[byte] for byte in part)
        lines.append(f"{at + n:08x}  {left:<23}  {right:<23}  {letters}")
    return "\n".join(lines)
