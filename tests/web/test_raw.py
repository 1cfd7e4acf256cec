import msgspec
import pytest

from web.raw import content_type, parse_range


def said(value: str | None) -> bytes:
    return msgspec.json.encode({"path": "", "content_type": value})


@pytest.mark.parametrize(
    "value",
    [
        "application/json",
        "application/json; charset=utf-8",
        "application/vnd.github+json",
        "text/plain;charset=UTF-8",
        "image/png",
        "application/x-www-form-urlencoded",
    ],
)
def test_a_type_that_no_browser_runs_is_kept(value: str) -> None:
    assert content_type(said(value)) == value.encode()


@pytest.mark.parametrize(
    "value",
    [
        None,
        "",
        "text/html",
        "TEXT/HTML; charset=utf-8",
        "image/svg+xml",
        "application/xhtml+xml",
        "text/xml",
        "application/pdf",
        "text/javascript",
        "text/plain; charset=utf-7",
        "text/plain, text/html",
        "application/json\r\nSet-Cookie: a=b",
        "multipart/form-data; boundary=x",
        "application/jsön",
    ],
)
def test_every_other_type_becomes_octet_stream(value: str | None) -> None:
    assert content_type(said(value)) == b"application/octet-stream"


@pytest.mark.parametrize(
    ("header", "size", "part"),
    [
        (None, 10, None),
        (b"bytes=0-", 10, (0, 10)),
        (b"bytes=0-0", 10, (0, 1)),
        (b"bytes=3-5", 10, (3, 6)),
        (b"bytes=3-99", 10, (3, 10)),
        (b"bytes=-4", 10, (6, 10)),
        (b"bytes=-99", 10, (0, 10)),
        (b"bytes=10-", 10, False),
        (b"bytes=-0", 10, False),
        (b"bytes=0-", 0, False),
        (b"bytes=5-3", 10, None),
        (b"bytes=0-1,3-4", 10, None),
        (b"items=0-1", 10, None),
        (b"bytes=a-b", 10, None),
        (b"bytes=" + b"9" * 40 + b"-", 10, None),
    ],
)
def test_ranges(header: bytes | None, size: int, part: object) -> None:
    assert parse_range(header, size) == part
