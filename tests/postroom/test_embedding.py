"""A server inside another trio program: what its handle does, how it ends, and what of the program it leaves alone."""

import gc
import logging
import os
import signal
import sys
import threading
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

import pytest
import trio
import trio.testing

import postroom
from actors.router import Router
from postroom.config import Config
from tests.live.harness import connect
from tests.wire.client import head

SECONDS = 20.0
"""For a whole test, on a busy machine."""


def config(tmp_path: Path, **settings: Any) -> Config:
    return postroom.configure(data_dir=tmp_path / "data", bind="127.0.0.1:0", **settings)


def seqs(page: dict[str, Any]) -> list[int]:
    return [message["seq"] for message in page["messages"]]


async def test_it_appends_waits_and_reads_without_a_port(tmp_path: Path) -> None:
    with trio.fail_after(SECONDS):
        async with postroom.open(config(tmp_path), http=False) as server:
            assert server.url == ""
            await server.create_inbox("orders")
            waited: list[dict[str, Any]] = []

            async def wait() -> None:
                waited.append(await server.wait("orders", after=0, bodies=True))

            async with trio.open_nursery() as nursery:
                nursery.start_soon(wait)
                await trio.testing.wait_all_tasks_blocked()
                placed = await server.append(
                    "orders", '{"order": 7}', content_type="application/json", event_type="placed"
                )
            assert (placed.seq, placed.duplicate) == (1, False)
            [page] = waited
            [message] = page["messages"]
            assert message["id"] == placed.id
            assert message["untrusted"]["body"] == {"order": 7}
            assert message["untrusted"]["event_type"] == "placed"
            assert (page["next_after"], page["gap"]) == (1, False)
            facts = {"method", "source_ip", "verified", "verifier", "verify_error", "sender"}
            assert {message[name] for name in facts} == {None}
            assert await server.message("orders", 1) == message
            assert await server.body("orders", 1) == b'{"order": 7}'
            assert seqs(await server.query("orders", types=["other"], after=0)) == []
            assert (await server.wait("orders", after=1, timeout_seconds=0))["messages"] == []


async def test_it_is_one_server_with_and_without_http(tmp_path: Path) -> None:
    with trio.fail_after(SECONDS):
        async with postroom.open(config(tmp_path)) as server:
            token = [("Authorization", f"Bearer {server.admin_token}")]
            made = await server.create_inbox("hooks", name="Hooks")
            assert made["ingest_url"] == f"{server.url}/in/hooks"
            port = int(server.url.rpartition(":")[2])
            async with await connect(port) as client, await connect(port) as waiter:
                assert (await client.request("POST", "/in/hooks", body=b"one")).json["seq"] == 1
                assert (await server.message("hooks", 1))["untrusted"]["body_text"] == "one"
                await waiter.send(head("GET", "/v1/inboxes/hooks/wait?after=1", token))
                await server.append("hooks", b"two")
                assert seqs((await waiter.reply("GET")).json) == [2]


async def test_what_was_appended_is_there_at_the_next_start(tmp_path: Path) -> None:
    with trio.fail_after(SECONDS):
        for start in (1, 2):
            async with postroom.open(config(tmp_path), http=False) as server:
                assert (server.admin_token is None) is (start == 2)
                await server.create_inbox("orders", exist_ok=True)
                assert (await server.append("orders", "x", delivery_id=str(start))).seq == start


async def test_a_delivery_id_is_taken_once(tmp_path: Path) -> None:
    with trio.fail_after(SECONDS):
        async with postroom.open(config(tmp_path), http=False) as server:
            await server.create_inbox("orders")
            await server.create_inbox("all", dedupe_window_seconds=0)
            first = await server.append("orders", b"1", delivery_id="d")
            again = await server.append("orders", b"2", delivery_id="d")
            assert (again.id, again.seq, again.duplicate) == (first.id, first.seq, True)
            assert [(await server.append("all", b"1", delivery_id="d")).seq for _ in range(2)] == [1, 2]


async def test_a_large_body_is_kept_whole(tmp_path: Path) -> None:
    body = bytes(range(256)) * 2_000
    with trio.fail_after(SECONDS):
        async with postroom.open(config(tmp_path), http=False) as server:
            await server.create_inbox("orders")
            assert (await server.append("orders", body, delivery_id="d")).seq == 1
            assert (await server.append("orders", body, delivery_id="d")).duplicate
            assert await server.body("orders", 1) == body


