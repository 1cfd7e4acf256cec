"""The OpenAPI document: valid, complete, the same every time, and in words for who calls."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
import trio
from openapi_spec_validator import OpenAPIV31SpecValidator

from tests.openapi import Contract, within
from tests.postroom.fronts import front
from web.front import Front
from web.openapi.beside import BESIDE_THE_TABLES
from web.openapi.document import PATH
from web.openapi.operations import prose
from web.options import WebOptions

PROCESS_SECONDS = 60

OF_THE_PAGE = "/ui"
"""Routes below it show pages to people and are in no document."""

OF_THE_CODE = re.compile(r"\bRaises\b|`(?:web|actors|storage|postroom)[./]|\((?:surface|study)|\bmsgspec\b")

VERBS = (
    *(
        "Acknowledge",
        "Answer",
        "Begin",
        "Change",
        "Delete",
        "Describe",
        "Drop",
        "Erase",
        "Fetch",
        "Find",
        "Follow",
    ),
    *(
        "Give",
        "Issue",
        "List",
        "Make",
        "Place",
        "Publish",
        "Pull",
        "Read",
        "Remove",
        "Revoke",
        "Say",
        "See",
        "Send",
    ),
    *("Set", "Show", "Sign", "Tell"),
)
"""With which descriptions begin, so that none of them is half a sentence."""


@pytest.fixture(scope="module")
def application() -> Front:
    return trio.run(front)


@pytest.fixture(scope="module")
def contract(application: Front) -> Contract:
    return Contract(application.document.encoded)


def listed(contract: Contract) -> set[str]:
    return {
        f"{method.upper()} {path}"
        for path, methods in contract.document["paths"].items()
        for method in methods
    }


def operations(contract: Contract) -> Iterator[tuple[str, Any]]:
    for key in sorted(listed(contract)):
        yield key, contract.operation(key)


def tabled(application: Front) -> set[str]:
    """Return the routes of all tables, but for those of the page for people."""
    routes = application._table.routes
    return {f"{one.method} {one.template}" for one in routes if not one.template.startswith(OF_THE_PAGE)}


def test_the_document_is_valid(contract: Contract) -> None:
    assert [error.message for error in OpenAPIV31SpecValidator(contract.document).iter_errors()] == []


def test_the_document_has_every_route_of_the_tables_and_no_other(
    application: Front, contract: Contract
) -> None:
    beside = {operation.key for operation in BESIDE_THE_TABLES} | {f"GET {PATH}"}
    assert listed(contract) == tabled(application) | beside, "a route's line lacks its About"


def test_with_reading_off_the_document_has_only_what_is_on(contract: Contract) -> None:
    closed = Contract(trio.run(front, WebOptions(read_api_enabled=False)).document.encoded)
    gone = listed(contract) - listed(closed)
    assert listed(closed) < listed(contract)
    assert {"GET /v1/inboxes", "POST /v1/inbox:pull", "GET /agents"} <= gone
    assert {"POST /in/{slug}", "GET /healthz", "POST /v1/inboxes", f"GET {PATH}"} <= listed(closed)
    assert "Page" not in closed.document["components"]["schemas"]


def test_a_second_process_makes_the_same_bytes() -> None:
    script = (
        "import trio; from tests.postroom.fronts import front; print(trio.run(front).document.etag.decode())"
    )
    tags = set()
    for seed in ("1", "2"):
        run = subprocess.run(
            [sys.executable, "-c", script],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            timeout=PROCESS_SECONDS,
            check=True,
        )
        tags.add(run.stdout.splitlines()[-1])
    assert len(tags) == 1


def test_every_operation_has_a_name_of_its_own_and_words(contract: Contract) -> None:
    names = [operation["operationId"] for _, operation in operations(contract)]
    assert len(set(names)) == len(names)
    groups = {tag["name"] for tag in contract.document["tags"]}
    for key, operation in operations(contract):
        assert operation["summary"], key
        assert operation["description"], key
        assert set(operation["tags"]) <= groups, key


def test_a_description_begins_with_what_the_call_does(contract: Contract) -> None:
    for key, operation in operations(contract):
        words = operation["description"]
        assert words.partition(" ")[0].rstrip(",") in VERBS, (key, words)
        for sentence in re.split(r"(?<=[.]) ", words):
            assert len(sentence.split()) > 2, (key, words)


def test_every_parameter_and_every_member_of_a_body_is_told_of(contract: Contract) -> None:
    silent = []
    for key, operation in operations(contract):
        silent += [
            f"{key}: {one['name']}" for one in operation.get("parameters", ()) if not one.get("description")
        ]
        body = operation.get("requestBody", {}).get("content", {}).get("application/json", {})
        schema = body.get("schema", {})
        if "$ref" in schema:
            schema = contract.document["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
        silent += [
            f"{key}: {name}" for name, one in schema.get("properties", {}).items() if "description" not in one
        ]
    assert silent == []


def test_only_what_needs_no_token_says_so(contract: Contract) -> None:
    free = {key for key, operation in operations(contract) if operation["security"] == []}
    assert free == {operation.key for operation in BESIDE_THE_TABLES} | {f"GET {PATH}"}


def test_every_operation_tells_what_it_may_refuse(contract: Contract) -> None:
    for key, operation in operations(contract):
        statuses = set(operation["responses"])
        assert {"431", "500"} <= statuses, key
        if operation["security"]:
            assert {"401", "429", "503"} <= statuses, key
        assert ("422" in statuses) == (" /agent" in key), key
        assert ("408" in statuses) == ("requestBody" in operation), key


def test_the_words_are_for_who_calls(contract: Contract) -> None:
    for one in within(contract.document):
        for words in (one.get("description"), one.get("summary")):
            if isinstance(words, str):
                assert OF_THE_CODE.search(words) is None, words
                assert words.strip() == words != "", words


def test_every_example_is_as_its_schema_says(contract: Contract) -> None:
    judged = 0
    for key, operation in operations(contract):
        for media in operation.get("requestBody", {}).get("content", {}).values():
            if "example" in media:
                assert contract.faults_of_body(key, media["example"]) == [], key
                judged += 1
        for status in operation["responses"]:
            media = contract.answer(key, status).get("content", {}).get("application/json", {})
            shown = [media["example"]] if "example" in media else []
            shown += [example["value"] for example in media.get("examples", {}).values()]
            for example in shown:
                assert contract.faults_of_answer(key, status, example) == [], key
                judged += 1
    assert judged > len(listed(contract))


def test_large_numbers_and_times_are_told_to_generated_clients(contract: Contract) -> None:
    message = contract.document["components"]["schemas"]["Message"]["properties"]
    assert message["seq"] == {"type": "integer", "format": "int64"}
    assert message["received_at"] == {"type": "string", "format": "date-time"}
    assert "(?!" not in json.dumps(contract.document), "not every language knows how our patterns end"


def test_a_patch_takes_null_for_every_member_and_needs_none(contract: Contract) -> None:
    for key, nothing in (
        ("PATCH /v1/inboxes/{slug}", {"retention": {"max_bytes": None}, "verifier": None, "response": None}),
        ("PATCH /v1/tokens/{token_id}", {"inboxes": None, "expires_at": None}),
        ("POST /v1/inboxes", {"name": None, "retention": None, "verifier_options": {"header": "x"}}),
    ):
        assert contract.faults_of_body(key, {}) == []
        assert contract.faults_of_body(key, nothing) == []
        assert contract.faults_of_body(key, {"unknown": 1}) != []


def test_what_is_in_the_path_need_not_be_in_the_body(contract: Contract) -> None:
    assert contract.faults_of_body("PUT /v1/beacons/{name}", {"about": "deployments"}) == []
    assert contract.faults_of_body("PUT /v1/beacons", {"about": "deployments"}) != []
    assert contract.operation("PUT /v1/beacons/{name}")["requestBody"]["required"] is False


@pytest.mark.parametrize(
    ("docstring", "words"),
    [
        ("`DELETE /v1/things/{name}`: 204. The thing\n    is gone.", "The thing is gone."),
        ("`POST /v1/things`: 201 with the thing. Raises `ApiError`.", "The thing."),
        ("`GET` and `DELETE /v1/things/{name}`, `remove_thing`.", ""),
        ("`GET …/messages`, `read`: one page (surface, section 5).", "One page."),
        ("What it is. Decided in `web/things.py`. Nothing more.", "What it is. Nothing more."),
        ("`limit`, at most so many.", "`limit`, at most so many."),
        (None, ""),
    ],
)
def test_a_docstring_becomes_sentences_for_the_caller(docstring: str | None, words: str) -> None:
    assert prose(docstring) == words


def test_every_body_and_every_answer_of_json_is_shown(contract: Contract) -> None:
    """The examples themselves are judged above."""
    bare = []
    for key, operation in operations(contract):
        sent = operation.get("requestBody", {}).get("content", {}).get("application/json")
        if sent is not None and "example" not in sent:
            bare.append(f"the body of {key}")
        for status in operation["responses"]:
            media = contract.answer(key, status).get("content", {}).get("application/json", {})
            if status.startswith("2") and "schema" in media and "example" not in media:
                bare.append(f"{status} of {key}")
    assert bare == []


def test_every_media_type_of_an_answer_is_named(contract: Contract) -> None:
    content = contract.answer("GET /metrics", 200)["content"]
    assert set(content) == {"text/plain", "application/openmetrics-text"}
