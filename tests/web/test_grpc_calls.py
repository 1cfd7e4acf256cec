"""Pulling over gRPC as the official client sees it: pages, refusals, deadlines, many calls at once."""

import json
from typing import Any

import grpc
import pytest
import trio.testing
from grpclib.const import Status
from structlog.testing import capture_logs

from storage.errors import StorageClosed, StorageFull
from tests.web.grpc_stack import Reply, grpc_stack, in_thread, item
from web import errors
from web.errors import ApiError
from web.grpc.inbox import PULL_INBOX
from web.grpc.postroom.v1.inbox_pb2 import Delivery, Item, PullInboxRequest, PullInboxResponse
from web.grpc.statuses import STATUSES
from web.mail_params import PullInbox
from web.pulling import PullPage

MIB = 1024 * 1024


def page_of_a_mebibyte() -> PullPage:
    """Return a page as large as pages are."""
    body = json.dumps({"untrusted": {"text": "x" * 10_500}}).encode()
    return PullPage(items=[item(n, body) for n in range(1, 101)], cursor=0, window_high=100, has_more=True)


async def test_a_page_arrives_with_its_json_byte_for_byte() -> None:
    diff = b'{"untrusted":{"text":"\xc3\xa4 \xe2\x82\xac","body":{"n":1.10,"n":1e400}}}'
    async with grpc_stack() as stack:
        stack.pulling.page = PullPage(
            items=[
                item(41, diff, score=0.75, via="beacon:deploys", also_via=["b"], matched_terms=["x", "é"])
            ],
            cursor=38,
            window_high=42,
            has_more=True,
        )
        reply = await stack.call()
        assert stack.calls.counts == {"OK": 1}
    assert reply.message == PullInboxResponse(
        items=[
            Item(
                delivery_seq=41,
                diff_json=diff,
                delivery=Delivery(
                    delivery_seq=41,
                    score=0.75,
                    via="beacon:deploys",
                    also_via=["b"],
                    matched_terms=["x", "é"],
                    delivered_at="2026-01-01T00:00:00.000000Z",
                ),
            )
        ],
        cursor=38,
        window_high=42,
        has_more=True,
    )


@pytest.mark.parametrize(
    "given",
    [{}, {"since": 0}, {"ack": 0}, {"since": 2**63 - 1, "ack": 7, "limit": 2**31 - 1}, {"limit": 1}],
    ids=str,
)
async def test_an_argument_that_is_zero_is_not_one_that_is_absent(given: dict[str, int]) -> None:
    async with grpc_stack() as stack:
        assert (await stack.call(PullInboxRequest(**given))).code == "OK"
        assert stack.pulling.asked == [PullInbox(**given)]
        assert stack.pulling.callers[0].token.kind == "agent"


@pytest.mark.parametrize(
    ("field", "value"), [("since", -1), ("since", -(2**63)), ("ack", -1), ("limit", 0), ("limit", -5)]
)
async def test_a_bad_argument_is_named(field: str, value: int) -> None:
    async with grpc_stack() as stack:
        reply = await stack.call(PullInboxRequest(**{field: value}))
        assert stack.pulling.asked == []
    assert (reply.code, reply.trailers["postroom-field"]) == ("INVALID_ARGUMENT", field)
    assert reply.details.startswith(f"{field}: Expected a whole number")
    assert reply.trailers["postroom-code"] == "invalid_argument"


@pytest.mark.parametrize(
    "metadata",
    [
        [],
        [("authorization", "Bearer wrong")],
        [("authorization", "")],
        [("authorization", "Basic dXNlcg==")],
        [("token", "wrong")],
    ],
    ids=str,
)
async def test_a_call_without_a_valid_token_is_unauthenticated(metadata: Any) -> None:
    async with grpc_stack() as stack:
        reply = await stack.call(metadata=metadata)
        assert (reply.code, reply.trailers["postroom-code"]) == ("UNAUTHENTICATED", "unauthenticated")
        assert stack.pulling.asked == []


