"""Reading on the page: a body in windows, and the stream from which a list goes on."""

import html
import json
import re
from pathlib import Path
from typing import Any

import pytest
from trio.testing import MockClock

from storage.records import Retention
from tests.virtual import pass_time
from tests.wire.pages_scene import SURE, Browser, Site, site

SHORT = {"ui_session_seconds": 120.0, "ui_idle_seconds": 20.0}
STREAMING = ("Accept", "text/event-stream")


async def _send(at: Site, count: int, slug: str = "demo", body: bytes = b"{}") -> None:
    async with at.served.connect() as client:
        for _ in range(count):
            assert (await client.request("POST", f"/in/{slug}", [], body)).status == 200


# -- a body in windows ---------------------------------------------------------------------------------------------
async def _windows(browser: Browser, path: str) -> list[str]:
    """Return what the pages of a body show, from link to link."""
    texts, at = [], "0"
    while at:
        page = (await browser.get(f"{path}?view=text&at={at}")).body.decode()
        shown = re.search(r'<pre class="text"[^>]*>(.*?)</pre>', page, re.DOTALL)
        assert shown is not None
        texts.append(html.unescape(shown[1]))
        following = re.search(r'at=(\d+)#body">Next<', page)
        at = following[1] if following else ""
    return texts


@pytest.mark.parametrize("shift", range(4))
async def test_the_pages_of_a_body_are_its_text_with_each_character_once(tmp_path: Path, shift: int) -> None:
    # In real time: a body of this size goes through a file, which a thread writes while a virtual clock would jump.
    # Four bytes each: with a shift one of them lies across every edge of a window, and of a piece that is stored.
    text = "x" * shift + "𝄞" * 80_000
    async with site(tmp_path) as at:
        await at.served.inbox("demo")
        await _send(at, 1, body=text.encode())
        browser = await at.admin()
        texts = await _windows(browser, "/ui/inboxes/demo/messages/1")
        assert len(texts) == 5
        assert "".join(texts) == text
        odd = (await browser.get("/ui/inboxes/demo/messages/1?view=text&at=70001")).body.decode()
        assert html.escape(texts[1][:100]) in odd, "windows stand side by side, whatever an address says"


