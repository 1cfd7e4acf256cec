"""One family of metrics: what it is called and means, and where its values are read."""

from collections.abc import Callable, Iterable, Mapping
from typing import Literal

import msgspec
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric

from storage.histogram import Histogram
from web.metrics.sources import Sources

PREFIX = "postroom_"

Kind = Literal["counter", "gauge", "histogram"]
Value = float | Histogram
Labels = tuple[str, ...]
Values = Iterable[tuple[Labels, Value]]


class Family(msgspec.Struct, frozen=True):
    """A family. `name` without the prefix, and without the `_total` that counters are published with; `read` gives the
    values, each with its labels in the order of `labels`.
    """

    name: str
    kind: Kind
    help: str
    labels: Labels
    read: Callable[[Sources], Values]

    @property
    def published_name(self) -> str:
        """The name as queries have it; a histogram's, to which they add `_bucket`, `_sum` or `_count`."""
        return f"{PREFIX}{self.name}_total" if self.kind == "counter" else PREFIX + self.name

    def metric(self, sources: Sources) -> Metric:
        """Return the family with its present values, as prometheus-client wants it."""
        name = PREFIX + self.name
        if self.kind == "histogram":
            histogram = HistogramMetricFamily(name, self.help, labels=self.labels)
            for labels, value in self.read(sources):
                assert isinstance(value, Histogram)  # noqa: S101 — a table of ours, which a test goes through # nosec B101
                histogram.add_metric(labels, _buckets(value), value.total)
            return histogram
        plain = (CounterMetricFamily if self.kind == "counter" else GaugeMetricFamily)(
            name, self.help, labels=self.labels
        )
        for labels, value in self.read(sources):
            assert isinstance(value, int | float)  # noqa: S101 — the same table # nosec B101
            plain.add_metric(labels, value)
        return plain


def counter(name: str, text: str, read: Callable[[Sources], float]) -> Family:
    """Return a counter without labels."""
    return Family(name, "counter", text, (), lambda sources: [((), read(sources))])


def counters(
    name: str, text: str, labels: Labels, read: Callable[[Sources], Mapping[Labels, float]]
) -> Family:
    """Return a counter with labels."""
    return Family(name, "counter", text, labels, lambda sources: read(sources).items())


def gauge(name: str, text: str, read: Callable[[Sources], float]) -> Family:
    """Return a gauge without labels."""
    return Family(name, "gauge", text, (), lambda sources: [((), read(sources))])


def gauges(name: str, text: str, labels: Labels, read: Callable[[Sources], Mapping[Labels, float]]) -> Family:
    """Return a gauge with labels."""
    return Family(name, "gauge", text, labels, lambda sources: read(sources).items())


def histogram(name: str, text: str, read: Callable[[Sources], Histogram]) -> Family:
    """Return a histogram."""
    return Family(name, "histogram", text, (), lambda sources: [((), read(sources))])


def _buckets(value: Histogram) -> list[tuple[str, float]]:
    bounds = [str(float(bound)) for bound in value.bounds] + ["+Inf"]
    return list(zip(bounds, value.cumulated(), strict=True))
