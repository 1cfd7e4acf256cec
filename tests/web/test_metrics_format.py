"""In which format the metrics are given: that of OpenMetrics for who names it and would rather have it."""

import pytest

from web.metrics.exposition import prefers_openmetrics

NAME = "application/openmetrics-text"


@pytest.mark.parametrize(
    "accept",
    [
        NAME,
        f"{NAME}; version=1.0.0; charset=utf-8",
        f"text/plain, {NAME}",
        f"{NAME};version=1.0.0;q=0.6,{NAME};version=0.0.1;q=0.5,text/plain;version=0.0.4;q=0.4,*/*;q=0.2",
        f"{NAME};q=0,{NAME};version=1.0.0;q=0.5",
        NAME.upper(),
        f"{NAME};q=0.9, text/*;q=0.5, */*",
        f"nonsense, ;;=, {NAME}",
    ],
)
def test_a_client_that_would_rather_have_openmetrics_gets_it(accept: str) -> None:
    assert prefers_openmetrics(accept.encode())


@pytest.mark.parametrize(
    "accept",
    [
        "",
        "*/*",
        "application/*",
        "text/plain",
        f"{NAME};q=0",
        f"{NAME};q=0.0, */*",
        f"{NAME}; version=1.0.0 ; q=0.000",
        f"{NAME};Q=0",
        f"{NAME};q=0.3, text/plain;q=0.9",
        f"{NAME};q=0.3, text/*;q=0.9",
        f"{NAME};q=0.3, */*",
        f"{NAME};q=2",
        f"{NAME}s",
        f"x-{NAME}",
        f'text/plain;note="{NAME}"',
        "\xff, \x00;q=\xff",
    ],
)
def test_any_other_client_gets_prometheus_s_text(accept: str) -> None:
    assert not prefers_openmetrics(accept.encode("latin-1"))
