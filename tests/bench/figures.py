"""Figures and the statistics behind them: pure functions of what the rounds measured.

A figure compares round with round: what Postroom did in round 3 against what the baseline did in round 3,
seconds apart, because a shared machine drifts by more over a minute than the differences that are looked for.
"""

import math
from collections.abc import Sequence
from typing import Any, Literal

import msgspec

Better = Literal["higher", "lower"]


class Figure(msgspec.Struct, frozen=True, kw_only=True):
    """One ratio against one baseline.

    `ratio`: median of the rounds' ratios. `median`: median of what was measured, in `unit`. `spread`:
    distance between the quartiles of the rounds' ratios, so in the same terms as `ratio`. `goal`: the ratio
    to reach (at least it where more is better, at most it where less is), None for a figure that only
    informs; then `met` is None too.
    """

    name: str
    ratio: float
    baseline: str
    median: float
    spread: float
    goal: float | None
    met: bool | None
    unit: str
    better: Better

    def as_record(self) -> dict[str, Any]:
        """Return what is written to disk: these seven members for every figure, now and later."""
        return {
            "name": self.name,
            "ratio": round(self.ratio, 4),
            "baseline": self.baseline,
            "median": round(self.median, 4),
            "spread": round(self.spread, 4),
            "goal": self.goal,
            "met": self.met,
        }


def compare(
    name: str,
    measured: Sequence[float],
    baseline: str,
    against: Sequence[float],
    *,
    unit: str,
    better: Better,
    goal: float | None = None,
) -> Figure:
    """Return the figure of two series that were measured side by side, round by round.

    Raises `ValueError` when they differ in length, are empty, or a baseline is not above zero.
    """
    if len(measured) != len(against) or not measured:
        raise ValueError(f"{name}: {len(measured)} rounds cannot be compared with {len(against)}")
    if min(against) <= 0:
        raise ValueError(f"{name}: the baseline {baseline} measured nothing")
    ratios = [own / other for own, other in zip(measured, against, strict=True)]
    ratio = quantile(ratios, 0.5)
    met = None if goal is None else (ratio >= goal if better == "higher" else ratio <= goal)
    return Figure(
        name=name,
        ratio=ratio,
        baseline=baseline,
        median=quantile(measured, 0.5),
        spread=quantile(ratios, 0.75) - quantile(ratios, 0.25),
        goal=goal,
        met=met,
        unit=unit,
        better=better,
    )


def quantile(values: Sequence[float], fraction: float) -> float:
    """Return a quantile (`fraction` from 0 to 1) by linear interpolation. Raises `ValueError` without values."""
    return _at(sorted(values), fraction)


def percentiles(values: Sequence[float]) -> list[float]:
    """Return the quantiles from 0 to 1 in steps of a hundredth. Raises `ValueError` without values."""
    ordered = sorted(values)
    return [_at(ordered, percent / 100) for percent in range(101)]


def percentile_points(rounds: Sequence[Sequence[float]]) -> list[tuple[float, float]]:
    """Return (percent, value) points: of each of the percentiles the median of the rounds."""
    return [
        (float(percent), quantile(values, 0.5)) for percent, values in enumerate(zip(*rounds, strict=True))
    ]


def _at(ordered: Sequence[float], fraction: float) -> float:
    if not ordered:
        raise ValueError("no values")
    place = fraction * (len(ordered) - 1)
    low = math.floor(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)
