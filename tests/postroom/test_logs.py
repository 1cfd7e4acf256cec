"""What the log must not hold, in either format."""

import io
import json
import logging
from pathlib import Path

import pytest
import structlog

from postroom.logs import configure


@pytest.mark.parametrize("log_format", ["console", "json"])
@pytest.mark.usefixtures("restored_logging")
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


def parse(text: str) -> int:
    return int(text)


def fail(text: str) -> None:
    """Raise with a text in every message: of a cause, of its consequence, and of one in a group."""
    try:
        parse(text)
    except ValueError as error:
        group = ExceptionGroup(text, [KeyError(text), OSError(28, "No space left on device", text)])
        raise RuntimeError(text) from ExceptionGroup(text, [group, error])


@pytest.mark.parametrize("log_format", ["console", "json"])
@pytest.mark.usefixtures("restored_logging")
def test_a_traceback_has_types_and_places_and_nothing_of_what_an_exception_says(log_format: str) -> None:
    out, said = io.StringIO(), "-".join(("of", "somebody"))
    configure(log_format, "info", out)
    try:
        fail(said)
    except RuntimeError:
        structlog.get_logger("postroom.web").exception("a request failed")
        logging.getLogger("somebody.else").exception("it failed")
    text = out.getvalue()
    assert said not in text
    for kind in ("RuntimeError", "ExceptionGroup", "KeyError", "ValueError"):
        assert text.count(kind) >= 2, kind
    assert "No space left on device" in text
    assert "return int(text)" in text
    assert f"{Path(__file__).name}" in text


@pytest.mark.usefixtures("restored_logging")
def test_a_traceback_for_people_reads_as_python_s_own() -> None:
    out = io.StringIO()
    configure("console", "info", out)
    try:
        try:
            parse("x")
        except ValueError:
            {}["y"]
    except KeyError:
        structlog.get_logger().exception("failed")
    lines = [line.strip() for line in out.getvalue().splitlines()]
    begins = [n for n, line in enumerate(lines) if line == "Traceback (most recent call last):"]
    assert len(begins) == 2
    assert lines.index("ValueError") < begins[1]
    assert "During handling of the above exception, another exception occurred:" in lines
    assert lines[-1] == "KeyError"


@pytest.mark.usefixtures("restored_logging")
def test_exceptions_that_led_to_each_other_in_a_circle_are_told_once() -> None:
    out = io.StringIO()
    configure("json", "info", out)
    first, second = ValueError(), KeyError()
    first.__context__, second.__context__ = second, first
    structlog.get_logger().error("failed", exc_info=first)
    assert [one["exc_type"] for one in json.loads(out.getvalue())["exception"]] == ["KeyError", "ValueError"]
