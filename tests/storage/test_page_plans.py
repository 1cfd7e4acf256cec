"""A page costs what the page costs, not what the inbox costs (engineering study, S12)."""

import pytest

from storage.engine import connect_writer
from storage.pages import page, page_statement
from storage.records import PageQuery, Verdict
from storage.sql import Sql
from tests.contract.builders import START_US, entry, put
from tests.storage.rig import Rig

FEW, MANY = 300, 6_000
RARE_EVERY = 100


def plan(rig: Rig, statement: str) -> list[str]:
    """Return SQLite's plan of a statement; its bindings do not matter for it."""
    count = statement.count("?") if "?1" not in statement else 5
    return [row[3] for row in rig.rows(f"EXPLAIN QUERY PLAN {statement}", [1] * count)]


@pytest.mark.parametrize("backward", [False, True])
@pytest.mark.parametrize(
    ("types", "verdict", "index"),
    [
        (0, False, "USING PRIMARY KEY (inbox_id=? AND seq>? AND seq<?)"),
        (
            1,
            False,
            "USING COVERING INDEX entry_type (inbox_id=? AND event_type=? AND verified=? AND seq>? AND seq<?)",
        ),
        (
            4,
            True,
            "USING COVERING INDEX entry_type (inbox_id=? AND event_type=? AND verified=? AND seq>? AND seq<?)",
        ),
        (0, True, "USING COVERING INDEX entry_verified (inbox_id=? AND verified=? AND seq>? AND seq<?)"),
    ],
)
def test_each_filter_has_its_index(rig: Rig, types: int, verdict: bool, index: str, backward: bool) -> None:
    steps = plan(rig, page_statement(types, verdict, backward))
    assert any(index in step for step in steps), steps
    assert not any(step.startswith("SCAN e") for step in steps), steps


QUERIES: dict[str, dict[str, object]] = {
    "plain": {"after": 0},
    "newest": {},
    "rare type": {"after": 0, "types": ("rare",)},
    "no such type": {"after": 0, "types": ("none", "neither", "nor")},
    "rare type, newest": {"types": ("rare",)},
    "unverified": {"after": 0, "verified": Verdict.FAILED},
    "rare type, unverified": {"types": ("rare",), "verified": Verdict.FAILED},
    "since": {"after": 0, "since_us": START_US + 250},
    "until": {"until_us": START_US + 50},
}


def test_a_page_takes_as_many_steps_in_a_large_inbox_as_in_a_small_one(rig: Rig) -> None:
    inboxes = {}
    for slug, count in (("few", FEW), ("many", MANY)):
        inbox = inboxes[count] = rig.inbox(slug)
        for start in range(1, count + 1, 300):
            entries = [
                entry(
                    seq,
                    event_type="rare" if seq % RARE_EVERY == 0 else "push",
                    verified=Verdict.FAILED if seq % RARE_EVERY == 0 else Verdict.VERIFIED,
                )
                for seq in range(start, start + 300)
            ]
            rig.one(lambda tx, inbox=inbox, entries=entries: put(tx, inbox.inbox_id, entries))
    db = rig.upkeep.db

    def steps(count: int, fields: dict[str, object]) -> int:
        taken = 0

        def tick() -> bool:
            nonlocal taken
            taken += 1
            return False

        with db:
            db.set_progress_handler(tick, 10)
            try:
                found = page(Sql(db), PageQuery(inboxes[count].inbox_id, 3, **fields))  # type: ignore[arg-type]  # of any type
            finally:
                db.set_progress_handler(None)
        assert found.rows or fields.get("types") == ("none", "neither", "nor")
        return taken

    for name, fields in QUERIES.items():
        few, many = steps(FEW, fields), steps(MANY, fields)
        assert many <= 2 * few + 40, f"{name}: {few} against {many} tens of steps"


def test_bodies_that_were_not_asked_for_are_not_read(rig: Rig) -> None:
    inbox = rig.inbox()
    for seq in range(1, 21):
        rig.one(lambda tx, seq=seq: put(tx, inbox.inbox_id, [entry(seq, body=bytes(60_000))]))
    rig.upkeep.close()

    def bytes_read(body_limit: int) -> int:
        db = connect_writer(rig.directory / "postroom.db", 0, rig.disk.name)
        before = rig.disk.bytes_read
        with db:
            query = PageQuery(inbox.inbox_id, 20, after=0, body_limit=body_limit, byte_budget=1 << 30)
            rows = page(Sql(db), query).rows
        db.close()
        assert len(rows) == 20
        return rig.disk.bytes_read - before

    assert bytes_read(0) < 20 * 20_000
    assert bytes_read(65_536) > 20 * 60_000
