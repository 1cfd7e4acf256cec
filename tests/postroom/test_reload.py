"""SIGHUP: what changes while the server runs, what waits for a restart, and that a bad file changes nothing."""

import os
import resource
import signal
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import msgspec
import pytest

from postroom import descriptors
from postroom.config import Config, ConfigError, load
from postroom.reload import Change, Reloader, plan
from postroom.settings import BY_KEY, SETTINGS, Setting
from tests.live.api import Api
from tests.live.harness import Server
from tests.postroom.test_config import OTHER_VALUES, other_values
from web.options import WebOptions, adopt


def names(settings: tuple[Setting, ...]) -> list[str]:
    return [setting.name for setting in settings]


# -- the decision ----------------------------------------------------------------------------------------------


def test_a_changed_setting_comes_into_force_or_waits_as_the_table_says() -> None:
    current, wanted = load(), other_values()
    change = plan(current, wanted)
    different = [s for s in SETTINGS if OTHER_VALUES[s.name] and s.name != "ADMIN_TOKEN"]
    assert names(change.changed) == [s.name for s in different if s.reloads]
    assert set(names(change.waiting)) == {s.name for s in SETTINGS if not s.reloads}
    for setting in SETTINGS:
        source = wanted if setting.reloads else current
        if not setting.is_secret:
            assert getattr(change.config, setting.key) == getattr(source, setting.key), setting.name
        assert change.config.origins[setting.key] == source.origins[setting.key]


def test_what_waits_is_told_again_at_every_reload() -> None:
    wanted = load(flags={"bind": "127.0.0.1:1"})
    first = plan(load(), wanted)
    assert names(first.waiting) == names(plan(first.config, wanted).waiting) == ["BIND"]


def test_nothing_changed_is_no_change() -> None:
    token = {"POSTROOM_ADMIN_TOKEN": "t" * 40}
    change = plan(load(environment=token), load(environment=token))
    assert (change.changed, change.waiting) == ((), ())
    assert names(plan(load(environment=token), load()).waiting) == ["ADMIN_TOKEN"]


def test_values_that_go_together_only_after_a_restart_are_refused() -> None:
    """The reserve is made at start, and so is the log that it is compared with: neither may move alone."""
    current = load()
    wanted = load(flags={"max_body_bytes": "100MiB", "bodies_in_flight_bytes": "200MiB"})
    assert plan(current, wanted).config.max_body_bytes == 100 * 1024 * 1024
    alone = msgspec.structs.replace(wanted, bodies_in_flight_bytes=current.bodies_in_flight_bytes)
    with pytest.raises(ConfigError, match="BODIES_IN_FLIGHT_BYTES"):
        plan(current, alone)


def test_listeners_hear_of_the_old_and_the_new_configuration() -> None:
    heard: list[tuple[int, int]] = []
    wanted = load(flags={"page_bytes": "2MiB"})
    reloader = Reloader(load(), lambda: wanted)
    reloader.listeners.append(lambda old, new: heard.append((old.page_bytes, new.page_bytes)))
    reloader.reload()
    assert heard == [(1024 * 1024, 2 * 1024 * 1024)]
    assert reloader.config.page_bytes == wanted.page_bytes


def test_a_configuration_that_cannot_be_used_changes_nothing() -> None:
    def bad() -> Config:
        raise ConfigError("It is bad.")

    heard: list[Change] = []
    config = load()
    reloader = Reloader(config, bad)
    reloader.listeners.append(lambda old, new: heard.append(new))  # type: ignore[arg-type]  # never called
    reloader.reload()
    assert reloader.config is config
    assert heard == []


def test_everybody_who_holds_the_options_sees_the_new_ones() -> None:
    held = WebOptions()
    adopt(held, other_values().web)
    assert held == other_values().web


# -- a running server --------------------------------------------------------------------------------------------