@pytest.mark.parametrize(
    ("call", "arguments", "code", "field"),
    [
        ("append", {"slug": "nowhere", "body": b""}, "not_found", None),
        ("append", {"slug": "commons", "body": b""}, "invalid_argument", "slug"),
        ("append", {"slug": "demo", "body": bytes(1025)}, "payload_too_large", None),
        ("append", {"slug": "demo", "body": b"", "event_type": "x" * 201}, "invalid_argument", "event_type"),
        ("append", {"slug": "demo", "body": b"", "event_type": "a\nb"}, "invalid_argument", "event_type"),
        ("append", {"slug": "demo", "body": b"", "kind": "x"}, "invalid_argument", "kind"),
        ("query", {"slug": "nowhere"}, "not_found", None),
        ("query", {"slug": "demo", "after": 9}, "cursor_ahead", "after"),
        ("query", {"slug": "demo", "limit": 101}, "invalid_argument", "limit"),
        ("wait", {"slug": "demo"}, "invalid_argument", "after"),
        ("wait", {"slug": "demo", "after": 0, "epoch": "of another life"}, "epoch_changed", "epoch"),
        ("message", {"slug": "demo", "seq": 1}, "not_found", "seq"),
        ("body", {"slug": "demo", "seq": 0}, "invalid_argument", "seq"),
        ("create_inbox", {"slug": "demo"}, "conflict", "slug"),
        ("create_inbox", {"slug": "new", "verifier": "nobody"}, "invalid_argument", "verifier"),
    ],
)
async def test_a_refusal_has_the_code_and_the_field_of_the_api(
    tmp_path: Path, call: str, arguments: dict[str, Any], code: str, field: str | None
) -> None:
    settings = config(tmp_path, max_body_bytes=1024, bodies_in_flight_bytes="1MiB")
    with trio.fail_after(SECONDS):
        async with postroom.open(settings, http=False) as server:
            with pytest.raises(postroom.ApiError) as refused:
                await getattr(server, call)(**arguments)
    assert (refused.value.code, refused.value.field) == (code, field)


async def test_after_the_block_every_call_is_refused(tmp_path: Path) -> None:
    with trio.fail_after(SECONDS):
        async with postroom.open(config(tmp_path), http=False) as server:
            await server.append("demo", b"")
        for call in (
            partial(server.append, "demo", b""),
            partial(server.query, "demo"),
            partial(server.wait, "demo", after=1),
        ):
            with pytest.raises(postroom.ApiError) as refused:
                await call()
            assert refused.value.code == "shutting_down"


# -- the end ------------------------------------------------------------------------------------------------------


async def count(tmp_path: Path, **settings: Any) -> int:
    """Open the data directory again and return how many messages `demo` has: it was let go of in order."""
    async with postroom.open(config(tmp_path, **settings), http=False) as server:
        latest: int = (await server.query("demo"))["latest_seq"]
        return latest


@pytest.mark.parametrize(
    "error", [ValueError("mine"), KeyboardInterrupt(), BaseExceptionGroup("g", [OSError()])]
)
async def test_what_the_block_raises_comes_through_as_it_is(tmp_path: Path, error: BaseException) -> None:
    async def block() -> NoReturn:
        async with postroom.open(config(tmp_path)) as server:
            await server.append("demo", b"")
            raise error

    with trio.fail_after(SECONDS):
        with pytest.raises(type(error)) as raised:
            await block()
        assert raised.value is error
        assert await count(tmp_path) == 1


async def test_a_cancelled_block_ends_the_server_in_order(tmp_path: Path) -> None:
    with trio.fail_after(SECONDS):
        with trio.CancelScope() as outer:
            async with postroom.open(config(tmp_path)) as server:
                await server.append("demo", b"")
                outer.cancel()
                await trio.sleep_forever()
        assert outer.cancelled_caught
        assert await count(tmp_path) == 1


async def test_a_start_that_is_cancelled_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def hang(self: Router, *, task_status: object) -> NoReturn:
        await trio.sleep_forever()
        raise AssertionError

    with trio.fail_after(SECONDS):
        with monkeypatch.context() as patched, trio.move_on_after(0.2) as outer:
            patched.setattr(Router, "run", hang)
            async with postroom.open(config(tmp_path)):
                raise AssertionError("it has not started")
        assert outer.cancelled_caught
        assert await count(tmp_path) == 0


