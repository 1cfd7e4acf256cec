"""What strangers send is in no line of the log as they wrote it: no line of theirs, nothing that acts on a terminal."""

import io
import json
import logging

import pytest
import structlog

from postroom.logs import configure
from tests.live.api import Api
from tests.live.harness import Server
from tests.live.rawhttp import Sender, head

HOSTILE = (
    "x\n2026-01-01T00:00:00Z [info     ] ready",
    "x\r\x1b[2K[info] all is well",
    "\x1b]0;title\x07\x1b[31m",
    "\x9b31m",
    "\u202egnihtyna\u2066",
    "\u2028line\u2029",
    "a\x00b",
    "\ud800",
)


@pytest.mark.parametrize("text", HOSTILE, ids=ascii)
@pytest.mark.parametrize("log_format", ["console", "json"])
@pytest.mark.usefixtures("restored_logging")
def test_an_event_is_one_line_of_printable_characters(log_format: str, text: str) -> None:
    out = io.StringIO()
    configure(log_format, "info", out)
    structlog.get_logger("postroom.web").warning("refused", said=text, several=[text], of={"it": text})
    logging.getLogger("somebody.else").warning("refused: %s", text)
    lines = out.getvalue().removesuffix("\n").split("\n")
    assert len(lines) == 2
    assert all(line.isprintable() for line in lines), lines
    if log_format == "json":
        assert json.loads(lines[0])["said"] == text


@pytest.mark.usefixtures("restored_logging")
def test_a_traceback_keeps_its_lines() -> None:
    out = io.StringIO()
    configure("console", "info", out)
    try:
        raise ZeroDivisionError
    except ZeroDivisionError:
        structlog.get_logger("postroom.web").exception("a request failed", path="/x\ny")
    assert "\nTraceback (most recent call last):\n" in out.getvalue()
    assert "/x\\ny" in out.getvalue()


def test_requests_of_any_kind_leave_printable_lines_at_the_level_debug(
    server: Server, api: Api, sender: Sender
) -> None:
    odd = b"%1b%5b31m%0a[error]%e2%80%ae"
    wrong = b"Bearer prm_\x1b[31m\xe2\x80\xae"
    for target in (
        b"/in/demo/" + odd,
        b"/in/" + odd,
        b"/v1/inboxes/" + odd,
        b"/" + odd,
        b"/ui/" + odd,
        b"/mcp?" + odd,
    ):
        for method in (b"GET", b"POST", b"X!#$"):
            lines = [(b"Authorization", wrong), (b"X-Odd", b"\x1b[31m"), (b"User-Agent", b"\x9b31m")]
            sender.exchange(head(method, target, [*lines, (b"Content-Length", b"0")]), method=method.decode())
    api.get("/inboxes")
    server.wait_for_output("answered")
    for line in server.output.splitlines():
        assert line.isprintable(), line
        assert "31m" not in line, line
