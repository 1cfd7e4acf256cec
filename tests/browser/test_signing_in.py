"""Signing in to the page and out of it, and what a session is good for, as a browser sees it."""

from collections.abc import Callable

from tests.browser.driver import Visitor
from tests.live.api import Api
from tests.live.harness import Server

Visit = Callable[..., Visitor]


def test_a_stranger_is_asked_to_sign_in_and_comes_to_the_page_that_was_wanted(
    visit: Visit, api: Api, server: Server
) -> None:
    slug = api.inbox()
    visitor = visit()
    visitor.page.goto(f"/ui/inboxes/{slug}?types=push")
    assert "/ui/sign-in?next=" in visitor.page.url
    visitor.page.fill("#token", server.token)
    visitor.page.keyboard.press("Enter")
    visitor.page.wait_for_url(f"**/ui/inboxes/{slug}?types=push")


def test_the_cookie_is_out_of_reach_of_scripts_other_sites_and_the_api(visit: Visit, server: Server) -> None:
    admin = visit()
    admin.sign_in(server.token)
    [cookie] = admin.context.cookies(f"{admin.url}/ui")
    assert cookie["name"] == "postroom_session"
    assert (cookie["httpOnly"], cookie["sameSite"], cookie["path"]) == (True, "Strict", "/ui")
    assert admin.page.evaluate("document.cookie") == ""
    assert admin.context.cookies(f"{admin.url}/v1/inboxes") == []


def test_a_wrong_token_is_refused_and_the_token_is_not_shown_again(visit: Visit) -> None:
    visitor = visit()
    visitor.page.goto("/ui/sign-in")
    visitor.page.fill("#token", "prm_admin_wrong")
    visitor.page.click("main button")
    visitor.says("[role=alert]", "unknown, expired or revoked")
    assert visitor.page.input_value("#token") == ""
    visitor.accessible()
    assert visitor.context.cookies() == []


def test_signing_out_ends_what_other_tabs_show(admin: Visitor, api: Api) -> None:
    slug = api.inbox()
    admin.open(f"/ui/inboxes/{slug}")
    admin.says("#state", "Live")
    other = admin.context.new_page()
    other.goto("/ui/inboxes")
    other.click("text=Sign out")
    other.wait_for_url("**/ui/sign-in")
    admin.says("#state", "signed out")
    admin.page.goto("/ui/inboxes")
    assert admin.page.url.endswith("/ui/sign-in")


def test_a_revoked_token_ends_its_session_at_once(visit: Visit, api: Api) -> None:
    slug = api.inbox()
    issued = api.ok("POST", "/tokens", {"kind": "agent", "inboxes": [slug]}, status=201)
    visitor = visit()
    visitor.bring(issued["token"])
    visitor.open(f"/ui/inboxes/{slug}")
    visitor.says("#state", "Live")
    api.ok("DELETE", f"/tokens/{issued['token_id']}", status=204)
    visitor.says("#state", "signed out")
    visitor.page.goto("/ui/inboxes")
    assert visitor.page.url.endswith("/ui/sign-in")


def test_another_token_sees_what_it_reads_and_nothing_else(visit: Visit, api: Api) -> None:
    mine, other = api.inbox(), api.inbox()
    visitor = visit()
    visitor.bring(api.agent([mine]))
    visitor.open("/ui/inboxes")
    assert mine in visitor.text("#inboxes")
    assert other not in visitor.text("#inboxes")
    assert visitor.page.query_selector("text=New inbox") is None
    for path in (f"/ui/inboxes/{other}", "/ui/inboxes/absent"):
        answer = visitor.page.goto(path)
        assert answer is not None
        assert answer.status == 404
        assert "There is no such inbox, or this token may not read it." in visitor.text("main")
