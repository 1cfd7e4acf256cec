"""What a new data directory begins with, what an old one is left with, and how a lost admin token is replaced."""

import pytest
import trio

from actors.tokens import TokenBook, hash_token
from actors.units import PutToken, Reading
from postroom.bootstrap import found, plan_reset
from postroom.config import Config, ConfigError, load
from storage.memory import MemoryStore
from storage.records import TokenRecord

NOW_US = 1_700_000_000_000_000
GIVEN_TOKEN = "g" * 40


def config(**environment: str) -> Config:
    return load(environment={f"POSTROOM_{name}": value for name, value in environment.items()})


async def tokens_of(store: MemoryStore) -> list[TokenRecord]:
    return await store.read(Reading(lambda snapshot: snapshot.tokens()))


async def slugs_of(store: MemoryStore) -> list[str]:
    listings = await store.read(Reading(lambda snapshot: snapshot.inboxes(None, "", 10)))
    return [listing.record.slug for listing in listings]


async def test_a_new_directory_gets_an_admin_token_and_a_demo_inbox() -> None:
    store = MemoryStore()
    with trio.fail_after(5):
        founded = await found(store, config(), NOW_US)
        [token] = await tokens_of(store)
        assert founded.is_new
        assert founded.demo
        assert founded.admin_token is not None
        assert founded.admin_token.startswith("prm_admin_")
        assert len(founded.admin_token) == len("prm_admin_") + 43  # 256 bits in base64url
        assert (token.kind, token.hash) == ("admin", hash_token(founded.admin_token.encode()))
        assert await slugs_of(store) == ["demo"]


async def test_the_demo_inbox_has_the_configured_retention() -> None:
    store = MemoryStore()
    with trio.fail_after(5):
        await found(store, config(RETENTION_MAX_MESSAGES="5"), NOW_US)
        listing = await store.read(Reading(lambda snapshot: snapshot.inbox_by_slug("demo")))
    assert listing is not None
    assert listing.record.settings.retention.max_messages == 5


async def test_a_directory_is_founded_once() -> None:
    store = MemoryStore()
    with trio.fail_after(5):
        await found(store, config(), NOW_US)
        again = await found(store, config(), NOW_US)
        assert (again.is_new, again.admin_token, again.demo) == (False, None, False)
        assert len(await tokens_of(store)) == 1


async def test_beyond_loopback_there_is_no_open_demo_inbox() -> None:
    store = MemoryStore()
    with trio.fail_after(5):
        founded = await found(store, config(BIND="0.0.0.0:8025"), NOW_US)
        assert not founded.demo
        assert await slugs_of(store) == []


async def test_a_configured_admin_token_is_used_and_not_printed() -> None:
    store = MemoryStore()
    with trio.fail_after(5):
        founded = await found(store, config(ADMIN_TOKEN=GIVEN_TOKEN), NOW_US)
        [token] = await tokens_of(store)
        assert founded.is_new
        assert founded.admin_token is None
        assert token.hash == hash_token(GIVEN_TOKEN.encode())
        again = await found(store, config(ADMIN_TOKEN=GIVEN_TOKEN), NOW_US)
        assert not again.is_new


async def test_another_admin_token_than_the_directory_has_stops_the_start() -> None:
    store = MemoryStore()
    with trio.fail_after(5):
        await found(store, config(), NOW_US)
        with pytest.raises(
            ConfigError, match="POSTROOM_ADMIN_TOKEN is not an admin token of this data directory"
        ):
            await found(store, config(ADMIN_TOKEN=GIVEN_TOKEN), NOW_US)


@pytest.mark.parametrize("ended", ["revoked_at", "expires_at"])
async def test_an_admin_token_that_has_ended_is_no_longer_accepted_as_configured(ended: str) -> None:
    store = MemoryStore()
    token = TokenRecord("one", hash_token(GIVEN_TOKEN.encode()), "admin", None, **{ended: NOW_US})
    with trio.fail_after(5):
        await store.commit(PutToken(token))
        with pytest.raises(ConfigError):
            await found(store, config(ADMIN_TOKEN=GIVEN_TOKEN), NOW_US)


async def test_revoking_every_admin_token_does_not_make_the_directory_new() -> None:
    store = MemoryStore()
    token = TokenRecord("one", hash_token(b"x"), "admin", None, revoked_at=NOW_US)
    with trio.fail_after(5):
        await store.commit(PutToken(token))
        founded = await found(store, config(), NOW_US)
    assert not founded.is_new


async def test_a_reset_leaves_one_admin_token_and_every_agent_token() -> None:
    store = MemoryStore()
    with trio.fail_after(5):
        founded = await found(store, config(), NOW_US)
        await store.commit(PutToken(TokenRecord("agent", hash_token(b"agent"), "agent", ("demo",))))
        unit, text = plan_reset(await tokens_of(store), NOW_US)
        await store.commit(unit)
        book = TokenBook(store, lambda: NOW_US)
        await book.load()
    assert founded.admin_token is not None
    assert book.find(founded.admin_token.encode()) is None
    assert book.find(b"agent") is not None
    renewed = book.find(text.encode())
    assert renewed is not None
    assert renewed.kind == "admin"