async def test_who_sees_a_tree_as_text_goes_on_in_the_view_of_text(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with site(tmp_path) as at:
        await at.served.inbox("demo")
        await _send(at, 1, body=b'{"a":"' + b"x" * 70_000 + b'"}')
        page = (await (await at.admin()).get("/ui/inboxes/demo/messages/1?view=json")).body.decode()
        outside = re.sub(r"<noscript>.*?</noscript>", "", page, flags=re.DOTALL)
        assert 'href="?view=text&amp;at=65536#body">Next<' in page
        assert ">Next<" not in outside, "the tree is of the whole body"


# -- the stream of a list ------------------------------------------------------------------------------------------
async def _heard(at: Site, browser: Browser, path: str, until: bytes) -> str:
    cookie = ("Cookie", f"postroom_session={browser.cookie}")
    async with at.served.connect() as client:
        reply = await client.start(path, [cookie, STREAMING])
        assert reply.status == 200
        return (await client.until(until)).decode()


def _stream_of(page: bytes) -> dict[str, str]:
    """Return what a list says of itself to its script, by name."""
    tag = re.search(r'<div class="live"[^>]*>', page.decode())
    assert tag is not None
    return {name: html.unescape(value) for name, value in re.findall(r'data-(\w+)="([^"]*)"', tag[0])}


async def test_a_list_that_was_empty_is_told_what_has_come_and_gone_before_its_stream(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with site(tmp_path) as at:
        await at.served.inbox("demo", retention=Retention(max_messages=5))
        browser = await at.admin()
        stream = _stream_of((await browser.get("/ui/inboxes/demo")).body)["stream"]
        await _send(at, 12)
        told = await _heard(at, browser, stream, b'"seq":12')
        assert 'event: gap\ndata: {"inbox":"demo","after":0,"first_seq":8}' in told
        assert told.index("event: gap") < told.index('"seq":8')


@pytest.mark.parametrize("kind", ["admin", "agent"])
async def test_so_is_one_of_an_agents_mail(tmp_path: Path, autojump_clock: MockClock, kind: str) -> None:
    async with site(tmp_path) as at:
        admin = await at.admin()
        for agent_id in ("builder", "other"):
            await admin.post("/ui/agents", {"agent_id": agent_id})
        browser = at.browser()
        await browser.sign_in(await at.token(kind, **({"agent": "builder"} if kind == "agent" else {})))
        stream = _stream_of((await browser.get("/ui/inboxes/agent.builder")).body)["stream"]
        bearer = ("Authorization", f"Bearer {await at.token('agent', agent='other')}")
        letter = {
            "type": "created",
            "kind": "note",
            "subject": "s",
            "text": "t",
            "to": {"agents": ["builder"]},
        }
        async with at.served.connect() as client:
            for n in range(4):
                sent = await client.request("POST", "/v1/publish", [bearer], json.dumps(letter).encode())
                assert sent.status == 200, sent.body
                if n == 2:
                    assert (await admin.post("/ui/inboxes/agent.builder/purge", SURE)).status == 303
        told = await _heard(at, browser, stream, b'"seq":4')
        assert 'event: gap\ndata: {"inbox":"agent.builder","after":0,"first_seq":4}' in told


@pytest.mark.parametrize(
    ("since", "said"),
    [
        ("2026-01-31T09:30:00Z", "2026-01-31T09:30:00.000000Z"),
        ("2026-01-31T09:30:00.5%2B01:00", "2026-01-31T08:30:00.500000Z"),
        ("", ""),
    ],
)
async def test_a_list_since_a_time_tells_its_script_as_messages_have_it(
    tmp_path: Path, autojump_clock: MockClock, since: str, said: str
) -> None:
    async with site(tmp_path) as at:
        await at.served.inbox("demo")
        page = (await (await at.admin()).get(f"/ui/inboxes/demo?since={since}&types=push&verified=true")).body
        told = _stream_of(page)
        assert (told["since"], told["verified"]) == (said, "true")
        assert "types=push" in told["stream"]


async def test_a_stream_that_is_opened_again_and_again_is_no_sign_of_use(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with site(tmp_path, **SHORT) as at:
        await at.served.inbox("demo")
        browser = await at.admin()
        for method in ("GET", "HEAD") * 2:
            await pass_time(4)
            reply = await _asked(at, browser, method)
            assert reply.status == 200
        await pass_time(4)
        assert (await browser.get("/ui/inboxes")).status == 303


async def _asked(at: Site, browser: Browser, method: str) -> Any:
    cookie = ("Cookie", f"postroom_session={browser.cookie}")
    async with at.served.connect() as client:
        return await client.start("/ui/inboxes/demo/stream", [cookie, STREAMING], method)


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/ui/inboxes/demo/stream", 200),
        ("/ui/inboxes/absent/stream", 404),
        ("/ui/inboxes/demo/stream?after=0&epoch=another", 409),
        ("/ui/inboxes/demo/stream?after=7", 409),
    ],
)
async def test_a_script_learns_from_the_status_alone_why_a_stream_is_refused(
    tmp_path: Path, autojump_clock: MockClock, path: str, status: int
) -> None:
    async with site(tmp_path) as at:
        await at.served.inbox("demo")
        browser = await at.admin()
        for _ in range(2):  # what was asked about is let go of
            cookie = ("Cookie", f"postroom_session={browser.cookie}")
            async with at.served.connect() as client:
                reply = await client.start(path, [cookie, STREAMING], "HEAD")
            assert reply.status == status
        assert at.served.slots.taken == 0
