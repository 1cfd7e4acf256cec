"""The page over the wire: who gets which screen, what every answer carries, and how refusals look."""

import html
import json
import re
from pathlib import Path

import pytest
from trio.testing import MockClock

from storage.records import Response
from tests.wire.pages_scene import ORIGIN, SURE, Site, site
from web.pages.rendering import POLICY

PAGES = (
    "/ui/inboxes",
    "/ui/new-inbox",
    "/ui/inboxes/demo",
    "/ui/inboxes/demo/setup",
    "/ui/inboxes/demo/settings",
    "/ui/inboxes/demo/messages/1",
    "/ui/tokens",
    "/ui/token",
    "/ui/agents",
    "/ui/agents/builder",
    "/ui/waiting",
)
ADMIN_ONLY = ("/ui/new-inbox", "/ui/tokens", "/ui/waiting", "/ui/server", "/ui/inboxes/demo/settings")


async def _demo(at: Site) -> None:
    inbox = await at.served.inbox("demo")
    await at.served.inbox("other")
    browser = await at.admin()
    assert (await browser.post("/ui/agents", {"agent_id": "builder"})).status == 303
    async with at.served.connect() as client:
        assert (await client.request("POST", f"/in/{inbox.slug}", [], b"{}")).status == 200


async def test_every_screen_is_closed_to_everything_from_elsewhere(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with site(tmp_path) as at:
        await _demo(at)
        browser = await at.admin()
        stranger = at.browser()
        style = re.search(rb'href="(/ui/static/[^"]+css)"', (await stranger.get("/ui/sign-in")).body)
        assert style is not None
        for path in (*PAGES, "/ui", "/ui/absent", "/ui/inboxes/absent", style[1].decode()):
            for visitor in (browser, stranger):
                reply = await visitor.get(path)
                assert reply.header("content-security-policy") == POLICY, path
                assert reply.header("x-frame-options") == "DENY"
                kept = "public, max-age=31536000, immutable" if path.endswith(".css") else "no-store"
                assert reply.header("cache-control") == kept, path
                assert reply.header("x-content-type-options") == "nosniff"
                assert b"<script>" not in reply.body
                assert b" style=" not in reply.body
                assert not re.search(rb"\son[a-z]+=", reply.body)


async def test_an_administrator_has_every_screen(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with site(tmp_path) as at:
        await _demo(at)
        browser = await at.admin()
        for path in PAGES:
            reply = await browser.get(path)
            assert reply.status == 200, path
            assert reply.header("content-type") == "text/html; charset=utf-8"


async def test_another_token_has_what_it_reads(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with site(tmp_path) as at:
        await _demo(at)
        browser = at.browser()
        await browser.sign_in(await at.token("agent", ["demo"]))
        for path in (
            "/ui/inboxes",
            "/ui/inboxes/demo",
            "/ui/inboxes/demo/messages/1",
            "/ui/token",
            "/ui/agents",
        ):
            assert (await browser.get(path)).status == 200, path
        for path in ADMIN_ONLY:
            reply = await browser.get(path)
            assert reply.status == 403, path
            assert b"This needs an admin token." in reply.body
        absent, forbidden = await browser.get("/ui/inboxes/absent"), await browser.get("/ui/inboxes/other")
        assert absent.status == forbidden.status == 404
        assert absent.body.replace(b"absent", b"other") == forbidden.body
        assert (await browser.get("/ui/agents/builder")).status == 404
        stream = await browser.get("/ui/inboxes/other/stream")
        assert stream.status == 404


@pytest.mark.parametrize(
    ("path", "fields"),
    [
        ("/ui/new-inbox", {"slug": "made"}),
        ("/ui/inboxes/demo/settings", {"name": "changed"}),
        ("/ui/inboxes/demo/secrets", {"value": "secret"}),
        ("/ui/inboxes/demo/purge", {}),
        ("/ui/inboxes/demo/delete", {"confirm": "demo"}),
        ("/ui/inboxes/demo/sample", {}),
        ("/ui/inboxes/demo/messages/1/erase", {}),
        ("/ui/tokens", {"kind": "admin"}),
        ("/ui/tokens/x/revoke", {}),
        ("/ui/agents", {"agent_id": "made"}),
        ("/ui/agents/builder/delete", {}),
        ("/ui/machines", {"name": "made"}),
        ("/ui/machines/x/delete", {}),
    ],
)
async def test_another_token_changes_nothing(
    tmp_path: Path, autojump_clock: MockClock, path: str, fields: dict[str, str]
) -> None:
    async with site(tmp_path) as at:
        await _demo(at)
        browser = at.browser()
        await browser.sign_in(await at.token("agent", ["demo"]))
        assert (await browser.post(path, fields)).status == 403


async def test_an_agents_beacons_are_its_own(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with site(tmp_path) as at:
        await _demo(at)
        admin = await at.admin()
        await admin.post("/ui/agents", {"agent_id": "other"})
        own = at.browser()
        await own.sign_in(await at.token("agent", ["demo"], agent="builder"))
        beacon = {"name": "ci", "about": "broken builds"}
        for browser in (own, admin):
            assert (await browser.post("/ui/agents/builder/beacons", beacon)).status == 303
            assert b"broken builds" in (await browser.get("/ui/agents/builder")).body
        assert (await own.post("/ui/agents/other/beacons", beacon)).status == 404
        assert (await own.post("/ui/agents/builder/beacons/ci/remove", SURE)).status == 303
        assert (await own.post("/ui/agents/builder/beacons/ci/remove", SURE)).status == 404


async def test_looking_at_the_page_is_no_sign_of_life(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with site(tmp_path) as at:
        await _demo(at)
        browser = at.browser()
        await browser.sign_in(await at.token("agent", ["demo"], agent="builder"))
        for path in ("/ui/inboxes", "/ui/inboxes/demo", "/ui/agents", "/ui/agents/builder", "/ui/token"):
            assert (await browser.get(path)).status == 200
        agent = at.served.service.mail.agents.get("builder")
        assert agent is not None
        assert at.served.service.mesh.presences.of(agent).last_activity_at is None


async def test_a_form_that_is_refused_comes_back_with_the_reason(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with site(tmp_path) as at:
        await _demo(at)
        browser = await at.admin()
        reply = await browser.post("/ui/new-inbox", {"slug": "demo", "name": "Mine", "secret": "s3cret"})
        assert reply.status == 409
        assert b"exists already" in reply.body
        assert b'value="Mine"' in reply.body
        assert b"s3cret" not in reply.body
        for path, fields, words in (
            ("/ui/new-inbox", {"retention.max_age_seconds": "soon"}, b"Expected a duration"),
            ("/ui/new-inbox", {"verifier": "hmac", "verifier_options": "[1]"}, b"Expected a JSON object"),
            ("/ui/inboxes/demo/settings", {"retention.max_bytes": "-1"}, b"Expected a size"),
            ("/ui/tokens", {"kind": "agent"}, b"Name the inboxes"),
            ("/ui/tokens", {"kind": "agent", "inboxes": "a", "expires_at": "9" * 18}, b"too far away"),
            ("/ui/agents/builder/beacons", {"name": "X", "about": "y"}, b"Expected 1 to 64"),
            ("/ui/inboxes/demo/delete", {"confirm": "dem"}, b"Write the inbox"),
        ):
            reply = await browser.post(path, fields)
            assert reply.status == 400, (path, reply.body)
            assert words in reply.body, path
            assert b'role="alert"' in reply.body


@pytest.mark.parametrize("body", [b"\xff=1", b"%", b"a&" * 300, b'{"slug":"made"}'])
async def test_what_is_no_form_is_refused(tmp_path: Path, autojump_clock: MockClock, body: bytes) -> None:
    async with site(tmp_path) as at:
        browser = await at.admin()
        reply = await browser._ask("POST", "/ui/new-inbox", [ORIGIN], body)
        assert reply.status in (400, 403)


async def test_queries_of_any_kind_are_answered_with_a_page(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with site(tmp_path) as at:
        await _demo(at)
        browser = await at.admin()
        for path, status in (
            ("/ui/inboxes/demo?before=x", 400),
            ("/ui/inboxes/demo?verified=maybe", 400),
            ("/ui/inboxes/demo?types=%ff", 200),
            ("/ui/inboxes/demo?q=words", 409),
            ("/ui/inboxes/demo?" + "a&" * 80, 400),
            ("/ui/inboxes/demo/messages/0", 400),
            ("/ui/inboxes/demo/messages/x", 400),
            ("/ui/inboxes/demo/messages/2", 404),
            ("/ui/inboxes/demo/messages/1?view=odd&at=-1", 200),
            ("/ui/inboxes/demo/messages/1?view=hex&at=9999999999999999999999", 200),
            ("/ui/inboxes?after=%00", 200),
            ("/ui/tokens?after=zz", 200),
            ("/ui/static/old/page.css", 200),
            ("/ui/static/old/..%2Fapp.py", 404),
        ):
            reply = await browser.get(path)
            assert reply.status == status, (path, reply.body[-500:])


async def test_a_file_of_another_version_is_served_and_not_kept(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with site(tmp_path) as at:
        reply = await at.browser().get("/ui/static/000000000000/page.js")
        assert (reply.status, reply.header("cache-control")) == (200, "no-store")


async def test_switched_off_there_is_no_page(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with site(tmp_path, ui_enabled=False) as at:
        for path in ("/ui", "/ui/sign-in", "/ui/inboxes"):
            reply = await at.browser().get(path)
            assert (reply.status, reply.code) == (404, "not_found")


async def test_with_reading_off_the_page_shows_no_message(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with site(tmp_path, read_api_enabled=False) as at:
        await _demo(at)
        browser = await at.admin()
        for path in ("", "/messages/1", "/messages/1/raw", "/stream"):
            reply = await browser.get(f"/ui/inboxes/demo{path}")
            assert reply.status == 404, path
            assert b"switched off" in reply.body
        assert (await browser.get("/ui/inboxes/demo/settings")).status == 200


async def test_the_raw_bytes_of_a_message_are_harmless_here_too(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with site(tmp_path) as at:
        await at.served.inbox("demo")
        async with at.served.connect() as client:
            await client.request(
                "POST", "/in/demo", [("Content-Type", "text/html")], b"<script>alert(1)</script>"
            )
        browser = await at.admin()
        reply = await browser.get("/ui/inboxes/demo/messages/1/raw", ("Range", "bytes=0-7"))
        assert (reply.status, reply.body) == (206, b"<script>")
        assert reply.header("content-type") == "application/octet-stream"
        assert (reply.header("content-disposition") or "").startswith("attachment")
        policies = [value for name, value in reply.headers if name == b"content-security-policy"]
        assert policies == [b"sandbox; default-src 'none'"]


async def test_a_purge_a_secret_and_a_token_go_their_way(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with site(tmp_path) as at:
        await _demo(at)
        browser = await at.admin()
        reply = await browser.post("/ui/inboxes/demo/purge", SURE)
        assert b"1 message was dropped." in (await browser.get(reply.header("location") or "")).body
        reply = await browser.post("/ui/tokens", {"kind": "agent", "inboxes": "demo", "name": "reader"})
        shown = await browser.get(reply.header("location") or "")
        [text] = re.findall(rb"prm_agent_[A-Za-z0-9_-]{43}", shown.body.replace(b"data-copy", b""))[:1]
        assert text not in (await browser.get("/ui/tokens")).body
        secret = {"name": "default", "value": "a secret", "verifier": "github"}
        await browser.post("/ui/new-inbox", {"slug": "hooks", "verifier": "github"})
        await browser.post("/ui/inboxes/hooks/secrets?back=setup", secret)
        record = await at.served.service.find("hooks")
        assert record is not None
        assert [one.name for one in record.secrets] == ["default"]
        await browser.post("/ui/inboxes/hooks/secrets/default/drop", SURE)
        assert b"There is none." in (await browser.get("/ui/inboxes/hooks/settings")).body


async def test_saving_settings_changes_what_was_changed_and_nothing_that_others_have_changed(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with site(tmp_path) as at:
        own = Response(202, "text/plain", "ok\n", {"X-Own": "1"})
        await at.served.inbox("demo", response=own)
        browser = await at.admin()
        shown = (await browser.get("/ui/inboxes/demo/settings")).body.decode()
        was = html.unescape(re.search(r'name="was" value="([^"]*)"', shown)[1])  # type: ignore[index]  # it is there
        fields = json.loads(was)
        other = {"on_unverified": "reject", "retention.max_messages": "77,777"}
        assert (
            await browser.post("/ui/inboxes/demo/settings", {**fields, "was": was, **other})
        ).status == 303
        reply = await browser.post("/ui/inboxes/demo/settings", {**fields, "was": was, "name": "renamed"})
        assert reply.status == 303, reply.body
        record = await at.served.service.find("demo")
        assert record is not None
        assert record.name == "renamed"
        assert (record.settings.on_unverified, record.settings.retention.max_messages) == ("reject", 77_777)
        assert record.settings.response == own, "not a byte of it, nor a header"
        await browser.post("/ui/inboxes/demo/settings", {**fields, "was": was, "response.body": "thanks"})
        record = await at.served.service.find("demo")
        assert record is not None
        assert record.settings.response is not None
        assert record.settings.response.body == "thanks"
