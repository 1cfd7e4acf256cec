"""A part of a body as text or as hex, for a page that shows some of it at a time. Pure."""

import msgspec

TEXT_WINDOW = 64 * 1024
HEX_WINDOW = 4 * 1024
HEX_LINE = 16

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


def window(view: str, at: int, piece: bytes, size: int) -> Window:
    """Return a view (`text`, `hex`; `json` is text for who runs no scripts) of the piece that begins at `at`."""
    text = hexdump(piece, at) if view == "hex" else as_text(piece)
    if at == 0 and len(piece) >= size:
        return Window(view, text)
    step = HEX_WINDOW if view == "hex" else TEXT_WINDOW
    after = at + len(piece)
    return Window(
        view,
        text,
        first=at + 1,
        last=after,
        previous=max(at - step, 0) if at else None,
        following=after if after < size else None,
    )


def as_text(piece: bytes) -> str:
    """Return a piece of text that may begin and end in the middle of a character, which is then left out."""
    start = 0
    while start < min(3, len(piece)) and 0x80 <= piece[start] < 0xC0:
        start += 1
    whole = piece[start:]
    for cut in range(4):
        try:
            return whole[: len(whole) - cut].decode()
        except UnicodeDecodeError:
            continue
    return piece.decode("utf-8", "replace")


def is_text(piece: bytes) -> bool:
    """Whether a body's beginning reads as text: UTF-8, and no more than a few control characters in it."""
    controls = sum(piece.count(bytes((code,))) for code in range(32) if code not in (9, 10, 13, 27))
    return "\ufffd" not in as_text(piece) and controls * 100 <= len(piece)


def hexdump(piece: bytes, at: int = 0) -> str:
    """Return lines of sixteen bytes: where, the bytes, and the letters among them."""
    lines = []
    for n in range(0, len(piece), HEX_LINE):
        part = piece[n : n + HEX_LINE]
        left, right = part[:8].hex(" "), part[8:].hex(" ")
        letters = "".join(SHOWN[byte] for byte in part)
        lines.append(f"{at + n:08x}  {left:<23}  {right:<23}  {letters}")
    return "\n".join(lines)