@pytest.mark.parametrize("asleep", [True, False], ids=["asleep", "on its way"])
async def test_a_wait_of_another_task_ends_with_the_server(tmp_path: Path, asleep: bool) -> None:
    ended: list[dict[str, Any]] = []
    begun = trio.Event()
    with trio.fail_after(SECONDS):
        async with trio.open_nursery() as nursery, postroom.open(config(tmp_path), http=False) as server:

            async def wait() -> None:
                begun.set()
                ended.append(await server.wait("demo", after=0, timeout_seconds=60))

            nursery.start_soon(wait)
            await begun.wait()
            if asleep:
                await trio.testing.wait_all_tasks_blocked(0.1)
    assert [seqs(page) for page in ended] == [[]]


async def test_a_call_that_is_under_way_at_the_end_is_finished(tmp_path: Path) -> None:
    done: list[postroom.Appended] = []
    begun = trio.Event()
    with trio.fail_after(SECONDS):
        async with trio.open_nursery() as nursery, postroom.open(config(tmp_path), http=False) as server:

            async def append() -> None:
                begun.set()
                done.append(await server.append("demo", bytes(1_000_000)))  # five transactions

            nursery.start_soon(append)
            await begun.wait()
        assert [appended.seq for appended in done] == [1]
        assert await count(tmp_path) == 1


async def test_what_prevents_a_start_is_raised_before_the_block(tmp_path: Path) -> None:
    with trio.fail_after(SECONDS):
        assert await count(tmp_path / "x", admin_token="x" * 40) == 0
        async with postroom.open(config(tmp_path)) as server:
            with pytest.raises(postroom.DataDirectoryError, match="in use by another Postroom"):
                await count(tmp_path)
            taken = server.url.removeprefix("http://")
            other = postroom.configure(data_dir=tmp_path / "other", bind=taken)
            with pytest.raises(postroom.CannotListen, match="in use by another program"):
                async with postroom.open(other):
                    raise AssertionError("two on one port")
            with pytest.raises(postroom.ConfigError, match="ADMIN_TOKEN"):
                await count(tmp_path / "x", admin_token="y" * 40)


# -- the program around it ------------------------------------------------------------------------------------------


async def test_two_servers_live_in_one_program(tmp_path: Path) -> None:
    with trio.fail_after(SECONDS):
        async with (
            postroom.open(config(tmp_path / "a")) as one,
            postroom.open(config(tmp_path / "b")) as other,
        ):
            await one.append("demo", b"one")
            assert one.url != other.url
            assert (await other.query("demo"))["latest_seq"] == 0


async def test_nothing_of_the_process_is_changed(tmp_path: Path) -> None:
    def settings() -> dict[str, object]:
        root = logging.getLogger()
        return {
            "signals": [
                signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
            ],
            "switching": sys.getswitchinterval(),
            "collector": (gc.get_threshold(), gc.get_freeze_count()),
            "logging": (root.level, list(root.handlers), logging.getLogger("httpx").level),
            "environment": dict(os.environ),
            "hooks": (sys.excepthook, threading.excepthook, sys.unraisablehook),
        }

    before, threads = settings(), set(threading.enumerate())
    with trio.fail_after(SECONDS):
        async with postroom.open(config(tmp_path)) as server:
            await server.append("demo", b"")
            assert settings() == before
    assert settings() == before
    ours = [thread for thread in set(threading.enumerate()) - threads if "Trio thread" not in thread.name]
    assert ours == []


def test_the_environment_is_another_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POSTROOM_BIND", "nonsense")
    assert postroom.configure().bind == "127.0.0.1:8025"


def test_settings_are_given_as_values_and_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "postroom.toml").write_text('bind = "127.0.0.1:1"\npage_bytes = "64KiB"\n')
    made = postroom.configure(
        tmp_path / "postroom.toml",
        bind="127.0.0.1:2",
        data_dir=tmp_path,
        retention_max_messages=None,
        trusted_proxies=("10.0.0.0/8",),
        mcp_enabled=False,
        body_timeout_seconds=2.5,
    )
    assert (made.bind, made.page_bytes, made.data_dir) == ("127.0.0.1:2", 65_536, tmp_path)
    assert (made.retention_max_messages, made.mcp_enabled, made.body_timeout_seconds) == (None, False, 2.5)
    assert made.trusted_proxies == ("10.0.0.0/8",)
    assert made.origins["bind"] == "program"
    with pytest.raises(postroom.ConfigError, match=r"^bind must be"):
        postroom.configure(bind="nonsense")
    with pytest.raises(postroom.ConfigError, match="did you mean data_dir"):
        postroom.configure(data_dirs="x")


def test_the_package_says_what_it_has_and_no_more() -> None:
    for name in postroom.__all__:
        assert getattr(postroom, name) is not None
    with pytest.raises(AttributeError, match="nothing_of_the_kind"):
        _ = postroom.nothing_of_the_kind
