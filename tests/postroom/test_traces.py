"""When there are traces, and that without them nothing of OpenTelemetry is loaded."""

import subprocess
import sys
from collections.abc import Mapping

import pytest
from structlog.testing import capture_logs

from postroom import traces
from postroom.traces import open_tracing, wanted

NOWHERE = "http://127.0.0.1:9"


@pytest.mark.parametrize(
    ("environment", "are_wanted"),
    [
        ({}, False),
        ({"OTEL_SERVICE_NAME": "postroom"}, False),
        ({"OTEL_TRACES_EXPORTER": "none"}, False),
        ({"OTEL_TRACES_EXPORTER": "console"}, True),
        ({"OTEL_TRACES_EXPORTER": "otlp"}, True),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": NOWHERE}, True),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": ""}, False),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": NOWHERE}, True),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": NOWHERE, "OTEL_TRACES_EXPORTER": "none"}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": NOWHERE, "OTEL_SDK_DISABLED": "true"}, False),
    ],
    ids=repr,
)
def test_traces_are_made_when_the_environment_says_where_to(
    environment: Mapping[str, str], are_wanted: bool
) -> None:
    assert wanted(environment) is are_wanted


async def test_without_that_there_is_nothing() -> None:
    async with open_tracing({}) as tracing:
        assert tracing is None


@pytest.mark.parametrize(
    ("environment", "reason"),
    [
        ({"OTEL_TRACES_EXPORTER": "no-such-thing"}, "no installed package has the exporter 'no-such-thing'"),
        (
            {"OTEL_TRACES_EXPORTER": "otlp", "OTEL_EXPORTER_OTLP_PROTOCOL": "smoke"},
            "the protocol is none of grpc, http/protobuf",
        ),
    ],
)
async def test_traces_that_cannot_be_made_are_said_and_do_not_stop_the_server(
    environment: Mapping[str, str], reason: str
) -> None:
    with capture_logs() as lines:
        async with open_tracing(environment) as tracing:
            assert tracing is None
    assert [(line["log_level"], line["reason"]) for line in lines] == [("warning", reason)]


async def test_a_missing_sdk_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace", None)
    with capture_logs() as lines:
        async with open_tracing({"OTEL_TRACES_EXPORTER": "console"}) as tracing:
            assert tracing is None
    assert [line["reason"] for line in lines] == ["opentelemetry-sdk is not installed"]


def test_without_traces_nothing_of_opentelemetry_is_loaded() -> None:
    program = "import sys, postroom.server, web.app; print([m for m in sys.modules if m.startswith('opentelemetry')])"
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True
    )
    assert run.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("environment", "described"),
    [
        ({}, {"service.name": "postroom"}),
        ({"OTEL_SERVICE_NAME": "inbox"}, {}),
        ({"OTEL_RESOURCE_ATTRIBUTES": "a=b,service.name=inbox"}, {}),
    ],
)
def test_the_service_is_called_postroom_unless_it_has_a_name(
    environment: Mapping[str, str], described: Mapping[str, str]
) -> None:
    assert traces._described(environment) == {"service.version": traces.VERSION, **described}
