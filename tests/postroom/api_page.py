"""What the OpenAPI document takes from the pages about the API (`tour.API`): examples, errors, tables of parameters.

`python -m tests.postroom.api_page` writes it to `web/openapi/page.json`, from which a server reads it.
"""

import json
import re
import shlex
from collections.abc import Iterable, Iterator
from itertools import takewhile
from typing import Any, NoReturn

import msgspec
import trio

from tests.postroom.fronts import front
from tests.postroom.parameters import FORMS
from tests.postroom.tour import BLOCK, ROOT, api_text, commands_of
from web.errors import STATUS
from web.http import Request
from web.openapi.about import Media
from web.openapi.operations import Operation
from web.openapi.page import ApiPage, Example
from web.routes import Route, RouteTable

FILE = ROOT / "web" / "openapi" / "page.json"

_URL = re.compile(r"\$POSTROOM_URL(/[^?]*)")
_LINK = re.compile(r"\[([^\]]+)\]\([^)]+\)")
_HEAD = re.compile(r"HTTP/1\.1 (\d{3})\n(?:[a-z-]+: .*\n)+\n")
_KEPT = re.compile(r"(\w+)=\$\((curl .*)\)", re.S)
_TAKE_A_VALUE = {"-H", "-A", "-o", "-m", "-r", "-w", "-X", "-d"}
_BESIDE_CURL = {"|", "&", "-o"}
"""Words after which what is printed is not the answer."""


class Call(msgspec.Struct, frozen=True):
    """One call of the page. `sent` and `answered` are objects, None where they are not, or not printed whole; `status`
    is None where it is not printed.
    """

    command: str
    method: str
    path: str
    sent: Any
    answered: Any
    status: int | None

    @property
    def code(self) -> str | None:
        """The code of the error that was answered."""
        error = (self.answered or {}).get("error")
        return error["code"] if isinstance(error, dict) and "code" in error else None


def calls(page: str) -> Iterator[Call]:
    """Give the calls that the page makes, by `curl` or its own `status`; also those whose answer is kept in a variable
    and then printed.
    """
    for block in BLOCK.findall(page):
        kept: dict[str, str] = {}
        for command, output in commands_of(block[1]):
            keeping = _KEPT.fullmatch(command)
            if keeping is not None:
                kept[f'echo "${keeping[1]}"'] = keeping[2]
            called = kept.pop(command, command)
            if called.startswith(("curl ", "status ")):
                yield from _call(called, output)


def _call(command: str, output: str) -> Iterator[Call]:
    words = shlex.split(command)
    given = {flag: words[n + 1] for n, flag in enumerate(words[:-1]) if flag in _TAKE_A_VALUE}
    for url in (found[1] for word in words if (found := _URL.match(word)) is not None):
        head = _HEAD.match(output)
        printed = words[0] == "curl" and _BESIDE_CURL.isdisjoint(words)
        yield Call(
            command,
            given.get("-X", "POST" if "-d" in given else "GET"),
            url,
            None if "$" in given.get("-d", "") else _object(given.get("-d", "")),
            _object(output[head.end() :] if head else output) if printed else None,
            int(head[1]) if head else int(output) if words[0] == "status" and output.strip() else None,
        )


def operation_of(call: Call, operations: Iterable[Operation]) -> Operation:
    """Return the operation that a call is of."""
    by_key = {operation.key: operation for operation in operations}
    if call.path.startswith("/in/"):
        return by_key[f"{call.method} /in/{{slug}}"]
    table = RouteTable(Route(one.method, one.template, _nobody) for one in by_key.values())
    found = table.match(call.path.encode())
    assert found is not None, call.command
    return by_key[f"{call.method} {found.routes[call.method].template}"]


async def _nobody(request: Request) -> NoReturn:
    raise AssertionError("nothing is called here")


def examples(page: str, operations: Iterable[Operation]) -> tuple[dict[str, Example], dict[str, Any]]:
    """Return the first example of each operation's body and success, by method and path, and of each error, by code."""
    operations = tuple(operations)
    requests: dict[str, Any] = {}
    answers: dict[str, dict[str, Any]] = {}
    errors: dict[str, Any] = {}
    for call in calls(page):
        operation = operation_of(call, operations)
        if call.code is not None:
            errors[call.code] = call.answered  # those of the page's section about errors come last
            continue
        if call.sent is not None:
            requests.setdefault(operation.key, call.sent)
        if call.answered is not None and not isinstance(operation.about.answers, Media):
            status = str(call.status or operation.about.status)
            answers.setdefault(operation.key, {}).setdefault(status, call.answered)
    shown = {
        operation.key: Example(requests.get(operation.key), answers.get(operation.key, {}))
        for operation in operations
        if operation.key in requests or operation.key in answers
    }
    return shown, errors


def codes(page: str) -> dict[str, str]:
    """Return the table of errors: when each comes, by code."""
    rows = table_rows(page[page.index("\n# Errors\n") :], r"`(?:" + "|".join(STATUS) + r")`")
    return {code.strip("`"): words(when) for code, _, when in rows}


def meanings(page: str) -> dict[str, dict[str, str]]:
    """Return the tables of parameters: what each member means, by form and member."""
    return {
        form.__name__: {
            member.strip("`"): words(meaning)
            for member, _, _, meaning in table_rows(page[page.index(f"<!-- parameters: {name} -->") :], "`")
        }
        for name, form in FORMS.items()
        if f"<!-- parameters: {name} -->" in page
    }


def table_rows(text: str, first: str) -> list[list[str]]:
    """Return the cells of the next table whose first cells match, without its head."""
    lines = text.splitlines()
    start = next(n for n, line in enumerate(lines) if re.match(rf"\| {first}", line))
    body = takewhile(lambda line: line.startswith("|"), lines[start:])
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in body]


def words(cell: str) -> str:
    """Return what a cell says, without its links."""
    return _LINK.sub(r"\1", cell).replace("\\|", "|")


async def api_page() -> ApiPage:
    """Return what the page says now."""
    page = api_text()
    operations = (await front()).document.operations
    shown, errors = examples(page, operations)
    return ApiPage(shown, errors, codes(page), meanings(page))


def written(page: ApiPage) -> str:
    """Return the text of the file."""
    return json.dumps(msgspec.to_builtins(page), indent=1, ensure_ascii=False) + "\n"


def _object(text: str) -> Any:
    try:
        value = json.loads(text)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


if __name__ == "__main__":
    FILE.write_text(written(trio.run(api_page)))
