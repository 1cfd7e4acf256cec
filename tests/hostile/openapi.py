"""schemathesis over `/openapi.json`, against a server in a process of its own.

It makes requests from the document, good and bad ones, and judges the answers by it: no 5xx, a status, type, headers
and shape that the document knows, and no request taken that the document forbids.
"""

import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.live.harness import Server
from tests.postroom.serverproc import clean_environment

KEPT = sorted((Path(__file__).parent / "corpus" / "openapi").iterdir())
"""Requests that once were trouble somewhere, or are of a kind that is. schemathesis keeps none between runs."""

CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
    "unsupported_method",
    "allow_header_conformance",
    "ignored_auth",
)
LEFT_OUT = ("/v1/stream", "/v1/inbox:stream", "/v1/inboxes/{slug}/stream")
"""Streams have no end that a tool for answers could wait for. They have suites of their own."""

EMPTY_AT_TIMES = ("look_at_inbox", "get_raw")
"""Left out, too: they answer 200 without content, and so without its type, which the tool asks of every 200."""

WAITS = ("/v1/inboxes/{slug}/wait", "/v1/inbox:wait")
"""Left out as well where there is no time for them: most of what is asked of them is to wait."""

REQUEST_SECONDS = 30.0
"""A wait takes as long as it is asked for, at most 25 s."""

_TESTED = re.compile(r"([\d,]+) (?:test cases?|generated)")


def run(
    server: Server,
    token: str,
    directory: Path,
    *options: str,
    without: Sequence[str] = (),
    seed: int | None = None,
) -> tuple[int, str]:
    """Run it with a token and return its exit code and what it said. `options` are its own, `without` more paths."""
    command = [
        str(Path(sys.executable).with_name("schemathesis")),
        "run",
        f"{server.url}/openapi.json",
        "--header",
        f"Authorization: Bearer {token}",
        "--checks",
        ",".join(CHECKS),
        "--request-timeout",
        str(REQUEST_SECONDS),
        "--warnings",
        "off",
        "--continue-on-failure",
        "--report",
        "har",
        "--report-dir",
        str(directory),
    ]
    for path in (*LEFT_OUT, *without):
        command += ["--exclude-path", path]
    for operation in EMPTY_AT_TIMES:
        command += ["--exclude-operation-id", operation]
    if seed is not None:
        command += ["--seed", str(seed)]
    done = subprocess.run(
        [*command, *options],
        cwd=directory,
        env={**clean_environment(), "PYTHONHASHSEED": "0", "NO_COLOR": "1"},
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
    )
    return done.returncode, done.stdout + done.stderr


def made_requests(said: str) -> str:
    """Return how many requests a run says that it has made."""
    found = _TESTED.findall(said)
    return found[-1] if found else "?"
