"""The pages about the API say what the server does: their examples are run, their tables are those of the code."""

import re
from collections.abc import Iterator
from itertools import takewhile
from pathlib import Path

import msgspec
import pytest

from actors.backups import Backups
from postroom.parsing import readable
from postroom.settings import BY_KEY
from storage.clock import wall_clock_us
from tests.actors.world import running
from tests.postroom.layout import laid_out
from tests.postroom.parameters import FORMS, rows
from tests.postroom.serverproc import ServerProcess
from tests.postroom.tour import API, BLOCK, api_text, commands_of, differences
from web.app import admin_routes, read_routes
from web.backups import BackupRoutes
from web.claims import REDACTED_HEADERS
from web.errors import STATUS
from web.ingest import Ingest
from web.limits import BodiesInFlight
from web.options import WebOptions
from web.pulse import Pulse
from web.routes import Route, RouteTable
from web.samples import Samples
from web.slots import Slots
from web.stats import Figures, Stats
from web.upstream.connections import Connections
from web.verify import model

PAGE = api_text()
WORDINGS = (
    model.MISSING,
    model.MALFORMED,
    model.OUTSIDE_TOLERANCE,
    model.UNKNOWN_KEY,
    model.MISMATCH,
    model.MISSING_CREDENTIALS,
    model.BAD_CREDENTIALS,
)
BESIDE_THE_TABLES = {
    "POST /in/{slug}",
    "PUT /in/{slug}",
    "GET /in/{slug}",
    "GET /healthz",
    "GET /readyz",
    "GET /openapi.json",
    "GET /metrics",
}
"""Routes that the front answers without a table of routes."""


def section(name: str) -> str:
    """Return the text below a heading, up to the next one of its level or above."""
    found = re.search(rf"^(#+) {re.escape(name)}\n", PAGE, re.M)
    assert found is not None, name
    rest = PAGE[found.end() :]
    end = re.search(rf"^#{{1,{len(found[1])}}} ", rest, re.M)
    return rest[: end.start()] if end else rest


def table_rows(text: str) -> list[list[str]]:
    """Return the cells of the first table of a text, without its head."""
    lines = text[text.index("\n|---") :].splitlines()[2:]
    body = takewhile(lambda line: line.startswith("|"), lines)
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in body]


async def routes() -> tuple[Route, ...]:
    async with running() as world:
        options = WebOptions()
        backups = Backups(world.store, Path(), wall_clock_us)  # nothing is copied here
        slots, connections, in_flight = Slots(1, 1), Connections(options), BodiesInFlight(1)
        stats = Stats(world.service, options, slots=slots, connections=connections, in_flight=in_flight)
        samples = Samples(world.service, Ingest(world.service, options, Path()))
        return (
            *read_routes(world.service, options, slots, Pulse()),
            *stats.routes(),
            *admin_routes(world.service, options),
            *BackupRoutes(backups).routes(),
            *samples.routes(),
        )


def calls() -> Iterator[tuple[str, str]]:
    """Give method and path of every call that an example makes."""
    for block in BLOCK.findall(PAGE):
        for command, _ in commands_of(block[1]):
            path = re.search(r"\$POSTROOM_URL(/[^\s?\"]+)", command)
            if path is not None:
                method = re.search(r"-X (\w+)", command)
                yield method[1] if method else "POST" if " -d " in command else "GET", path[1]


def test_the_examples_print_what_the_page_says(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "data") as server:
        for command, said, real in differences(API, laid_out, server):
            assert said == real, command


async def test_the_page_lists_every_route_and_no_other() -> None:
    listed = [name for row in table_rows(section("Routes")) for name in re.findall(r"`([^`]+)`", row[0])]
    assert len(set(listed)) == len(listed)
    assert set(listed) == {f"{route.method} {route.template}" for route in await routes()} | BESIDE_THE_TABLES


async def test_an_example_calls_every_route() -> None:
    table = RouteTable(await routes())
    called = set()
    for method, path in calls():
        found = table.match(path.encode())
        route = found.route(method) if found else None
        if route is not None:
            called.add(f"{route.method} {route.template}")
    assert {f"{route.method} {route.template}" for route in table.routes} <= called


def test_the_page_lists_every_error_code_with_its_status() -> None:
    listed = {code.strip("`"): int(status) for code, status, _ in table_rows(section("Errors"))}
    assert listed == STATUS


@pytest.mark.parametrize("name", FORMS)
def test_a_table_of_parameters_is_that_of_the_code(name: str) -> None:
    table = table_rows(PAGE[PAGE.index(f"<!-- parameters: {name} -->") :])
    assert [row[:3] for row in table] == rows(FORMS[name])
    assert all(row[3] for row in table)


def test_the_page_has_no_other_table_of_parameters() -> None:
    assert re.findall(r"<!-- parameters: (\w+) -->", PAGE) == list(FORMS)


def test_the_limits_of_ingest_are_the_settings_defaults() -> None:
    for row in table_rows(section("Limits, and the order of the checks")):
        for name in re.findall(r"`([A-Z_]+)`", row[2]):
            setting = BY_KEY[name.lower()]
            shown = readable(setting.default, setting.kind.unit)
            assert row[3] == (f"{shown} s" if name.endswith("_SECONDS") else shown), name


def test_the_page_names_what_is_redacted_and_every_general_verifier_and_verdict() -> None:
    for name in REDACTED_HEADERS:
        assert f"`{name.decode()}`" in section("A message"), name
    verifiers = section("Who wrote it: verifiers")
    for name in ("none", "hmac", "header", "basic"):
        assert f"**`{name}`**" in verifiers
    for words in WORDINGS:
        assert f"`{words}`" in verifiers


def test_the_page_tells_of_every_figure() -> None:
    told = [
        (group.strip("`"), set(re.findall(r"`([a-z_]+)`", row)))
        for group, row in table_rows(section("Figures"))
    ]
    for group, names in told:
        struct = msgspec.structs.fields(Figures)
        of_group = {field.name for field in struct if not is_group(field)}
        if group:
            [field] = [field for field in struct if field.name == group]
            of_group = {inner.name for inner in msgspec.structs.fields(field.type)}
        assert names - {"too_many_waits"} == of_group, group
    assert {group for group, _ in told} == {
        f.name for f in msgspec.structs.fields(Figures) if is_group(f)
    } | {""}


def is_group(field: msgspec.structs.FieldInfo) -> bool:
    return isinstance(field.type, type) and issubclass(field.type, msgspec.Struct)


def anchor(heading: str) -> str:
    """Return the name that a heading can be linked by."""
    return re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")
