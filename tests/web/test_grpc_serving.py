"""The life of the gRPC port: its start, its end in the middle of things, its failures; health and reflection."""

from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

import grpc
import pytest
import trio.testing
from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet
from grpc_tools import protoc
from grpclib.health.v1.health_pb2 import HealthCheckRequest, HealthCheckResponse
from grpclib.reflection.v1.reflection_pb2 import ServerReflectionRequest, ServerReflectionResponse
from structlog.testing import capture_logs

from tests.web.grpc_stack import grpc_stack, in_thread, item
from web.grpc import serve
from web.grpc.calls import handlers
from web.grpc.connections import Links
from web.grpc.inbox import PULL_INBOX
from web.grpc.postroom.v1 import inbox_pb2
from web.grpc.upstream import Link
from web.options import WebOptions
from web.pulling import PullPage
from web.upstream.connections import Connections

SERVING, NOT_SERVING, UNKNOWN = (
    HealthCheckResponse.SERVING,
    HealthCheckResponse.NOT_SERVING,
    HealthCheckResponse.SERVICE_UNKNOWN,
)


async def test_a_call_under_way_is_answered_before_the_end() -> None:
    async with grpc_stack() as stack:
        stack.pulling.gate = trio.Event()
        call = stack.channel.unary_unary(PULL_INBOX).future(b"", metadata=stack.credentials(), timeout=10)
        await stack.pulling.until(lambda pulling: pulling.under_way == 1)
        stack.stopping.set()
        await trio.testing.wait_all_tasks_blocked()
        stack.pulling.gate.set()
        assert (await in_thread(call.result)).code == "OK"
        with trio.fail_after(1):  # without waiting for anything else
            await stack.ended.wait()


async def test_a_call_that_takes_too_long_is_told_that_the_server_stops() -> None:
    async with grpc_stack() as stack:
        stack.pulling.gate = trio.Event()
        call = stack.channel.unary_unary(PULL_INBOX).future(b"", metadata=stack.credentials(), timeout=10)
        await stack.pulling.until(lambda pulling: pulling.under_way == 1)
        stack.stopping.set()
        reply = await in_thread(call.result)
        assert (reply.code, reply.trailers["postroom-code"]) == ("UNAVAILABLE", "shutting_down")
        assert stack.pulling.cancelled == 1


async def test_a_client_that_does_not_read_does_not_hold_up_the_end() -> None:
    async with grpc_stack() as stack, await stack.raw() as client:
        large = item(1, bytes(32 * 1024 * 1024))
        stack.pulling.page = PullPage(items=[large], cursor=0, window_high=1, has_more=False)
        client.h2.increment_flow_control_window(2**30)
        stream = await client.begin(client.head(token=stack.token))
        client.h2.increment_flow_control_window(2**30, stream)
        await client.flush()
        await stack.pulling.until(lambda pulling: pulling.asked and not pulling.under_way)
        stack.stopping.set()
        with trio.fail_after(4):
            await stack.ended.wait()


async def test_a_stopping_server_takes_no_calls_and_no_connections() -> None:
    async with grpc_stack() as stack, await stack.raw() as client:
        assert await client.status(await client.begin(client.head(token=stack.token))) == ("0", "")
        stack.pulling.gate = trio.Event()
        first = await client.begin(client.head(token=stack.token))
        await stack.pulling.until(lambda pulling: pulling.under_way == 1)
        stack.stopping.set()
        await client.until(lambda: client.goodbye)
        with pytest.raises(OSError, match="connect"):
            await trio.open_tcp_stream("127.0.0.1", stack.port)
        late = await client.begin(client.head(token=stack.token))
        assert (await client.status(late))[0] == str(grpc.StatusCode.UNAVAILABLE.value[0])
        stack.pulling.gate.set()
        assert await client.status(first) == ("0", "")
        await client.until(lambda: client.closed)


