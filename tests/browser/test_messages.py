"""The list of messages, which goes on by itself, and the screen of one message."""

from collections.abc import Callable

from playwright.sync_api import Browser

from tests.browser.driver import Visitor
from tests.browser.wire import Wire
from tests.live.api import Api
from tests.live.harness import Server

Visit = Callable[..., Visitor]

BODY = (
    b'{"id":12345678901234567890,"twice":1,"twice":2,"price":1.10,"nested":{"list":[1,[2]],"none":null},'
    b'"text":"caf\xc3\xa9 \\u0007"}'
)


def rows(visitor: Visitor) -> list[str]:
    return visitor.page.eval_on_selector_all("#messages > li .seq", "all => all.map(one => one.textContent)")


def test_new_messages_appear_without_a_reload(admin: Visitor, api: Api) -> None:
    slug = api.github_inbox()
    api.github(slug, "push")
    admin.open(f"/ui/inboxes/{slug}")
    admin.says("#state", "Live")
    admin.page.evaluate("window.same = true")
    api.github(slug, "issues", b'{"n":1}', secret="wrong")
    admin.says("#messages > li:first-child", "issues")
    assert "not verified" in admin.text("#messages > li:first-child")
    assert rows(admin) == ["2", "1"]
    assert admin.text("#latest") == "2"
    assert admin.page.evaluate("window.same")


def test_the_counts_of_all_inboxes_go_on_by_themselves(admin: Visitor, api: Api) -> None:
    slug = api.inbox()
    admin.open("/ui/inboxes")
    assert admin.text(f"#inbox-{slug} td:last-child") == "0"
    for _ in range(3):
        api.send(slug)
    admin.says(f"#inbox-{slug} td:last-child", "3")


def test_a_list_holds_still_while_it_is_read(admin: Visitor, api: Api) -> None:
    slug = api.inbox()
    api.send(slug)
    admin.open(f"/ui/inboxes/{slug}")
    admin.says("#state", "Live")
    admin.page.keyboard.press("p")
    assert admin.page.get_attribute("#hold", "aria-pressed") == "true"
    for _ in range(2):
        api.send(slug)
    admin.says("#fresh", "Show 2 new")
    assert rows(admin) == ["1"]
    admin.accessible()
    admin.page.click("#fresh")
    assert rows(admin) == ["3", "2", "1"]


def test_filters_hold_for_what_comes_as_well(admin: Visitor, api: Api) -> None:
    slug = api.github_inbox()
    for event in ("push", "ping", "push"):
        api.github(slug, event)
    admin.open(f"/ui/inboxes/{slug}")
    admin.page.fill("#f-types", "push")
    admin.page.select_option("#f-verified", "true")
    admin.page.click("text=Filter")
    admin.says("#state", "Live")
    assert rows(admin) == ["3", "1"]
    api.github(slug, "ping")
    api.github(slug, "push", secret="wrong")
    api.github(slug, "push")
    admin.says("#messages > li:first-child .seq", "6")
    assert rows(admin) == ["6", "3", "1"]


def test_a_filter_that_makes_no_sense_is_told_beside_the_list(admin: Visitor, api: Api) -> None:
    answer = admin.page.goto(f"/ui/inboxes/{api.inbox()}?since=yesterday")
    assert answer is not None
    assert answer.status == 400
    assert "RFC 3339" in admin.text("[role=alert]")
    admin.accessible()


def test_older_messages_are_on_further_pages(admin: Visitor, api: Api) -> None:
    slug = api.inbox()
    for _ in range(53):
        api.send(slug)
    admin.open(f"/ui/inboxes/{slug}")
    assert rows(admin)[-1] == "4"
    admin.page.click("text=Older messages")
    admin.says("#state", "Older")
    assert rows(admin) == ["3", "2", "1"]


def test_what_retention_takes_while_the_connection_is_gone_is_shown_as_a_gap(
    browser: Browser, server: Server, api: Api
) -> None:
    slug = api.inbox(retention={"max_messages": 5})
    api.send(slug)
    with Wire(server.port) as between:
        visitor = Visitor(browser, between.url)
        visitor.bring(server.token)
        visitor.open(f"/ui/inboxes/{slug}")
        visitor.says("#state", "Live")
        between.cut()
        visitor.says("#state", "connecting again")
        for _ in range(12):
            api.send(slug)
        between.mend()
        visitor.says("#state", "Live")
        visitor.says("#messages", "Messages 2 to 8 are gone")
        assert rows(visitor) == ["13", "12", "11", "10", "9", "1"]
        assert visitor.text("#messages > li:nth-child(6)").startswith("Messages 2 to 8")
        visitor.accessible()
        visitor.close()
        visitor.check()


def test_a_message_shows_facts_apart_from_what_its_sender_says(admin: Visitor, api: Api) -> None:
    slug = api.github_inbox()
    api.github(slug, "push", BODY)
    admin.open(f"/ui/inboxes/{slug}/messages/1")
    assert "fits a secret of this inbox" in admin.text(".verdict")
    facts = admin.text("section[aria-labelledby=facts-title]")
    said = admin.text("section[aria-labelledby=untrusted-title]")
    assert "127.0.0.1" in facts
    assert "push" not in facts
    assert "x-github-event" in said
    assert "untrusted" in said


def test_json_is_shown_as_it_was_written_and_folds(admin: Visitor, api: Api) -> None:
    slug = api.inbox()
    api.send(slug, BODY)
    admin.open(f"/ui/inboxes/{slug}/messages/1")
    admin.says("#json", "nested")
    tree = admin.text("#json")
    assert '"id": 12345678901234567890' in tree
    assert tree.count('"twice"') == 2
    assert '"price": 1.10' in tree
    assert '"café \\u0007"' in tree
    admin.page.click("#json details details summary")
    assert '"list"' not in admin.text("#json")


def test_text_and_bytes_have_a_view_of_their_own(admin: Visitor, api: Api) -> None:
    slug = api.inbox()
    api.send(slug, "plain \x1b[31mred\u202e evil".encode())
    api.send(slug, bytes(range(256)) * 40)
    admin.open(f"/ui/inboxes/{slug}/messages/1")
    assert admin.text("pre.text") == "plain ␛[31mred⟨U+202E⟩ evil"
    admin.open(f"/ui/inboxes/{slug}/messages/2")
    assert admin.text("pre.hex").startswith("00000000  00 01 02 03 04 05 06 07  08 09")
    admin.page.click("text=Next")
    assert admin.text("pre.hex").startswith("00001000")
    admin.page.click("text=Next")
    assert "10,240 of 10,240" in admin.text(".pager").replace("\xa0", " ")


def test_the_list_and_the_messages_are_walked_by_keys(admin: Visitor, api: Api) -> None:
    slug = api.inbox()
    for n in range(3):
        api.send(slug, b"%d" % n)
    page = admin.open(f"/ui/inboxes/{slug}")
    page.keyboard.press("j")
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    page.wait_for_url("**/messages/2")
    page.keyboard.press("j")
    page.wait_for_url("**/messages/1")
    page.keyboard.press("k")
    page.wait_for_url("**/messages/2")
    page.keyboard.press("u")
    page.wait_for_url(f"**/ui/inboxes/{slug}")
    page.keyboard.press("u")
    page.wait_for_url("**/ui/inboxes")
    page.keyboard.press("?")
    assert page.is_visible("#shortcuts")
    admin.accessible()
    page.keyboard.press("Escape")
    page.goto(f"/ui/inboxes/{slug}")
    page.keyboard.press("g")
    page.keyboard.press("i")
    page.wait_for_url("**/ui/inboxes")
