"""What the log must not hold, in either format."""

import io
import logging
from collections.abc import Iterator

import pytest
import structlog

from postroom.logs import configure


@pytest.fixture
def restored() -> Iterator[None]:
    """Put the process's logging back as it was."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    structlog.reset_defaults()


@pytest.mark.parametrize("log_format", ["console", "json"])
@pytest.mark.usefixtures("restored")
def test_a_logged_exception_tells_where_it_was_and_nothing_that_was_in_its_frames(log_format: str) -> None:
    out = io.StringIO()
    configure(log_format, "info", out)
    secret = "prm_admin_" + "x" * 43

    def handle(token: str) -> None:
        headers = [(b"authorization", token.encode())]
        raise ZeroDivisionError(len(headers))

    try:
        handle(secret)
    except ZeroDivisionError:
        structlog.get_logger("postroom.web").exception("a request failed", path="/v1/tokens")
    text = out.getvalue()
    assert "ZeroDivisionError" in text
    assert "handle" in text
    assert secret not in text
