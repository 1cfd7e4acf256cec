"""In which character set a body is written, when it is not UTF-8. Pure; bounded by the body.

What the sender's `Content-Type` names is believed, if it is one of the sets of text that are in use, for a media type
of text; Python's other codecs (escapes, compression, UTF-7) are not reached. A name means what browsers take it for:
`iso-8859-1` is Windows' superset of it. Bytes that the set does not have become U+FFFD, in which no word is found.
"""

import codecs
import re
from collections.abc import Mapping
from types import MappingProxyType

_NAMES = {
    "cp1252": "iso-8859-1 iso8859-1 latin1 latin-1 l1 windows-1252 cp1252",
    **{f"iso8859-{n}": f"iso-8859-{n} iso8859-{n}" for n in (2, 3, 4, 5, 6, 7, 8, 10, 13, 14, 15, 16)},
    "cp1254": "iso-8859-9 iso8859-9 latin5 windows-1254 cp1254",
    **{f"cp{n}": f"windows-{n} cp{n}" for n in (1250, 1251, 1253, 1255, 1256, 1257, 1258)},
    "cp874": "iso-8859-11 tis-620 windows-874",
    "koi8-r": "koi8-r",
    "koi8-u": "koi8-u",
    "cp866": "ibm866 cp866",
    "mac-roman": "macintosh x-mac-roman",
    "cp932": "shift-jis sjis x-sjis windows-31j ms932",
    "euc-jp": "euc-jp",
    "iso2022-jp": "iso-2022-jp",
    "gb18030": "gb18030 gbk gb2312 x-gbk",
    "big5hkscs": "big5 big5-hkscs",
    "cp949": "euc-kr ks-c-5601-1987 windows-949",
    "utf-16-le": "utf-16 utf-16le",
    "utf-16-be": "utf-16be",
}
"""Python's codecs, and the names that senders have for them, in lower case and with dashes for underscores."""

CODECS: Mapping[str, str] = MappingProxyType(
    {name: codec for codec, names in _NAMES.items() for name in names.split()}
)

LIKE_UTF_8 = frozenset({"utf-16-le", "utf-16-be", "iso2022-jp"})
"""Those whose bytes may well pass for UTF-8. Of any other set, text that is UTF-8 was named wrongly."""

_CHARSET = re.compile(r";\s*+charset\s*+=\s*+\"?([a-z0-9._:-]{1,40}+)", re.IGNORECASE)
_TEXTUAL = re.compile(r"text/.|application/(?:.*[+.-])?(?:json|xml|yaml|javascript|x-www-form-urlencoded)\Z")


def media_type(content_type: str | None) -> str:
    """Return the media type alone, in lower case."""
    return (content_type or "").partition(";")[0].strip().lower()


def codec_of(content_type: str | None) -> str | None:
    """Return the codec of a body with this content type; None where it is UTF-8, not said, or not known."""
    if content_type is None or _TEXTUAL.match(media_type(content_type)) is None:
        return None
    named = _CHARSET.search(content_type)
    return None if named is None else CODECS.get(named[1].lower().replace("_", "-"))


def decoded(body: bytes, codec: str | None, *, cut: bool = False) -> str:
    """Return the text of a body. `cut`: it is the beginning of one."""
    if codec is None or (codec not in LIKE_UTF_8 and _is_utf8(body, cut)):
        return body.decode("utf-8", "replace")
    if codec == "utf-16-le" and body.startswith(codecs.BOM_UTF16_BE):
        codec = "utf-16-be"
    return body.decode(codec, "replace")


def _is_utf8(body: bytes, cut: bool) -> bool:
    try:
        codecs.getincrementaldecoder("utf-8")().decode(body, final=not cut)
    except UnicodeDecodeError:
        return False
    return True
