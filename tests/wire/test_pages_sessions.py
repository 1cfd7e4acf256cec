"""Signing in to the page: what a session is, what ends it, and which requests it is not enough for."""

from pathlib import Path
from typing import Any

import pytest
from trio.testing import MockClock

from tests.virtual import pass_time
from tests.wire.pages_scene import NAVIGATING, ORIGIN, site
from web.options import WebOptions
from web.pages.sessions import NOTES_KEPT, SESSIONS_PER_TOKEN, Session

SHORT = {"ui_session_seconds": 120.0, "ui_idle_seconds": 20.0}
"""Hours would be a tick of the server's for every second of them."""

RENEWAL = ("Postroom-Renewal", "1")


async def test_a_session_is_a_cookie_of_the_page_alone(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with site(tmp_path) as at:
        browser = at.browser()
        token = await at.token()
        reply = await browser.sign_in(token)
        assert (reply.status, reply.header("location")) == (303, "/ui/inboxes")
        cookie, *attributes = (reply.header("set-cookie") or "").split("; ")
        assert cookie.startswith("postroom_session=")
        assert token not in cookie
        assert sorted(attributes) == ["HttpOnly", "Path=/ui", "SameSite=Strict"]
        api = await browser._ask("GET", "/v1/inboxes", [])
        assert (api.status, api.code) == (401, "unauthenticated")


async def test_over_tls_the_cookie_stays_there(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with site(tmp_path) as at:
        reply = await at.browser().sign_in(await at.token(), ("Origin", "https://test"))
        assert "Secure" in (reply.header("set-cookie") or "").split("; ")


async def test_a_bearer_token_is_no_way_in(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with site(tmp_path) as at:
        bearer = ("Authorization", f"Bearer {await at.token()}")
        reply = await at.browser().get("/ui/inboxes", bearer)
        assert (reply.status, reply.header("location")) == (303, "/ui/sign-in")


@pytest.mark.parametrize(
    ("wanted", "leads_to"),
    [
        ("/ui/inboxes/demo?types=push", "/ui/inboxes/demo?types=push"),
        ("/ui/inboxes/demo?types=a/../b", "/ui/inboxes/demo?types=a/../b"),
        ("/ui/inboxes/demo?q=a+%22b%22%25", "/ui/inboxes/demo?q=a+%22b%22%25"),
        ("/ui/inboxes/a.b/settings", "/ui/inboxes/a.b/settings"),
        ("/ui/../v1/me", "/ui/inboxes"),
        ("/ui", "/ui/inboxes"),
        ("/ui/sign-out", "/ui/inboxes"),
    ],
)
async def test_signing_in_leads_to_the_page_that_was_wanted(
    tmp_path: Path, autojump_clock: MockClock, wanted: str, leads_to: str
) -> None:
    async with site(tmp_path) as at:
        browser = at.browser()
        where = (await browser.get(wanted)).header("location") or ""
        assert where.startswith("/ui/sign-in")
        reply = await browser.post(where, {"token": await at.token()})
        assert reply.header("location") == leads_to


@pytest.mark.parametrize(
    "elsewhere",
    [
        "//evil.example/",
        "https://evil.example/",
        "/\\evil.example",
        "/ui/\\..\\",
        "/v1/inboxes",
        "%2F%2Fevil",
        "/ui/a%0d%0aX: y",
        "/ui/../v1/me",
        "/ui/..",
        "/ui/a/../../v1/me",
        "/ui/./sign-out",
        "/ui/%252e%252e/v1/me",
        "/ui/.%252E/v1/me",
        "/ui/..%252fv1",
        "/ui/..%255cv1",
        "/ui/%25252e%25252e/v1/me",
        "/ui/a//evil.example",
        "/ui//evil.example",
        "/ui/%2fevil.example",
        "/ui/inboxes/..%3fx",
        "/ui/inboxes/..%23x",
        "/ui/inboxes/",
        "/ui/%25zz",
        "/ui/%2509/..",
        "/ui/%2573ign-out",
    ],
)
async def test_signing_in_leads_nowhere_else(
    tmp_path: Path, autojump_clock: MockClock, elsewhere: str
) -> None:
    async with site(tmp_path) as at:
        target = f"/ui/sign-in?next={elsewhere.replace(' ', '%20')}"
        reply = await at.browser().post(target, {"token": await at.token()})
        assert reply.header("location") == "/ui/inboxes"


@pytest.mark.parametrize(
    ("clicks_after", "signed_in"),
    [([10] * 11, True), ([10] * 12, False), ([20], False), ([19], True)],
    ids=["in use", "in use for too long", "idle for too long", "idle"],
)
async def test_a_session_ends_by_age_and_by_idleness(
    tmp_path: Path, autojump_clock: MockClock, clicks_after: list[float], signed_in: bool
) -> None:
    async with site(tmp_path, **SHORT) as at:
        browser = await at.admin()
        for seconds in clicks_after:
            await pass_time(seconds)
            reply = await browser.get("/ui/inboxes")
        assert reply.status == (200 if signed_in else 303)
        assert (browser.cookie is not None) == signed_in


async def test_a_page_that_renews_itself_is_no_sign_of_use_and_takes_no_note(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with site(tmp_path, **SHORT) as at:
        browser = await at.admin()
        await browser.post("/ui/machines", {"name": "laptop"})
        assert b"laptop was created" not in (await browser.get("/ui/agents", RENEWAL)).body
        assert b"laptop was created" in (await browser.get("/ui/agents")).body
        for _ in range(3):
            await pass_time(5)
            assert (await browser.get("/ui/agents", RENEWAL)).status == 200
        await pass_time(5)
        assert (await browser.get("/ui/agents", RENEWAL)).status == 303


def test_by_default_a_session_lasts_a_working_day_and_two_hours_without_a_click() -> None:
    assert (WebOptions().ui_session_seconds, WebOptions().ui_idle_seconds) == (12 * 3600, 2 * 3600)


async def test_a_session_ends_with_its_token(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with site(tmp_path) as at:
        browser = await at.admin()
        await at.token()
        [token, _] = at.served.world.tokens.page("", 2)
        await at.served.world.tokens.revoke(token.token_id)
        assert (await browser.get("/ui/inboxes")).status == 303


async def test_signing_out_ends_the_session_on_the_server(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with site(tmp_path) as at:
        browser = await at.admin()
        kept = browser.cookie
        reply = await browser.post("/ui/sign-out", {})
        assert reply.header("location") == "/ui/sign-in"
        assert browser.cookie is None
        browser.cookie = kept
        assert (await browser.get("/ui/inboxes")).status == 303


async def test_one_token_has_so_many_sessions_and_takes_none_from_others(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with site(tmp_path) as at:
        other = await at.admin()
        token = await at.token()
        browsers = [at.browser() for _ in range(SESSIONS_PER_TOKEN + 1)]
        for browser in browsers:
            await browser.sign_in(token)
        assert [(await browser.get("/ui/inboxes")).status for browser in (*browsers[:2], other)] == [
            303,
            200,
            200,
        ]


@pytest.mark.parametrize(
    "headers",
    [
        [("Origin", "http://evil.example")],
        [("Origin", "null")],
        [("Origin", "http://test:81")],
        [("Sec-Fetch-Site", "cross-site")],
        [("Sec-Fetch-Site", "same-site"), ORIGIN],
        [ORIGIN, ("Sec-Fetch-Site", "none")],
    ],
    ids=lambda headers: " ".join(value for _, value in headers),
)
async def test_forms_of_other_sites_do_nothing(
    tmp_path: Path, autojump_clock: MockClock, headers: list[tuple[str, str]]
) -> None:
    async with site(tmp_path) as at:
        browser = await at.admin()
        for path, fields in (
            ("/ui/new-inbox", {"slug": "made"}),
            ("/ui/sign-in", {"token": await at.token()}),
        ):
            reply = await browser.post(path, fields, *headers)
            assert reply.status == 403
            assert b"does not come from a page of this server" in reply.body
        assert await at.served.service.find("made") is None


async def test_a_form_needs_the_token_of_its_session(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with site(tmp_path) as at:
        browser, other = await at.admin(), await at.admin()
        for token in ("", "x", "é", other.form_token):
            browser.form_token = token
            reply = await browser.post("/ui/new-inbox", {"slug": "made"})
            assert reply.status == 403
        assert await at.served.service.find("made") is None


async def test_signing_in_needs_a_browser_that_says_where_it_is(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with site(tmp_path) as at:
        reply = await at.browser().post("/ui/sign-in", {"token": await at.token()}, NAVIGATING)
        assert reply.status == 403


async def test_wrong_tokens_count_as_everywhere(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with site(tmp_path, auth_failures_per_minute=2) as at:
        browser = at.browser()
        statuses = [(await browser.sign_in("prm_admin_wrong")).status for _ in range(3)]
        assert statuses == [401, 401, 429]
        api = await browser._ask("GET", "/v1/inboxes", [("Authorization", "Bearer wrong")])
        assert api.status == 429
        assert (await browser.sign_in(await at.token())).status == 303


@pytest.mark.parametrize("token", ["", "é", "two words", "x" * 600])
async def test_what_is_no_token_is_refused_in_words(
    tmp_path: Path, autojump_clock: MockClock, token: str
) -> None:
    async with site(tmp_path) as at:
        reply = await at.browser().sign_in(token)
        assert reply.status in (400, 401)
        assert b'role="alert"' in reply.body
        assert token == "" or token.encode() not in reply.body


async def test_who_is_not_signed_in_sends_little(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with site(tmp_path) as at:
        reply = await at.browser().post("/ui/sign-in", {"token": "x" * 20_000})
        assert reply.status == 413


async def test_scripts_and_streams_are_told_in_the_shape_of_every_error(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with site(tmp_path) as at:
        for mode in ("cors", "same-origin"):
            reply = await at.browser().get("/ui/inboxes/demo/stream", ("Sec-Fetch-Mode", mode))
            assert (reply.status, reply.code) == (401, "unauthenticated")
            assert reply.header("www-authenticate") is None  # a browser would ask for a password


def test_notes_are_shown_once_and_few_are_kept() -> None:
    session = Session(b"", "", 0.0)
    for n in range(NOTES_KEPT + 1):
        session.leave(f"/{n}", n)
    assert session.take("/0") is None
    assert session.take("/1") == 1
    assert session.take("/1") is None


@pytest.mark.parametrize("ended_by", ["sign-out", "idleness"])
async def test_a_stream_ends_with_its_session(
    tmp_path: Path, autojump_clock: MockClock, ended_by: str
) -> None:
    async with site(tmp_path, **SHORT) as at:
        await at.served.inbox("demo")
        browser = await at.admin()
        cookie = ("Cookie", f"postroom_session={browser.cookie}")
        async with at.served.connect() as client:
            reply = await client.start("/ui/inboxes/demo/stream", [cookie])
            assert reply.status == 200
            said = await client.data()
            if ended_by == "sign-out":
                await browser.post("/ui/sign-out", {})
            while piece := await _next(client):
                said += piece
        assert said.endswith(b'event: bye\ndata: {"reason":"revoked"}\n\n')
        assert at.served.slots.taken == 0


async def _next(client: Any) -> bytes:
    piece: bytes = await client.data()
    return piece
