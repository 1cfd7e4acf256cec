import msgspec
from hypothesis import given
from hypothesis import strategies as st

from actors.rules.append import decide
from actors.rules.dropping import erased, purged
from actors.rules.restarts import RestartBudget
from storage.records import Head, Seen
from tests.actors.drafts import WINDOW_US, append

HEAD = Head(epoch="e", latest_seq=7, first_seq=3, last_at=1_000, live_rows=5, live_bytes=50)
KEYS = st.sampled_from([None, b"a", b"b", b"c"])


def test_numbers_are_dense_and_follow_the_order_of_the_mailbox() -> None:
    commands = [append(b"x"), append(b"yy"), append(b"zzz")]
    plan = decide(HEAD, {}, commands, now_us=5_000)
    assert [entry.seq for entry in plan.entries] == [8, 9, 10]
    assert [outcome.id for outcome in plan.outcomes] == [command.draft.id for command in commands]
    assert plan.head.latest_seq == 10
    assert (plan.head.live_rows, plan.head.live_bytes) == (8, 56)


def test_times_are_strictly_increasing_also_when_the_clock_stands_or_goes_back() -> None:
    plan = decide(HEAD, {}, [append(), append(), append()], now_us=500)
    assert [entry.received_at for entry in plan.entries] == [1_001, 1_002, 1_003]


def test_a_duplicate_within_the_window_gets_the_first_ones_place_and_consumes_no_number() -> None:
    first = Seen(seq=4, id=b"f" * 16, seen_at=2_000)
    plan = decide(HEAD, {b"k": first}, [append(key=b"k"), append()], now_us=5_000)
    assert plan.outcomes[0].duplicate
    assert (plan.outcomes[0].id, plan.outcomes[0].seq) == (b"f" * 16, 4)
    assert [entry.seq for entry in plan.entries] == [8]
    assert plan.remember == []


def test_two_copies_in_one_group_are_one_message() -> None:
    plan = decide(HEAD, {}, [append(key=b"k"), append(key=b"k")], now_us=5_000)
    assert len(plan.entries) == 1
    assert [outcome.seq for outcome in plan.outcomes] == [8, 8]
    assert [outcome.duplicate for outcome in plan.outcomes] == [False, True]


def test_a_key_seen_before_the_window_is_as_good_as_new_and_gets_replaced() -> None:
    old = Seen(seq=4, id=b"f" * 16, seen_at=0)
    plan = decide(HEAD, {b"k": old}, [append(key=b"k")], now_us=WINDOW_US)
    assert [entry.seq for entry in plan.entries] == [8]
    assert [(key, seen.seq) for key, seen in plan.remember] == [(b"k", 8)]


def test_a_window_of_zero_turns_deduplication_off() -> None:
    plan = decide(HEAD, {}, [append(key=b"k", window_us=0), append(key=b"k", window_us=0)], now_us=5_000)
    assert len(plan.entries) == 2
    assert plan.remember == []


@given(st.lists(KEYS, max_size=30), st.dictionaries(st.sampled_from([b"a", b"b"]), st.integers(0, 10**6)))
def test_whatever_arrives_numbers_stay_dense_and_each_key_has_one_message(
    keys: list[bytes | None], known: dict[bytes, int]
) -> None:
    seen = {key: Seen(seq=1, id=b"i" * 16, seen_at=at) for key, at in known.items()}
    plan = decide(HEAD, seen, [append(key=key) for key in keys], now_us=10**6)
    assert [entry.seq for entry in plan.entries] == list(range(8, 8 + len(plan.entries)))
    assert len(plan.outcomes) == len(keys)
    for key in {key for key in keys if key is not None}:
        places = {outcome.seq for outcome, of in zip(plan.outcomes, keys, strict=True) if of == key}
        assert len(places) == 1
    times = [entry.received_at for entry in plan.entries]
    assert times == sorted(set(times))


def test_a_purge_keeps_the_counter_and_reports_what_it_took() -> None:
    after = purged(msgspec.structs.replace(HEAD, due_at=5))
    assert after.due_at is None
    assert (after.latest_seq, after.first_seq, after.live_rows, after.live_bytes) == (7, 8, 0, 0)
    assert (after.dropped_rows, after.dropped_bytes) == (5, 50)


def test_an_erased_message_is_counted_as_dropped_and_its_seq_stays_used() -> None:
    after = erased(HEAD, size=20)
    assert (after.latest_seq, after.first_seq, after.live_rows, after.live_bytes) == (7, 3, 4, 30)
    assert (after.dropped_rows, after.dropped_bytes) == (1, 20)


def test_a_restart_budget_is_spent_by_failures_close_together_only() -> None:
    budget = RestartBudget(allowed=2, window_seconds=10)
    assert budget.spend(0)
    assert budget.spend(1)
    assert budget.spend(11)  # the one at 0 is out of the window by now
    assert budget.spend(12)  # and so is the one at 1
    assert not budget.spend(13)  # 11, 12 and 13 are three within ten seconds
    assert not budget.spend(21)  # so are 12, 13 and 21
    assert not budget.spend(23)  # 13 is ten seconds ago, which is within them
    assert budget.spend(31.1)
