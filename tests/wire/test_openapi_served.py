"""`GET /openapi.json`: served to anybody, from memory, and not again to who has it."""

from pathlib import Path

from tests.wire.client import Reply
from tests.wire.harness import Wire, wire
from web.openapi.document import PATH


async def ask(served: Wire, method: str = "GET", *headers: tuple[str, str]) -> Reply:
    served.front.document.etag  # noqa: B018 - made here: a thread and a clock that jumps do not go together
    async with served.connect() as client:
        return await client.request(method, PATH, headers)


async def test_anybody_gets_the_document_with_its_tag(tmp_path: Path) -> None:
    async with wire(tmp_path, reading=True) as served:
        reply = await ask(served)
        again = await ask(served)
    assert reply.status == 200
    assert reply.header("content-type") == "application/json"
    assert reply.json["openapi"].startswith("3.1")
    assert again.body == reply.body
    assert again.header("etag") == reply.header("etag")


async def test_who_has_the_document_does_not_get_it_again(tmp_path: Path) -> None:
    async with wire(tmp_path) as served:
        tag = (await ask(served)).header("etag")
        assert tag is not None
        for known in (tag, f'"other", W/{tag}', "*"):
            reply = await ask(served, "GET", ("If-None-Match", known))
            assert (reply.status, reply.body, reply.header("etag")) == (304, b"", tag), known
        assert (await ask(served, "GET", ("If-None-Match", '"other"'))).status == 200
        shown = await ask(served, "HEAD")
        assert (shown.status, shown.body, shown.header("etag")) == (200, b"", tag)


async def test_other_methods_are_refused(tmp_path: Path) -> None:
    async with wire(tmp_path) as served:
        reply = await ask(served, "POST")
    assert (reply.status, reply.code, reply.header("allow")) == (405, "method_not_allowed", "GET, HEAD")
