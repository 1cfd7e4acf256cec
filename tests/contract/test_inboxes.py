"""Inboxes: identity, lives, settings, secrets, listing."""

import re
from pathlib import Path

import msgspec
import pytest

from storage import sealing
from storage.errors import Fenced, InboxGone, SlugTaken
from storage.protocols import Log, Tx
from storage.records import InboxRecord, InboxSettings, PageQuery, Response, Retention, Seen
from tests.contract.builders import (
    START_US,
    Do,
    See,
    append,
    create,
    delete,
    entry,
    fill,
    head,
    head_after,
    new_inbox,
    secret,
    seqs,
)
from tests.contract.conftest import OpenLog, opens

EVERY_SETTING = InboxSettings(
    verifier="hmac",
    verifier_options={
        "header": "x-signature",
        "tolerance_seconds": 300,
        "nested": {"a": [1, None, True, "ü"]},
    },
    on_unverified="reject",
    dedupe_window_seconds=0,
    retention=Retention(max_age_seconds=60, max_messages=10, max_bytes=1_000, policy="refuse"),
    response=Response(status=202, content_type="application/json", body='{"ok":true}', headers={"x-a": "b"}),
    rate_per_minute=100,
    max_body_bytes=5,
    signed_url="https://example.org/in/a",
    search=True,
)