async def test_two_tokens_are_no_token() -> None:
    async with grpc_stack() as stack:
        reply = await stack.call(metadata=stack.credentials() + stack.credentials())
    assert reply.code == "UNAUTHENTICATED"


async def test_a_revoked_token_is_refused_on_the_next_call() -> None:
    async with grpc_stack() as stack:
        record, token = stack.world.tokens.draft("agent", inboxes=())
        await stack.world.tokens.create(record)
        assert (await stack.call(metadata=stack.credentials(token))).code == "OK"
        await stack.world.tokens.revoke(record.token_id)
        assert (await stack.call(metadata=stack.credentials(token))).code == "UNAUTHENTICATED"
        assert stack.calls.counts == {"OK": 1, "UNAUTHENTICATED": 1}


async def test_wrong_tokens_are_limited_by_address_and_a_valid_one_never_is() -> None:
    async with grpc_stack(auth_failures_per_minute=2) as stack:
        codes = [(await stack.call(metadata=stack.credentials("wrong"))).code for _ in range(2)]
        limited = await stack.call(metadata=stack.credentials("wrong"))
        assert codes == ["UNAUTHENTICATED"] * 2
        assert limited.code == "RESOURCE_EXHAUSTED"
        assert limited.trailers["postroom-code"] == "rate_limited"
        assert int(limited.trailers["retry-after"]) >= 1
        assert (await stack.call()).code == "OK"
        assert (await stack.call(metadata=())).code == "UNAUTHENTICATED"


async def test_wrong_tokens_behind_a_trusted_proxy_are_counted_by_client() -> None:
    async with grpc_stack(auth_failures_per_minute=1, trusted_proxies=("127.0.0.0/8",)) as stack:
        codes = [
            (await stack.call(metadata=[*stack.credentials("wrong"), ("x-forwarded-for", client)])).code
            for client in ("192.0.2.1", "192.0.2.2", "192.0.2.1")
        ]
    assert codes == ["UNAUTHENTICATED", "UNAUTHENTICATED", "RESOURCE_EXHAUSTED"]


async def test_with_the_read_api_off_nothing_is_pulled() -> None:
    async with grpc_stack(read_api_enabled=False) as stack:
        reply = await stack.call()
        assert (reply.code, stack.pulling.asked) == ("NOT_FOUND", [])
        assert (await stack.call(metadata=())).code == "UNAUTHENTICATED"


@pytest.mark.parametrize(
    ("error", "code", "word"),
    [
        (ApiError("permission_denied", "Not an agent."), "PERMISSION_DENIED", "permission_denied"),
        (ApiError("busy", "Later.", retry_after=7), "UNAVAILABLE", "busy"),
        (StorageClosed(), "UNAVAILABLE", "shutting_down"),
        (StorageFull(), "RESOURCE_EXHAUSTED", "insufficient_storage"),
    ],
    ids=lambda value: str(value),
)
async def test_a_fault_below_becomes_its_status(error: Exception, code: str, word: str) -> None:
    async with grpc_stack() as stack:
        stack.pulling.error = error
        reply = await stack.call()
    assert (reply.code, reply.trailers["postroom-code"]) == (code, word)
    assert reply.trailers.get("retry-after") == {"busy": "7", "shutting_down": "1"}.get(word)


async def test_a_bug_is_logged_once_and_told_without_a_word_of_it() -> None:
    async with grpc_stack() as stack:
        stack.pulling.error = RuntimeError("a secret in /srv/data")
        with capture_logs() as lines:
            reply = await stack.call()
        assert len(reply.trailers.pop("postroom-request-id")) == 16
        assert reply == Reply(
            "INTERNAL",
            None,
            "Something went wrong in the server; it has been logged.",
            {"postroom-code": "internal"},
        )
        assert [(line["event"], line["exc_info"]) for line in lines] == [
            ("a call failed", stack.pulling.error)
        ]
        stack.pulling.error = None
        assert (await stack.call()).code == "OK"


