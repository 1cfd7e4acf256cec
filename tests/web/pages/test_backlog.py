"""What a live list keeps until it is drawn (`static/backlog.js`), run by Node: it is bounded, and nothing that came and
nothing that is gone is left out without a word.
"""

import json
import random
import subprocess
from pathlib import Path
from typing import Any

from tests.node import NODE
from web.pages import assets

SOURCE = Path(assets.__file__).parent / "static" / "backlog.js"
ROOM = 8
RUNS = 400

HARNESS = """
import { readFileSync } from "node:fs";
const runs = JSON.parse(readFileSync(0));
const drawn = runs.map((run) => {
  const backlog = new Backlog(run.room);
  const takes = [];
  for (const [what, first, last] of run.events) {
    if (what === "message") backlog.message(String(first));
    else if (what === "gap") backlog.gap(first, last);
    else {
      const { messages, isEmpty: wasEmpty } = backlog;
      takes.push({ messages, wasEmpty, ...backlog.take(), isEmpty: backlog.isEmpty });
    }
  }
  return takes;
});
console.log(JSON.stringify(drawn));
"""


def _drawn(runs: list[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    made = subprocess.run(
        [str(NODE), "--input-type=module", "--eval", SOURCE.read_text() + HARNESS],
        input=json.dumps(runs).encode(),
        capture_output=True,
        check=True,
        timeout=30,
    )
    found: list[list[dict[str, Any]]] = json.loads(made.stdout)
    return found


def _run(chance: random.Random) -> dict[str, Any]:
    """Return messages and gaps as a stream brings them, drawn now and then, and at the end."""
    seq, events = 1, []
    for _ in range(chance.randrange(1, 70)):
        what = chance.choices(
            ["message", "gap", "take"], [10, chance.choice([0, 1, 4]), chance.choice([0, 0, 1])]
        )[0]
        last = seq + (chance.randrange(5) if what == "gap" else 0)
        events.append([what, seq, last])
        seq = last + 1 if what != "take" else seq
    return {"room": ROOM, "events": [*events, ["take", 0, 0]]}


def test_whatever_comes_is_listed_or_said_to_be_missing() -> None:
    chance = random.Random(8)
    runs = [_run(chance) for _ in range(RUNS)]
    for run, takes in zip(runs, _drawn(runs), strict=True):
        came: list[list[Any]] = []
        left = iter(takes)
        for event in run["events"]:
            if event[0] == "take":
                _check(next(left), came)
                came = []
            else:
                came.append(event)


def _check(take: dict[str, Any], came: list[list[Any]]) -> None:
    messages = [first for what, first, _ in came if what == "message"]
    gaps = [(first, last) for what, first, last in came if what == "gap"]
    entries, summary = take["entries"], take.get("gone")
    listed = [int(entry["text"]) for entry in entries if "text" in entry]
    assert take["messages"] == len(messages)
    assert take["wasEmpty"] == (not came)
    assert take["isEmpty"]
    assert listed == messages[len(messages) - len(listed) :], "the newest, in their order"
    assert take["left"] == len(messages) - len(listed)
    shown = [(entry["gone"]["first"], entry["gone"]["last"]) for entry in entries if "gone" in entry]
    assert shown == gaps[len(gaps) - len(shown) :]
    rest = gaps[: len(gaps) - len(shown)]
    assert (summary is not None) == bool(rest), "a gap is always shown as a gap"
    if summary is not None:
        assert (summary["first"], summary["last"]) == (rest[0][0], rest[-1][1])
        assert summary["places"] == len(rest)
        assert summary["count"] == sum(last - first + 1 for first, last in rest)
    rows = len(entries) + bool(take["left"]) + bool(summary)
    assert rows <= ROOM
    assert rows == ROOM or not (take["left"] or summary) or rows == ROOM - 1, (
        "no more is left out than must be"
    )


def test_a_gap_behind_more_messages_than_there_is_room_for_is_still_told() -> None:
    events = [["gap", 2, 6], *(["message", seq, seq] for seq in range(7, 7 + ROOM + 1)), ["take", 0, 0]]
    [[take]] = _drawn([{"room": ROOM, "events": events}])
    assert take["gone"] == {"first": 2, "last": 6, "count": 5, "places": 1}
    assert (take["left"], len(take["entries"])) == (3, ROOM - 2)


def test_what_waits_is_bounded_however_long_nobody_looks() -> None:
    many = 50_000
    events = [["gap" if seq % 3 == 0 else "message", seq, seq] for seq in range(many)]
    [[take]] = _drawn([{"room": ROOM, "events": [*events, ["take", 0, 0]]}])
    assert len(take["entries"]) == ROOM - 2
    assert take["left"] + sum("text" in entry for entry in take["entries"]) == take["messages"]
