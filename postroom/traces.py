"""Traces, as the composition root has them: made where OpenTelemetry's variables ask for them and its SDK is installed.

Without that nothing of it is loaded, and no part of the server is a traced one. The variables are OpenTelemetry's own
(`OTEL_…`), for one server is one among many to whoever collects traces; the SDK reads the rest of them by itself.
"""

import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any

import structlog
import trio

from web.version import VERSION

if TYPE_CHECKING:
    from web.tracing import Tracing

EXPORTERS = "opentelemetry_traces_exporter"
"""Under this group of entry points packages announce exporters."""

OTLP = "otlp"
OTLP_PROTOCOLS = {"grpc": "otlp_proto_grpc", "http/protobuf": "otlp_proto_http"}
"""The entry point of each protocol that `OTEL_EXPORTER_OTLP_PROTOCOL` may name."""

ENDPOINTS = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")

FLUSH_SECONDS = 2.0
"""At the end, for the last spans: a collector that does not answer must not hold up a restart."""

log = structlog.get_logger("postroom")


class CannotTrace(Exception):
    """Traces were asked for and cannot be made. The message is the reason, a clause."""


def wanted(environment: Mapping[str, str]) -> bool:
    """Whether the environment asks for traces: it names an exporter, or where to send them."""
    if environment.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return False
    exporter = environment.get("OTEL_TRACES_EXPORTER", "").strip().lower()
    return exporter != "none" and bool(exporter or any(environment.get(name) for name in ENDPOINTS))


@asynccontextmanager
async def open_tracing(environment: Mapping[str, str] = os.environ) -> AsyncIterator["Tracing | None"]:
    """Yield what makes the server's parts traced ones, None for no traces; at the end the last spans are sent.

    Traces that cannot be made are said in the log, and the server runs without them.
    """
    provider, tracing = None, None
    if wanted(environment):
        try:
            provider = _provider(environment)
        except CannotTrace as error:
            log.warning("there are no traces, although OTEL_… asks for them", reason=str(error))
        else:
            from web.tracing import Tracing

            tracing = Tracing(provider.get_tracer("postroom", VERSION))
            log.info("requests are traced")
    try:
        yield tracing
    finally:
        if provider is not None:
            with trio.move_on_after(FLUSH_SECONDS, shield=True):
                await trio.to_thread.run_sync(provider.shutdown, abandon_on_cancel=True)


def _provider(environment: Mapping[str, str]) -> Any:
    """Return the SDK's provider of tracers. Raises `CannotTrace`."""
    try:
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ModuleNotFoundError:
        raise CannotTrace("opentelemetry-sdk is not installed") from None
    provider = TracerProvider(resource=Resource.create(_described(environment)), shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(_exporter(environment)))
    return provider


def _described(environment: Mapping[str, str]) -> dict[str, str]:
    """Return what the spans say of this server, unless the environment says it already."""
    named = environment.get("OTEL_SERVICE_NAME") or "service.name=" in environment.get(
        "OTEL_RESOURCE_ATTRIBUTES", ""
    )
    return {"service.version": VERSION} | ({} if named else {"service.name": "postroom"})


def _exporter(environment: Mapping[str, str]) -> Any:
    """Return the exporter that the environment names. Raises `CannotTrace`."""
    name = environment.get("OTEL_TRACES_EXPORTER", "").strip().lower() or OTLP
    if name == OTLP:
        protocol = (
            environment.get("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL")
            or environment.get("OTEL_EXPORTER_OTLP_PROTOCOL")
            or "http/protobuf"
        )
        name = OTLP_PROTOCOLS.get(protocol.strip().lower(), "")
        if not name:
            raise CannotTrace(f"the protocol is none of {', '.join(OTLP_PROTOCOLS)}")
    found = list(entry_points(group=EXPORTERS, name=name))
    if not found:
        raise CannotTrace(f"no installed package has the exporter {name!r}")
    try:
        return found[0].load()()
    except Exception as error:  # somebody else's package; the server does not depend on it
        raise CannotTrace(f"the exporter {name!r} does not start: {type(error).__name__}") from error