def test_every_error_of_the_surface_has_a_status() -> None:
    assert STATUSES.keys() == errors.STATUS.keys()
    assert Status.OK not in STATUSES.values()
    for named in (
        "UNAUTHENTICATED",
        "INVALID_ARGUMENT",
        "PERMISSION_DENIED",
        "RESOURCE_EXHAUSTED",
        "UNAVAILABLE",
    ):
        assert Status[named] in STATUSES.values()


async def test_a_client_that_cancels_or_runs_out_of_time_ends_the_pull() -> None:
    async with grpc_stack() as stack:
        stack.pulling.gate = trio.Event()
        with capture_logs() as lines:
            assert (await stack.call(timeout=0.2)).code == "DEADLINE_EXCEEDED"
            await stack.pulling.until(lambda pulling: pulling.cancelled == 1)
            method = stack.channel.unary_unary(PULL_INBOX)
            future = method.future(b"", metadata=stack.credentials())
            await stack.pulling.until(lambda pulling: pulling.under_way == 1)
            future.cancel()
            await stack.pulling.until(lambda pulling: pulling.cancelled == 2)
        stack.pulling.gate.set()
        assert (await stack.call()).code == "OK"
    assert lines == []


async def test_many_calls_with_pages_of_a_mebibyte_at_once() -> None:
    async with grpc_stack() as stack:
        stack.pulling.page = page = page_of_a_mebibyte()
        method = stack.channel.unary_unary(PULL_INBOX, response_deserializer=PullInboxResponse.FromString)

        def pull_all() -> list[Any]:
            futures = [method.future(b"", metadata=stack.credentials(), timeout=30) for _ in range(40)]
            return [future.result() for future in futures]

        with trio.fail_after(30):
            replies = await trio.to_thread.run_sync(pull_all)
        assert sum(map(len, (one.diff for one in page.items))) > MIB
        assert len(replies) == 40
        assert all([i.diff_json for i in r.items] == [one.diff for one in page.items] for r in replies)


async def test_one_connection_has_a_bounded_number_of_calls_under_way() -> None:
    async with grpc_stack() as stack:
        stack.pulling.gate = trio.Event()
        method = stack.channel.unary_unary(PULL_INBOX)
        futures = [method.future(b"", metadata=stack.credentials(), timeout=30) for _ in range(100)]
        await stack.pulling.until(lambda pulling: pulling.under_way == 32)
        await trio.testing.wait_all_tasks_blocked(0.05)
        stack.pulling.gate.set()
        await trio.to_thread.run_sync(lambda: [future.result() for future in futures])
        assert stack.pulling.most_under_way == 32
        assert len(stack.pulling.asked) == 100


async def test_messages_that_are_too_large_compressed_or_broken_are_refused() -> None:
    async with grpc_stack() as stack:
        large = await stack.call(raw=bytes(4097))
        assert (large.code, large.trailers["postroom-code"]) == ("RESOURCE_EXHAUSTED", "payload_too_large")
        squeezed = await stack.call(raw=bytes(2000), compression=grpc.Compression.Gzip)
        assert (squeezed.code, squeezed.details) == ("UNIMPLEMENTED", "Compressed messages are not taken.")
        broken = await stack.call(raw=b"\xff\xff\xff")
        assert broken.code == "INVALID_ARGUMENT"
        assert stack.pulling.asked == []
        unknown_field = b"\x7a\x03abc"  # protobuf's rule: fields of a later version are passed over
        assert (await stack.call(raw=unknown_field)).code == "OK"


async def test_an_unknown_method_is_unimplemented() -> None:
    async with grpc_stack() as stack:
        method = stack.channel.unary_unary("/postroom.v1.Inbox/Nothing")
        assert (await in_thread(lambda: method(b"", timeout=5))).code == "UNIMPLEMENTED"