async def test_a_connection_that_comes_at_the_last_moment_does_not_hold_up_the_end() -> None:
    for _ in range(10):
        async with grpc_stack() as stack, await stack.raw():
            stack.stopping.set()
            with trio.fail_after(2):
                await stack.ended.wait()


async def test_the_end_leaves_nothing_and_says_nothing() -> None:
    with capture_logs() as lines:
        async with grpc_stack() as stack:
            tasks = trio.lowlevel.current_statistics().tasks_living
            assert (await stack.call()).code == "OK"
            async with await stack.raw() as client:
                await client.begin(client.head(token=stack.token))
                stack.stopping.set()
                with trio.fail_after(4):
                    await stack.ended.wait()
        assert trio.lowlevel.current_statistics().tasks_living < tasks
    assert [line for line in lines if line["log_level"] != "debug"] == []


def errors_of(lines: Sequence[Any]) -> list[str]:
    return [line["event"] for line in lines if line["log_level"] == "error"]


async def test_a_failure_of_the_whole_endpoint_is_logged_and_mended(monkeypatch: pytest.MonkeyPatch) -> None:
    broken = trio.Event()
    watch = Links.watch

    async def fail_once(links: Links, look: Any) -> None:
        if broken.is_set():
            await watch(links, look)
        await links._until(lambda: bool(links.live))
        broken.set()
        raise RuntimeError("a bug")

    monkeypatch.setattr(Links, "watch", fail_once)
    monkeypatch.setattr(serve, "RESTART_SECONDS", 0.1)
    with capture_logs() as lines:
        async with grpc_stack() as stack:
            async with await stack.raw() as client:
                await client.until(lambda: client.closed)
            with trio.fail_after(5):
                while not errors_of(lines):
                    await trio.lowlevel.checkpoint()
            assert (await stack.call()).code == "OK"
    assert errors_of(lines) == ["gRPC failed and is begun again"]


async def test_a_bug_in_a_callback_ends_its_connection_and_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """trio-asyncio's own way is to end the loop."""

    def fail(link: Link, data: bytes) -> None:
        raise RuntimeError("a bug")

    with capture_logs() as lines:
        async with grpc_stack() as stack, await stack.raw() as good:
            assert await good.status(await good.begin(good.head(token=stack.token))) == ("0", "")
            with monkeypatch.context() as patch:
                patch.setattr(Link, "data_received", fail)
                async with await stack.raw() as bad:
                    await bad.until(lambda: bad.closed)
            assert await good.status(await good.begin(good.head(token=stack.token))) == ("0", "")
    assert errors_of(lines) == ["a callback failed"]


async def test_a_failure_at_the_start_stops_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(services: Any, calls: Any) -> Any:
        handlers(services, calls)
        raise RuntimeError("a bug")

    monkeypatch.setattr(serve, "handlers", fail)
    with pytest.RaisesGroup(RuntimeError, flatten_subgroups=True):
        async with grpc_stack():
            pass


async def test_health_says_whether_the_server_is_ready() -> None:
    async with grpc_stack() as stack:
        for service in ("", "postroom.v1.Inbox"):
            assert (await stack.health(service)).message.status == SERVING
        stack.ready = False
        assert (await stack.health()).message.status == NOT_SERVING
        missing = await stack.health("postroom.v1.Outbox")
        assert (missing.code, missing.details) == ("NOT_FOUND", "There is no such service here.")


async def test_who_watches_health_is_told_of_changes_and_of_the_end() -> None:
    async with grpc_stack(keep_alive_seconds=1.0) as stack:
        watch = stack.channel.unary_stream(
            "/grpc.health.v1.Health/Watch",
            request_serializer=HealthCheckRequest.SerializeToString,
            response_deserializer=HealthCheckResponse.FromString,
        )(HealthCheckRequest(), timeout=10)

        async def next_status() -> Any:
            return (await in_thread(lambda: next(watch))).message.status

        assert await next_status() == SERVING
        stack.ready = False
        assert await next_status() == NOT_SERVING
        stack.ready = True
        assert await next_status() == SERVING
        with trio.fail_after(0.9):  # watchers are not waited for
            stack.stopping.set()
            assert await next_status() == NOT_SERVING
            assert (await in_thread(lambda: next(watch))).code == "UNAVAILABLE"
            await stack.ended.wait()


