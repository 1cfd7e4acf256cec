import msgspec
import pytest

from actors.commands import Refusal
from actors.tokens import TokenBook, hash_token
from actors.watchers import Watcher
from storage.memory import MemoryStore
from storage.records import TokenRecord


class Clock:
    """A clock in µs that stands still until told otherwise."""

    def __init__(self) -> None:
        self.now = 1_000_000

    def __call__(self) -> int:
        return self.now


async def made(book: TokenBook, **more: object) -> tuple[TokenRecord, bytes]:
    token, text = book.draft("agent", inboxes=["demo"], **more)  # type: ignore[arg-type]  # name, expires_at
    await book.create(token)
    return token, text.encode()


async def test_a_token_is_found_by_its_text_and_by_no_other() -> None:
    book = TokenBook(MemoryStore(), Clock())
    token, text = await made(book)
    assert book.find(text) == token
    assert book.find(text + b"x") is None
    assert book.find(b"") is None


async def test_only_the_hash_is_kept() -> None:
    store = MemoryStore()
    book = TokenBook(store, Clock())
    token, text = await made(book)
    assert token.hash == hash_token(text)
    assert text.decode() not in repr(token)
    assert text not in msgspec.json.encode(token)


async def test_texts_are_prefixed_by_kind_and_never_the_same() -> None:
    book = TokenBook(MemoryStore(), Clock())
    texts = {book.draft("admin", inboxes=None)[1] for _ in range(100)}
    assert len(texts) == 100
    assert all(text.startswith("prm_admin_") and len(text) == len("prm_admin_") + 43 for text in texts)


async def test_a_token_expires_at_its_moment() -> None:
    clock = Clock()
    book = TokenBook(MemoryStore(), clock)
    _, text = await made(book, expires_at=2_000_000)
    clock.now = 1_999_999
    assert book.find(text) is not None
    clock.now = 2_000_000
    assert book.find(text) is None


async def test_a_revoked_token_fails_on_the_next_call_and_stays_so_after_a_restart() -> None:
    store = MemoryStore()
    book = TokenBook(store, Clock())
    token, text = await made(book)
    await book.revoke(token.token_id)
    assert book.find(text) is None
    again = TokenBook(store, Clock())
    await again.load()
    assert again.find(text) is None
    with pytest.raises(Refusal):
        await again.revoke(token.token_id)


async def test_a_changed_scope_is_in_force_at_once_and_after_a_restart() -> None:
    store = MemoryStore()
    book = TokenBook(store, Clock())
    token, text = await made(book)
    await book.change(token.token_id, lambda old: msgspec.structs.replace(old, inboxes=("other",)))
    again = TokenBook(store, Clock())
    await again.load()
    for one in (book, again):
        found = one.find(text)
        assert found is not None
        assert found.inboxes == ("other",)


async def test_the_last_lasting_admin_token_cannot_be_revoked() -> None:
    book = TokenBook(MemoryStore(), Clock())
    first, _ = book.draft("admin", inboxes=None)
    passing, _ = book.draft("admin", inboxes=None, expires_at=10_000_000)
    await book.create(first)
    await book.create(passing)
    with pytest.raises(Refusal, match="last admin token"):
        await book.revoke(first.token_id)
    second, _ = book.draft("admin", inboxes=None)
    await book.create(second)
    await book.revoke(first.token_id)


async def test_the_last_lasting_admin_token_cannot_be_made_to_expire() -> None:
    book = TokenBook(MemoryStore(), Clock())
    only, _ = book.draft("admin", inboxes=None)
    await book.create(only)
    with pytest.raises(Refusal, match="last admin token"):
        await book.change(only.token_id, lambda old: msgspec.structs.replace(old, expires_at=9_000_000))


async def test_last_use_is_written_down_coarsely_and_survives() -> None:
    store, clock = MemoryStore(), Clock()
    book = TokenBook(store, clock)
    token, text = await made(book)
    commits = store.health.commits
    for _ in range(10):
        book.find(text)
    assert store.health.commits == commits
    await book.flush_use()
    await book.flush_use()
    assert store.health.commits == commits + 1
    again = TokenBook(store, clock)
    await again.load()
    listed = again.get(token.token_id)
    assert listed is not None
    assert listed.last_used_at == clock.now


async def test_tokens_are_paged_by_id_without_the_revoked_ones() -> None:
    book = TokenBook(MemoryStore(), Clock())
    tokens = [(await made(book))[0] for _ in range(5)]
    await book.revoke(tokens[1].token_id)
    ids = sorted(token.token_id for token in tokens if token is not tokens[1])
    first = book.page("", 3)
    rest = book.page(first[-1].token_id, 3)
    assert [token.token_id for token in first + rest] == ids


async def test_a_watcher_hears_of_its_token_and_of_no_other() -> None:
    book = TokenBook(MemoryStore(), Clock())
    (mine, _), (other, _) = await made(book), await made(book)
    watcher = Watcher()
    with book.watching(mine, watcher):
        await book.revoke(other.token_id)
        assert watcher.ended is None
        await book.change(mine.token_id, lambda old: msgspec.structs.replace(old, inboxes=("other",)))
        assert watcher.rescoped
        await book.revoke(mine.token_id)
        assert watcher.ended == "revoked"


async def test_a_token_revoked_or_changed_before_the_watch_began_is_noticed_at_once() -> None:
    book = TokenBook(MemoryStore(), Clock())
    (gone, _), (changed, _) = await made(book), await made(book)
    await book.revoke(gone.token_id)
    await book.change(changed.token_id, lambda old: msgspec.structs.replace(old, inboxes=("other",)))
    late, behind = Watcher(), Watcher()
    with book.watching(gone, late), book.watching(changed, behind):
        assert late.ended == "revoked"
        assert behind.rescoped


async def test_noting_when_tokens_were_used_wakes_nobody() -> None:
    book = TokenBook(MemoryStore(), Clock())
    token, text = await made(book)
    watcher = Watcher()
    with book.watching(token, watcher):
        book.find(text)
        await book.flush_use()
        assert not watcher.rescoped