class Reloading:
    """A server with a configuration file that a test writes."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "postroom.toml"
        self.file.write_text("")
        self.server = Server(folder / "data")

    def reload(self, text: str, said: str) -> None:
        """Write the file, send SIGHUP and return when the log says what is expected."""
        self.file.write_text(text)
        os.kill(self.server.pid, signal.SIGHUP)
        self.server.wait_for_output(said)


@pytest.fixture
def reloading(tmp_path: Path) -> Iterator[Reloading]:
    made = Reloading(tmp_path)
    with ExitStack() as stack:
        stack.push(made.server)
        made.server.start("--config", str(made.file))
        yield made


def test_a_running_server_takes_new_limits_and_says_what_waits(reloading: Reloading) -> None:
    server = reloading.server
    with Api(server.url, server.token) as api:
        slug = api.inbox()
        assert api.post(slug, bytes(2000)).status_code == 200
        assert api.messages(slug, bodies=True)["messages"][0]["untrusted"]["body_text"]
        reloading.reload(
            "max_body_bytes = 1000\nmax_streams = 7\nmcp_inline_body_bytes = 10\nretention_max_messages = 5\n"
            "wal_limit_bytes = '4MiB'\nlog_level = 'debug'\n",
            "settings wait for a restart",
        )
        assert api.post(slug, bytes(2000)).status_code == 413
        assert "body_truncated" in api.messages(slug, bodies=True)["messages"][0]
        figures = api.get("/stats")
        assert figures["waits"]["limit"] == 7
        fresh = api.inbox()
        assert api.get(f"/inboxes/{fresh}")["retention"]["max_messages"] == 5
        line = next(line for line in server.output.splitlines() if "settings reloaded" in line)
        for name in ("MAX_BODY_BYTES=1000", "MAX_STREAMS=7", "LOG_LEVEL=debug", "MCP_INLINE_BODY_BYTES=10"):
            assert name in line
        waits = next(line for line in server.output.splitlines() if "settings wait" in line)
        assert "WAL_LIMIT_BYTES" in waits
        assert "BIND" not in waits


def test_a_raised_inline_limit_also_counts_for_what_waits_hand_over(reloading: Reloading) -> None:
    server = reloading.server
    with Api(server.url, server.token) as api:
        slug = api.inbox()
        api.send(slug, b"x" * 20_000)
        waited = {"after": 0, "bodies": True, "timeout_seconds": 1}
        assert "body_truncated" in api.get(f"/inboxes/{slug}/wait", **waited)["messages"][0]
        reloading.reload("mcp_inline_body_bytes = '64KiB'", "settings reloaded")
        for _ in range(2):
            [first, *_] = api.get(f"/inboxes/{slug}/wait", **waited)["messages"]
            assert first["untrusted"]["body_text"] == "x" * 20_000
            api.send(slug, b"x" * 20_000)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("max_body_bytes = 'lots'", "must be a size"),
        ("max_body_bytes = 1000\ncolour = 1", "is not a setting"),
        ("max_body_bytes = ", "is not valid TOML"),
        ("max_body_bytes = '60MiB'", "BODIES_IN_FLIGHT_BYTES"),
    ],
)
def test_a_bad_file_changes_nothing_and_is_one_sentence_in_the_log(
    reloading: Reloading, text: str, sentence: str
) -> None:
    server = reloading.server
    reloading.reload(text, "nothing was reloaded")
    [line] = [line for line in server.output.splitlines() if "nothing was reloaded" in line]
    assert sentence in line
    with Api(server.url, server.token) as api:
        assert api.post(api.inbox(), bytes(2000)).status_code == 200
    reloading.reload("max_body_bytes = 1000", "settings reloaded")


def test_a_file_that_is_a_pipe_by_now_does_not_stop_the_server(reloading: Reloading) -> None:
    reloading.file.unlink()
    os.mkfifo(reloading.file)
    os.kill(reloading.server.pid, signal.SIGHUP)
    reloading.server.wait_for_output("nothing was reloaded")
    assert "is not a regular file" in reloading.server.output
    with Api(reloading.server.url, reloading.server.token) as api:
        assert api.post(api.inbox(), b"x").status_code == 200


def test_every_setting_that_reloads_is_one_of_the_web_layer_or_of_the_composition_root() -> None:
    """What storage and the listening socket were made with cannot change; nobody would tell them."""
    web = {field.name for field in msgspec.structs.fields(WebOptions)}
    elsewhere = {"log_format", "log_level", "mcp_inline_body_bytes", "pull_max_batch"}
    for key, setting in BY_KEY.items():
        if setting.reloads:
            assert key in web | elsewhere or key.startswith("retention_"), key


# -- descriptors ----------------------------------------------------------------------------------------------------


def test_the_soft_limit_of_descriptors_is_raised_to_the_hard_one() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    lower = 512
    resource.setrlimit(resource.RLIMIT_NOFILE, (lower, hard))
    try:
        assert descriptors.raise_limit() == (None if hard == resource.RLIM_INFINITY else hard)
        assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] == hard
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_limit_too_low_for_the_connections_is_said_at_start(tmp_path: Path) -> None:
    with Server(tmp_path / "data", max_connections=900_000) as server:
        server.wait_for_output("too few descriptors for MAX_CONNECTIONS")
        assert server.stop() == 0
