"""Which units go into the next transaction."""

from storage.engine import Job
from storage.lanes import BATCH_BYTES, BATCH_UNITS, HOUSEKEEPING_SECONDS, Lanes
from storage.protocols import Lane
from tests.contract.builders import Do


def job(lane: Lane = Lane.ANSWERS, cost: int = 1) -> Job:
    return Job(Do(lambda tx: None, lane, cost))


def test_answers_go_before_bodies_and_deliveries_each_in_order_of_arrival() -> None:
    lanes = Lanes()
    jobs = [job(Lane.DELIVERIES), job(Lane.BODIES), job(), job()]
    lanes.put(jobs)
    assert lanes.choose(0) == [jobs[2], jobs[3], jobs[1], jobs[0]]
    assert not lanes
    assert lanes.choose(0) == []


def test_a_transaction_has_one_piece_of_a_body() -> None:
    lanes = Lanes()
    pieces = [job(Lane.BODIES), job(Lane.BODIES)]
    lanes.put(pieces)
    assert lanes.choose(0) == pieces[:1]
    assert lanes.choose(0) == pieces[1:]


def test_a_transaction_is_bounded_by_units() -> None:
    lanes = Lanes()
    lanes.put(job() for _ in range(BATCH_UNITS + 1))
    assert len(lanes.choose(0)) == BATCH_UNITS
    assert len(lanes.choose(0)) == 1
    lanes.put(job() for _ in range(BATCH_UNITS - 2))
    lanes.put([job(Lane.BODIES), job(Lane.DELIVERIES), job(Lane.DELIVERIES)])
    assert len(lanes.choose(0)) == BATCH_UNITS
    assert len(lanes.choose(0)) == 1


def test_a_transaction_is_bounded_by_bytes_but_one_unit_always_goes() -> None:
    lanes = Lanes()
    jobs = [job(cost=2 * BATCH_BYTES), job(cost=BATCH_BYTES), job(cost=1)]
    lanes.put(jobs)
    assert [lanes.choose(0) for _ in range(3)] == [[one] for one in jobs]
    half, quarter = BATCH_BYTES // 2, BATCH_BYTES // 4
    for costs, together in (([half, half, 1], 2), ([half, quarter, half], 2), ([half, quarter, quarter], 3)):
        jobs = [job(cost=cost) for cost in costs]
        lanes.put(jobs)
        assert lanes.choose(0) == jobs[:together]
        assert lanes.choose(0) == jobs[together:]


def test_a_piece_of_a_body_goes_also_beside_answers_that_fill_the_transaction() -> None:
    lanes = Lanes()
    pieces = [job(Lane.BODIES, cost=BATCH_BYTES) for _ in range(3)]
    lanes.put(pieces)
    for piece in pieces:
        lanes.put(job(cost=BATCH_BYTES // 4) for _ in range(8))
        assert piece in lanes.choose(0)
    lanes = Lanes()
    lanes.put(job() for _ in range(2 * BATCH_UNITS))
    late = job(Lane.DELIVERIES)
    lanes.put([late])
    assert late in lanes.choose(0)


def test_housekeeping_gets_one_unit_per_interval_under_steady_load() -> None:
    lanes = Lanes()
    tidying = [job(Lane.HOUSEKEEPING) for _ in range(3)]
    lanes.put(tidying)
    now = 0.0
    chosen = []
    for _ in range(3):
        lanes.put([job()])
        chosen.append(tidying[0] in lanes.choose(now))
    assert chosen == [True, False, False]
    lanes.put([job()])
    assert lanes.choose(now + HOUSEKEEPING_SECONDS)[-1] is tidying[1]


def test_housekeeping_alone_goes_at_once_one_unit_per_transaction() -> None:
    lanes = Lanes()
    tidying = [job(Lane.HOUSEKEEPING) for _ in range(2)]
    lanes.put(tidying)
    assert lanes.choose(0) == tidying[:1]
    assert lanes.choose(0) == tidying[1:]


def test_cancelled_units_are_dropped_and_take_nobodys_place() -> None:
    lanes = Lanes()
    jobs = [job(lane) for lane in (Lane.ANSWERS, Lane.BODIES, Lane.BODIES, Lane.HOUSEKEEPING)]
    lanes.put(jobs)
    jobs[0].cancelled = jobs[1].cancelled = jobs[3].cancelled = True
    assert lanes.choose(0) == [jobs[2]]
    assert not lanes


def test_units_that_did_not_run_keep_their_place() -> None:
    lanes = Lanes()
    jobs = [job() for _ in range(3)]
    lanes.put(jobs)
    chosen = lanes.choose(0)
    lanes.put([job()])
    lanes.put_back(chosen[1:])
    assert lanes.choose(0)[:2] == jobs[1:]
