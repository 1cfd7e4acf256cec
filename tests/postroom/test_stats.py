"""The figures of a server: what they count, who may see them, how they are printed."""

import json
import time

import pytest

from postroom.cli.stats import approximate_size, duration
from postroom.client import Client
from tests.postroom.commandproc import CommandProcess
from tests.postroom.conftest import Command
from tests.postroom.serverproc import ServerProcess
from tests.postroom.test_cli import fine, sentence

PATIENCE_SECONDS = 20


def figures(server: ServerProcess) -> dict[str, dict[str, int]]:
    with Client(server.url, server.token) as api:
        answer: dict[str, dict[str, int]] = api.json("GET", "/v1/stats")
    return answer


def until_open(server: ServerProcess, count: int) -> None:
    """Return when the server says that so many waits and streams are open."""
    give_up = time.monotonic() + PATIENCE_SECONDS
    while figures(server)["waits"]["open"] != count:
        assert time.monotonic() < give_up


def test_figures_move_with_what_happens(server: ServerProcess, command: Command) -> None:
    fine(command("inbox", "create", "counted", "--no-token"))
    before = figures(server)
    fine(command("send", "counted", "--data", "x"))
    after = figures(server)
    assert after["store"]["commits"] > before["store"]["commits"]
    assert after["store"]["units"] >= after["store"]["commits"]
    assert after["store"]["units_per_commit_max"] >= 1
    assert after["store"]["database_bytes"] > 0
    assert after["store"]["wal_bytes"] > 0
    assert after["store"]["state"] == "open"
    assert after["actors"]["running"] > 0
    assert after["actors"]["mailbox_peak"] >= 1
    assert after["actors"]["tail_bytes"] > before["actors"]["tail_bytes"]
    assert after["connections"]["open"] >= 1
    assert after["bodies"]["in_flight_bytes"] == 0


def test_open_waits_and_streams_are_counted_until_they_end(server: ServerProcess, command: Command) -> None:
    fine(command("inbox", "create", "watched", "--no-token"))
    fine(command("send", "watched", "--data", "x"))
    client = {"POSTROOM_URL": server.url, "POSTROOM_TOKEN": server.token}
    with CommandProcess("tail", "-f", "watched", "-n", "0", **client) as following:
        until_open(server, 1)
        fine(command("send", "watched", "--data", "y"))
        following.line()
        assert figures(server)["waits"]["open"] == 1
        following.interrupt()
    until_open(server, 0)


def test_the_command_prints_what_the_server_says(command: Command) -> None:
    document = json.loads(fine(command("stats", "--json")))
    shown = fine(command("stats"))
    assert document["version"] in shown
    for group, counted in document.items():
        if isinstance(counted, dict):
            assert f"{group} " in shown
    assert "waits limit" in shown
    assert "64 MiB" in shown


def test_only_an_administrator_sees_them(command: Command) -> None:
    created = json.loads(fine(command("inbox", "create", "blind", "--json")))
    assert "permission_denied" in sentence(command("stats", POSTROOM_TOKEN=created["token"]), 4)


@pytest.mark.parametrize(
    ("count", "shown"),
    [
        (0, "0 bytes"),
        (1023, "1,023 bytes"),
        (1536, "1.5 KiB"),
        (64 << 20, "64 MiB"),
        (5_000_000, "4.8 MiB"),
        (3 << 39, "1.5 TiB"),
    ],
)
def test_a_size_is_shown_in_its_unit(count: int, shown: str) -> None:
    assert approximate_size(count) == shown


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(7.24, "7.2 s"), (60, "1 min 0 s"), (3_725, "1 h 2 min"), (90_000, "1 d 1 h")],
)
def test_a_duration_is_shown_in_its_two_largest_units(seconds: float, shown: str) -> None:
    assert duration(seconds) == shown
