"""The pages about the API and the OpenAPI document say the same: its examples are theirs, and all that they print is as
the document's schemas have it. And `docs/openapi.md` tells of the document.
"""

import re
import subprocess
import sys
from pathlib import Path

import pytest
import trio

from tests.openapi import Contract
from tests.postroom.api_page import FILE, Call, api_page, calls, operation_of, written
from tests.postroom.fronts import front
from tests.postroom.serverproc import ServerProcess
from tests.postroom.test_api_docs import anchor
from tests.postroom.tour import OPENAPI, ROOT, api_text, as_printed, by_kind, differences
from web.front import Front

PROCESS_SECONDS = 60


@pytest.fixture(scope="module")
def application() -> Front:
    return trio.run(front)


@pytest.fixture(scope="module")
def contract(application: Front) -> Contract:
    return Contract(application.document.encoded)


async def test_what_the_document_takes_from_the_page_is_what_the_page_says_now() -> None:
    assert by_kind(FILE.read_text()) == by_kind(written(await api_page())), (
        "python -m tests.postroom.api_page"
    )


def test_what_the_page_sends_and_prints_is_as_the_document_says(
    application: Front, contract: Contract
) -> None:
    sent, printed = 0, 0
    for call in calls(api_text()):
        operation = operation_of(call, application.document.operations)
        answer = call.answered
        content = contract.operation(operation.key)["responses"]
        if call.sent is not None and call.code is None:
            assert contract.faults_of_body(operation.key, call.sent) == [], call.command
            sent += 1
        if call.status is not None:
            assert str(call.status) in content or "2XX" in content, call.command
        if answer is not None and not _is_another_s(call):
            status = call.status or _status(operation.key, call, contract)
            assert contract.faults_of_answer(operation.key, status, answer) == [], call.command
            printed += 1
    assert sent > 30
    assert printed > 50


def test_a_call_of_the_page_is_understood() -> None:
    page = (
        "<!-- run -->\n```console\n"
        '$ curl -si $POSTROOM_URL/v1/me -H "$AUTH" \\\n>   -d \'{"a": 1}\'\n'
        'HTTP/1.1 201\ncache-control: no-store\n\n{"b": 2}\n'
        "$ status -X DELETE $POSTROOM_URL/v1/inboxes/a?x=1\n204\n"
        "$ curl -s $POSTROOM_URL/v1/me | grep -o x\nx\n$ other\n"
        '$ A=$(curl -s $POSTROOM_URL/v1/a -d \'{}\')\n$ echo "$A"\n{"c": 3}\n```\n'
    )
    assert [(c.method, c.path, c.sent, c.answered, c.status) for c in calls(page)] == [
        ("POST", "/v1/me", {"a": 1}, {"b": 2}, 201),
        ("DELETE", "/v1/inboxes/a", None, None, 204),
        ("GET", "/v1/me", None, None, None),
        ("POST", "/v1/a", {}, {"c": 3}, None),
    ]


def test_the_examples_show_no_token() -> None:
    shown = re.findall(r"prm_[a-z]+_(.)", FILE.read_text())
    assert shown
    assert set(shown) == {"…"}


def test_the_examples_of_the_page_about_the_document_print_what_it_says(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "data") as server:
        for command, said, real in differences(OPENAPI, as_printed, server):
            assert said == real, command


def test_a_checkout_writes_the_document_as_the_page_says(application: Front, tmp_path: Path) -> None:
    [line] = re.findall(r"<!-- checkout -->\n```sh\n(.*)\n```", OPENAPI.read_text())
    python, *words, file = line.split()
    assert python == ".venv/bin/python"
    words = [sys.executable, *words, str(tmp_path / file)]
    subprocess.run(words, cwd=ROOT, check=True, capture_output=True, timeout=PROCESS_SECONDS)
    assert (tmp_path / file).read_bytes() == application.document.encoded


def test_the_links_of_that_page_lead_somewhere() -> None:
    for link in re.findall(r"\]\(([^)]+)\)", OPENAPI.read_text()):
        page, _, place = link.partition("#")
        text = (OPENAPI.parent / page).read_text()
        assert not place or place in {anchor(heading) for heading in re.findall(r"^#+ (.+)$", text, re.M)}, (
            link
        )


def _is_another_s(call: Call) -> bool:
    """Whether what is answered is not of our making: a message's bytes, a provider's handshake."""
    return call.code is None and call.path.endswith(("/raw", "/in/talk"))


def _status(key: str, call: Call, contract: Contract) -> int:
    """Return the status with which an error comes, or else what succeeds."""
    answers = contract.operation(key)["responses"]
    if call.code is None:
        return min(int(status) for status in answers if status.isdigit())
    [status] = [one for one in answers if f"`{call.code}`" in contract.answer(key, one)["description"]]
    return int(status)
