"""Matching: one message of 60 words against 10,000 beacons, and how good matching is on the labelled corpus.

The time is what the router spends on a message: from its text to the ranked matches. The two sets of beacons give the
same matches for every message, so growth is the cost of beacons that have nothing to do with it. Messages alternate
between the sets. No server takes part.
"""

import time
from collections import defaultdict
from collections.abc import Callable
from functools import partial

import msgspec

from actors.rules.matching.beacons import Beacon, Key
from actors.rules.matching.index import MatchIndex
from actors.rules.matching.judging import MatchInput
from tests.actors.quality import Quality, curve
from tests.actors.synthetic import MESSAGE_WORDS, Synthetic, as_input
from tests.bench.figures import Figure, compare, quantile
from tests.bench.harness import Bench

NAME = "matching"
SEED = 1

TIME_GOAL = 1.0
"""Of a millisecond."""

GROWTH_GOAL = 4.0
"""Of the time with a tenth of the beacons."""

LARGE, SMALL = 10_000, 1_000
TEXTS = 200
MATCHES = 2
"""Beacons that match each text, in both sets."""

SHARE_OF_REQUESTS = 5
"""A round has the effort's requests divided by this, for each set."""

MS = 1000.0


class Scene(msgspec.Struct, frozen=True):
    """Texts, and two indexes that find the same matches for each of them, among a thousand beacons and ten thousand."""

    texts: list[str]
    small: MatchIndex
    large: MatchIndex


def measure(bench: Bench) -> list[Figure]:
    """Measure the case."""
    with bench.steps(f"{NAME}: making up {LARGE:,} beacons", 1) as made:
        scene = make_scene()
        made(1)
    measured = bench.rounds(NAME, {NAME: lambda _: _round(scene, bench.effort.requests // SHARE_OF_REQUESTS)})
    rounds = measured[NAME]
    large = [quantile(of, 0.5) for of, _ in rounds]
    small = [quantile(of, 0.5) for _, of in rounds]
    bench.note(
        f"{NAME}: {MESSAGE_WORDS} words, {MATCHES} matches; p50 {quantile(large, 0.5):.3f} ms among {LARGE:,} "
        f"beacons, {quantile(small, 0.5):.3f} ms among {SMALL:,}; "
        f"p99 {quantile([ms for of, _ in rounds for ms in of], 0.99):.3f} ms"
    )
    return [
        compare(f"{NAME}.p50", large, "1 ms", [1.0] * len(large), unit="ms", better="lower", goal=TIME_GOAL),
        compare(
            f"{NAME}.growth", large, f"{SMALL:,} beacons", small, unit="ms", better="lower", goal=GROWTH_GOAL
        ),
        *_quality(bench),
    ]


def make_scene(seed: int = SEED, small: int = SMALL, large: int = LARGE, texts: int = TEXTS) -> Scene:
    """Return a scene: no beacon in it matches a text that it was not made for."""
    source = Synthetic(seed)
    drawn = [source.text() for _ in range(texts)]
    inputs = [as_input(text) for text in drawn]
    planted = [
        beacon
        for place, text in enumerate(drawn)
        for beacon in _drawn(MATCHES, partial(source.beacon_for, text), inputs, {place})
    ]
    others = _drawn(large - len(planted), source.beacon, inputs, set())
    return Scene(drawn, MatchIndex(planted + others[: small - len(planted)]), MatchIndex(planted + others))


def _drawn(
    number: int, draw: Callable[[], Beacon], inputs: list[MatchInput], wanted: set[int]
) -> list[Beacon]:
    """Return so many beacons that match the inputs at these places, and no others; which do is up to each alone."""
    found: list[Beacon] = []
    while len(found) < number:
        drawn = [draw() for _ in range(number - len(found))]
        index = MatchIndex(drawn)
        matched: defaultdict[Key, set[int]] = defaultdict(set)
        for place, message in enumerate(inputs):
            for match in index.match(message):
                matched[match.agent_id, match.name].add(place)
        found += [beacon for beacon in drawn if matched[beacon.key] == wanted]
    return found


def _round(scene: Scene, messages: int) -> tuple[list[float], list[float]]:
    """Return the times of matching, in ms, in the large and in the small set."""
    large: list[float] = []
    small: list[float] = []
    for number in range(messages):
        text = scene.texts[number % len(scene.texts)]
        for index, times in ((scene.large, large), (scene.small, small)):
            began = time.perf_counter()
            matches = index.match(as_input(text))
            times.append((time.perf_counter() - began) * MS)
            if len(matches) != MATCHES:
                raise AssertionError(f"{len(matches)} matches instead of {MATCHES}")
    return large, small


def _quality(bench: Bench) -> list[Figure]:
    points = curve()
    bench.note(
        f"{NAME}: on the labelled corpus, by threshold (precision and recall, of wanted and made deliveries)"
    )
    for point in points:
        bench.note(f"  {point.threshold:.2f}  {point.precision:.3f}  {point.recall:.3f}  {_counts(point)}")
    default = points[0]
    return [
        compare(f"{NAME}.{name}", [share], "all", [1.0], unit="of all", better="higher")
        for name, share in (("precision", default.precision), ("recall", default.recall))
    ]


def _counts(point: Quality) -> str:
    return f"{point.right} right, {point.wrong} wrong, {point.missed} missed"