async def test_who_watches_a_service_that_there_is_not_is_told_so() -> None:
    async with grpc_stack() as stack:
        watch = stack.channel.unary_stream(
            "/grpc.health.v1.Health/Watch",
            request_serializer=HealthCheckRequest.SerializeToString,
            response_deserializer=HealthCheckResponse.FromString,
        )(HealthCheckRequest(service="none"), timeout=10)
        assert (await in_thread(lambda: next(watch))).message.status == UNKNOWN
        watch.cancel()


@pytest.mark.parametrize("version", ["v1", "v1alpha"])
async def test_reflection_gives_the_proto_file(version: str) -> None:
    """Both versions of the protocol have the same messages on the wire."""
    async with grpc_stack() as stack:
        method = stack.channel.stream_stream(
            f"/grpc.reflection.{version}.ServerReflection/ServerReflectionInfo",
            request_serializer=ServerReflectionRequest.SerializeToString,
            response_deserializer=ServerReflectionResponse.FromString,
        )
        questions = [
            ServerReflectionRequest(list_services="*"),
            ServerReflectionRequest(file_containing_symbol="postroom.v1.Inbox"),
            ServerReflectionRequest(file_by_filename="postroom/v1/inbox.proto"),
            ServerReflectionRequest(file_containing_symbol="postroom.v1.Outbox"),
        ]
        reply = await in_thread(lambda: list(method(iter(questions), timeout=5)))
    services, by_symbol, by_name, missing = reply.message
    assert {s.name for s in services.list_services_response.service} >= {
        "postroom.v1.Inbox",
        "grpc.health.v1.Health",
    }
    (file,) = by_symbol.file_descriptor_response.file_descriptor_proto
    assert FileDescriptorProto.FromString(file).name == "postroom/v1/inbox.proto"
    assert by_name.file_descriptor_response == by_symbol.file_descriptor_response
    assert missing.error_response.error_code == grpc.StatusCode.NOT_FOUND.value[0]


def test_the_generated_code_is_that_of_the_proto_file(tmp_path: Path) -> None:
    """Or else the package was not built again since the file has changed: `make` does it."""
    out = tmp_path / "set"
    arguments = [
        f"--proto_path={files('web.grpc')}",
        f"--descriptor_set_out={out}",
        "postroom/v1/inbox.proto",
    ]
    assert protoc.main(["protoc", *arguments]) == 0
    (wanted,) = FileDescriptorSet.FromString(out.read_bytes()).file
    for message in wanted.message_type:
        for field in message.field:
            field.ClearField("json_name")  # which only the set has
    has = FileDescriptorProto()
    inbox_pb2.DESCRIPTOR.CopyToProto(has)
    assert has == wanted


class Idle:
    """What is asked of a connection to make room."""

    def __init__(self, idle_since: float) -> None:
        self.idle_since = idle_since
        self.closed = False

    def say_goodbye(self) -> None:
        """It is told nothing."""

    def close(self) -> None:
        self.closed = True


async def test_room_is_made_by_the_connection_that_has_been_idle_longest() -> None:
    now = trio.current_time()
    newer, older, busy = Idle(now - 10), Idle(now - 20), Idle(float("inf"))
    links = Links(None, {}, WebOptions(), Connections(WebOptions()))
    links.live = {newer, older, busy}  # type: ignore[arg-type]  # what is asked of a connection
    assert links.make_room()
    assert (older.closed, newer.closed) == (True, False)
    assert links.make_room()
    assert newer.closed
    assert not links.make_room()
    assert not busy.closed