@pytest.fixture(params=["memory", "sqlite", "sealed"])
def open_log(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> OpenLog:
    """Return how to open one store; inboxes have secrets, which may be sealed."""
    monkeypatch.setattr(sealing, "SCRYPT_N", 2)  # or most of the time would go into making keys
    return opens(request.param, tmp_path)


async def by_slug(log: Log, slug: str):
    return await log.read(See(lambda snapshot: snapshot.inbox_by_slug(slug)))


async def listed(log: Log, slugs=None, after_slug: str = "", limit: int = 100) -> list[str]:
    found = await log.read(See(lambda snapshot: snapshot.inboxes(slugs, after_slug, limit)))
    return [listing.record.slug for listing in found]


# -- creating and changing ------------------------------------------------------------------------------
@pytest.mark.parametrize("kind", ["webhook", "topic", "agent", "machine"])
async def test_an_inbox_is_found_as_it_was_created(store: Log, kind: str) -> None:
    now, made = await store.commit(Do(lambda tx: (tx.now(), tx.create_inbox(_new(kind)))))
    assert (made.slug, made.kind, made.name, made.created_at) == ("full", kind, "Füll", now)
    assert made.settings == EVERY_SETTING
    for record in (
        made,
        (await by_slug(store, "full")).record,
        (await store.read(See(lambda snapshot: snapshot.inbox(made.inbox_id)))).record,
        await store.commit(Do(lambda tx: tx.inbox(made.inbox_id))),
    ):
        assert (record.inbox_id, record.slug, record.kind) == (made.inbox_id, "full", kind)
        assert (record.name, record.created_at, record.settings) == ("Füll", now, EVERY_SETTING)
        assert _keys(record) == {"one": b"\x00\xff", "two": b"2"}


def _new(kind: str):
    both = (secret("one", b"\x00\xff"), secret("two", b"2"))
    return new_inbox("full", kind, name="Füll", settings=EVERY_SETTING, secrets=both)


def _keys(record) -> dict[str, bytes]:
    return {one.name: one.value.reveal() for one in record.secrets}


async def test_epochs_are_random_and_ids_differ(store: Log) -> None:
    made = [await create(store, f"inbox-{n}") for n in range(20)]
    epochs = {(await head(store, one.inbox_id)).epoch for one in made}
    assert len(epochs) == 20
    assert all(re.fullmatch("[0-9a-f]{16}", epoch) for epoch in epochs)
    assert len({one.inbox_id for one in made}) == 20


async def test_a_slug_is_taken_once(store: Log) -> None:
    first = await create(store, "demo")
    with pytest.raises(SlugTaken):
        await create(store, "demo", kind="topic")
    assert (await by_slug(store, "demo")).record.inbox_id == first.inbox_id


async def test_name_and_settings_are_replaced_and_nothing_else(store: Log) -> None:
    made = await create(store, secrets=(secret("s", b"v"),))
    await fill(store, made.inbox_id, 2)
    before = await head(store, made.inbox_id)
    await store.commit(Do(lambda tx: tx.change_inbox(made.inbox_id, "renamed", EVERY_SETTING)))
    listing = await by_slug(store, "demo")
    assert (listing.record.name, listing.record.settings) == ("renamed", EVERY_SETTING)
    assert (listing.record.kind, listing.record.created_at) == (made.kind, made.created_at)
    assert _keys(listing.record) == {"s": b"v"}
    assert listing.head == before


# -- secrets --------------------------------------------------------------------------------------------
async def test_secrets_are_added_replaced_and_removed_by_name(store: Log) -> None:
    made = await create(store, secrets=(secret("a", b"1"),))
    id = made.inbox_id
    await store.commit(Do(lambda tx: tx.put_secret(id, secret("b", b"2", START_US + 7))))
    await store.commit(Do(lambda tx: tx.put_secret(id, secret("a", b"3"))))
    record = (await by_slug(store, "demo")).record
    assert _keys(record) == {"a": b"3", "b": b"2"}
    assert {one.name: one.added_at for one in record.secrets} == {"a": START_US, "b": START_US + 7}
    assert await store.commit(Do(lambda tx: tx.drop_secret(id, "a"))) is True
    assert await store.commit(Do(lambda tx: tx.drop_secret(id, "a"))) is False
    assert _keys((await by_slug(store, "demo")).record) == {"b": b"2"}


async def test_secrets_belong_to_one_inbox(store: Log) -> None:
    one = await create(store, "one", secrets=(secret("s", b"1"),))
    await create(store, "two", secrets=(secret("s", b"2"),))
    await store.commit(Do(lambda tx: tx.drop_secret(one.inbox_id, "s")))
    assert _keys((await by_slug(store, "two")).record) == {"s": b"2"}


# -- lives ----------------------------------------------------------------------------------------------
async def test_a_deleted_inbox_is_gone_from_everything(store: Log) -> None:
    made = await create(store, secrets=(secret("s"),))
    id = made.inbox_id
    await fill(store, id, 2)
    believed = await head(store, id)
    await delete(store, id)
    assert await by_slug(store, "demo") is None
    assert await listed(store) == []
    assert await listed(store, ["demo"]) == []
    for unit in (
        lambda tx: tx.head(id),
        lambda tx: tx.inbox(id),
        lambda tx: tx.change_inbox(id, "n", InboxSettings()),
        lambda tx: tx.delete_inbox(id),
        lambda tx: tx.put_secret(id, secret("t")),
        lambda tx: tx.drop_secret(id, "s"),
    ):
        with pytest.raises(InboxGone):
            await store.commit(Do(unit))
    for look in (
        lambda snapshot: snapshot.head(id),
        lambda snapshot: snapshot.inbox(id),
        lambda snapshot: snapshot.page(PageQuery(id, 10, after=0)),
        lambda snapshot: snapshot.message(id, 1, 0),
    ):
        with pytest.raises(InboxGone):
            await store.read(See(look))

    def late_turn(tx: Tx) -> None:
        tx.append(id, believed.epoch, [entry(3)])
        tx.advance(id, believed, head_after(believed, [entry(3)]))

    with pytest.raises((Fenced, InboxGone)):
        await store.commit(Do(late_turn))


async def test_an_inbox_that_never_was_is_gone(store: Log) -> None:
    for unit in (lambda tx: tx.head(4_711), lambda tx: tx.inbox(4_711), lambda tx: tx.delete_inbox(4_711)):
        with pytest.raises(InboxGone):
            await store.commit(Do(unit))
    with pytest.raises(InboxGone):
        await store.read(See(lambda snapshot: snapshot.head(4_711)))
    assert await by_slug(store, "never") is None


async def test_a_slug_is_free_at_once_and_begins_a_new_life(store: Log) -> None:
    old = await create(store, secrets=(secret("s"),))
    await fill(store, old.inbox_id, 3)
    old_epoch = (await head(store, old.inbox_id)).epoch
    await store.commit(Do(lambda tx: tx.remember(old.inbox_id, [(b"k", Seen(1, b"i" * 16, START_US))])))
    await delete(store, old.inbox_id)
    new = await create(store)
    assert new.inbox_id != old.inbox_id
    found = await head(store, new.inbox_id)
    assert found.epoch != old_epoch
    assert (found.latest_seq, found.first_seq, found.live_rows) == (0, 1, 0)
    assert (await by_slug(store, "demo")).record.secrets == ()
    assert await seqs(store, new.inbox_id) == []
    assert await store.commit(Do(lambda tx: tx.seen(new.inbox_id, [b"k"]))) == {}
    with pytest.raises(InboxGone):
        await head(store, old.inbox_id)
    await append(store, new.inbox_id, [entry(1)])
    assert await seqs(store, new.inbox_id) == [1]


async def test_deleting_and_creating_may_share_a_unit(store: Log) -> None:
    old = await create(store)

    def again(tx: Tx):
        tx.delete_inbox(old.inbox_id)
        return tx.create_inbox(new_inbox("demo"))

    new = await store.commit(Do(again))
    assert (await by_slug(store, "demo")).record.inbox_id == new.inbox_id != old.inbox_id


async def test_ids_are_not_used_again_after_sweeping_and_a_restart(open_log: OpenLog) -> None:
    used: set[int] = set()
    for _ in range(3):
        async with open_log() as log:
            made = await create(log)
            assert made.inbox_id not in used
            used.add(made.inbox_id)
            await delete(log, made.inbox_id)
            while (await log.commit(Do(lambda tx: tx.sweep(100, 1 << 20), grows=False))).more:
                pass


# -- listing --------------------------------------------------------------------------------------------
async def test_listing_goes_by_slug_and_leaves_private_inboxes_out(store: Log) -> None:
    for slug, kind in [
        ("b", "webhook"),
        ("agent.x", "agent"),
        ("a-1", "topic"),
        ("machine.m", "machine"),
        ("a.1", "webhook"),
        ("a1", "webhook"),
        ("a_1", "webhook"),
        ("0", "topic"),
    ]:
        await create(store, slug, kind)
    everything = ["0", "a-1", "a.1", "a1", "a_1", "b"]
    assert await listed(store) == everything
    for limit in (1, 2, 5, 6, 7):
        got: list[str] = []
        while more := await listed(store, None, got[-1] if got else "", limit):
            assert len(more) <= limit
            got += more
        assert got == everything
    assert await listed(store, None, "a") == everything[1:]
    assert await listed(store, None, "b") == []


async def test_listing_by_name_has_every_kind_once(store: Log) -> None:
    for slug, kind in [("a", "webhook"), ("agent.x", "agent"), ("machine.m", "machine"), ("t", "topic")]:
        await create(store, slug, kind)
    assert await listed(store, ["t", "agent.x", "absent", "a", "t", "machine.m"]) == [
        "a",
        "agent.x",
        "machine.m",
        "t",
    ]
    assert await listed(store, ["t", "a", "agent.x"], "a", 1) == ["agent.x"]
    assert await listed(store, []) == []
    many = [f"absent-{n}" for n in range(1_500)]
    assert await listed(store, [*many, "t"]) == ["t"]


async def test_listings_have_heads_and_no_secrets(store: Log) -> None:
    made = await create(store, secrets=(secret("s"),))
    await fill(store, made.inbox_id, 3)
    for slugs in (None, ["demo"]):
        (listing,) = await store.read(See(lambda snapshot, slugs=slugs: snapshot.inboxes(slugs, "", 10)))
        assert listing.record.secrets == ()
        assert listing.record.settings == made.settings
        assert listing.head == await head(store, made.inbox_id)


async def test_inboxes_are_found_by_their_verifiers_in_the_order_of_their_making(store: Log) -> None:
    made = [
        await create(store, slug, settings=InboxSettings(verifier=verifier), secrets=(secret("one"),))
        for slug, verifier in (
            ("d", "square"),
            ("b", "github"),
            ("c", "twilio"),
            ("a", "square"),
            ("e", "twilio"),
        )
    ]
    await delete(store, made[-1].inbox_id)

    async def found(*verifiers: str, after_id: int = 0, limit: int = 10) -> list[InboxRecord]:
        return await store.read(
            See(lambda snapshot: snapshot.inboxes_verified_by(verifiers, after_id, limit))
        )

    both = await found("twilio", "square")
    assert both == [msgspec.structs.replace(made[n], secrets=()) for n in (0, 2, 3)]
    assert await found("twilio", "square", limit=2) == both[:2]
    assert await found("twilio", "square", after_id=both[1].inbox_id) == both[2:]
    assert await found("stripe") == []
