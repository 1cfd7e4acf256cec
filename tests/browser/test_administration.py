"""What an administrator does on the page: inboxes, secrets, tokens, agents, beacons; and who is waiting."""

import re
import threading
from collections.abc import Callable

from tests.browser.driver import Visitor
from tests.browser.scene import meet
from tests.live.api import SECRET, Api, new_slug

Visit = Callable[..., Visitor]

ASKED_AT_MOST = 1_000
"""Times that the index is asked whether it has caught up: each takes some milliseconds, and it takes about ten."""


def test_an_inbox_is_made_and_set_up_with_the_exact_address(admin: Visitor, api: Api) -> None:
    slug = new_slug()
    page = admin.open("/ui/new-inbox")
    assert page.is_hidden("#secret-part")
    page.select_option("#f-verifier", "github")
    assert page.is_visible("[data-for=github]")
    assert page.is_hidden("[data-for=stripe]")
    page.fill("#f-slug", slug)
    page.click("#make-secret")
    secret = page.input_value("#f-secret")
    assert len(secret) >= 32
    page.click("summary:has-text('More')")
    admin.accessible()
    page.click("main button.primary")
    page.wait_for_url(f"**/ui/inboxes/{slug}/setup")
    assert secret in admin.text("main")
    steps = admin.text(".steps")
    assert "Settings → Webhooks → Add webhook" in steps
    assert f"{admin.url}/in/{slug}" in steps
    [token] = re.findall(r"prm_agent_\S{43}", admin.text("main"))
    admin.accessible()
    assert api.as_(token).messages(slug)["messages"] == []
    page.click("text=Send a sample")
    admin.says(".note", "Stored as message 1: verified.")
    assert secret not in admin.text("main")
    assert token not in admin.text("main")


def test_settings_are_changed_and_a_wrong_one_is_told_beside_its_field(admin: Visitor, api: Api) -> None:
    slug = api.github_inbox()
    page = admin.open(f"/ui/inboxes/{slug}/settings")
    page.fill("[name='retention.max_messages']", "many")
    page.click("text=Save")
    admin.says(".field.wrong", "Expected a whole number")
    assert page.get_attribute("[name='retention.max_messages']", "aria-invalid") == "true"
    assert page.evaluate("document.activeElement.name") == "retention.max_messages"
    admin.accessible()
    page.fill("[name='retention.max_messages']", "2,000")
    page.fill("[name='retention.max_age_seconds']", "7 days")
    page.click("text=Save")
    admin.says(".note", "were changed")
    retention = api.get(f"/inboxes/{slug}")["retention"]
    assert (retention["max_messages"], retention["max_age_seconds"]) == (2000, 604_800)
    assert api.get(f"/inboxes/{slug}")["verifier"] == "github"


def test_secrets_are_added_and_retired(admin: Visitor, api: Api) -> None:
    slug = api.github_inbox()
    page = admin.open(f"/ui/inboxes/{slug}/settings")
    page.fill("#f-secret-name", "second")
    page.fill("#f-value", "another secret")
    page.click("text=Add the secret")
    admin.says(".note", "the secret second")
    page.fill("#f-secret-name", "Third!")
    page.fill("#f-value", "a third secret")
    page.click("text=Add the secret")
    admin.says("#secrets .field.wrong", "Expected 1 to 64 characters")
    assert page.input_value("#f-secret-name") == "Third!"
    assert page.locator(".field.wrong").count() == 1
    page.click("#secrets tbody tr:first-child button")
    admin.says(".note", "default was retired")
    assert admin.questions == [
        f"Retire the secret default of {slug}? What is signed with it is no longer verified."
    ]
    api.github(slug, secret="another secret")
    api.github(slug, secret=SECRET)
    assert [one["verified"] for one in api.messages(slug)["messages"]] == [False, True]


def test_an_inbox_is_deleted_by_writing_its_name(admin: Visitor, api: Api) -> None:
    slug = api.inbox()
    page = admin.open(f"/ui/inboxes/{slug}/settings")
    page.fill("#f-confirm", "something else")
    page.click("text=Delete the inbox")
    admin.says("[role=alert]", "Write the inbox's slug")
    page.fill("#f-confirm", slug)
    page.click("text=Delete the inbox")
    page.wait_for_url("**/ui/inboxes")
    admin.says(".note", "was deleted")
    assert api.call("GET", f"/inboxes/{slug}").status_code == 404


def test_a_message_is_erased(admin: Visitor, api: Api) -> None:
    slug = api.inbox()
    api.send(slug)
    page = admin.open(f"/ui/inboxes/{slug}/messages/1")
    page.click("text=Erase")
    admin.says(".note", "Message 1 was erased")
    assert api.messages(slug)["messages"] == []


def test_what_is_gone_for_good_is_asked_about_once_with_scripts_and_without(visit: Visit, api: Api) -> None:
    slug = api.inbox()
    for scripted in (True, False):
        api.send(slug)
        visitor = visit(java_script_enabled=scripted)
        visitor.bring(str(api.token))
        page = visitor.open(f"/ui/inboxes/{slug}/settings")
        page.click("text=Drop all messages")
        if not scripted:
            assert visitor.text("h1") == "Are you sure?"
            assert f"Drop all messages of {slug}?" in visitor.text("main")
            page.click("text=Cancel")
            page.wait_for_url(f"**/{slug}/settings")
            assert len(api.messages(slug)["messages"]) == 1
            page.click("text=Drop all messages")
            page.click("main button.danger")
        page.wait_for_selector(".note")
        assert "1 message was dropped" in visitor.text(".note")
        assert visitor.questions == ([f"Drop all messages of {slug}?"] if scripted else [])


def test_the_page_that_asks_is_accessible_and_no_is_an_answer(admin: Visitor, api: Api) -> None:
    slug = api.inbox()
    api.send(slug)
    page = admin.open(f"/ui/inboxes/{slug}/messages/1")
    page.eval_on_selector("form[data-ask]", "form => delete form.dataset.ask")
    page.click("text=Erase")
    admin.accessible()
    page.click("text=Cancel")
    page.wait_for_url("**/messages/1")
    page.remove_listener("dialog", admin._questioned)
    page.once("dialog", lambda dialog: dialog.dismiss())
    page.click("text=Erase")
    assert len(api.messages(slug)["messages"]) == 1
    page.on("dialog", admin._questioned)


def test_a_token_is_issued_shown_once_and_revoked(admin: Visitor, api: Api) -> None:
    slug, name = api.inbox(), new_slug()
    page = admin.open("/ui/tokens")
    page.fill("#f-name", name)
    page.fill("#f-inboxes", slug)
    page.fill("#f-expires_at", "90 days")
    page.click("text=Issue the token")
    [token] = re.findall(r"prm_agent_\S{43}", admin.text(".secret"))
    admin.accessible()
    assert api.as_(token).get("/me")["inboxes"] == [slug]
    page.reload()
    assert token not in admin.text("main")
    page.click(f"tr:has-text('{name}') button")
    admin.says(".note", "was revoked")
    assert api.as_(token).call("GET", "/me").status_code == 401


def test_agents_are_seen_with_presence_and_unread_mail_as_it_comes(admin: Visitor, api: Api) -> None:
    page = admin.open("/ui/agents")
    machine, one, other = new_slug()[:40], new_slug()[:40], new_slug()[:40]
    page.fill("#f-name", machine)
    page.click("text=Create the machine")
    admin.says(".note", machine)
    tokens = []
    for agent_id in (one, other):
        page.fill("#f-agent_id", agent_id)
        page.fill("#f-machine", machine)
        page.click("text=Create the agent")
        page.wait_for_url(f"**/ui/agents/{agent_id}")
        tokens += re.findall(r"prm_agent_\S{43}", admin.text(".secret"))
        page.goto("/ui/agents")
    row = f"[id='agent-{one}']"
    first, second = (api.as_(token) for token in tokens)
    meet(first, "/agent/checkin", {"agent_id": one, "status": "<b>busy</b>"})
    admin.says(row, "<b>busy</b>")
    assert "active" in admin.text(row)
    meet(second, "/agent/send", {"to_agent": one, "msg_type": "note"})
    admin.says(f"{row} [data-count]", "1")
    admin.accessible()


def test_a_beacon_is_tried_while_it_is_written_and_then_placed(admin: Visitor, api: Api) -> None:
    slug, agent_id = api.inbox(), new_slug()[:40]
    for text in ("the invoice worker leaks memory", "all quiet", "memory of the worker leaks again"):
        api.send(slug, text.encode())
    api.ok("POST", "/agents", {"agent_id": agent_id}, status=201)
    api.ok("POST", "/tokens", {"kind": "agent", "agent": agent_id, "inboxes": [slug]}, status=201)
    page = admin.open(f"/ui/agents/{agent_id}")
    page.fill("#f-name", "leaks")
    page.locator("#f-about").press_sequentially("memory leaks")
    admin.says("#backtest-state", "2 messages")
    assert page.get_attribute("#matches a", "href") == f"/ui/inboxes/{slug}/messages/3"
    page.fill("#f-about", "weather")
    admin.says("#backtest-state", "Nothing")
    page.click("summary:has-text('Filters')")
    page.fill("#f-min_score", "7")
    admin.says("#backtest-state", "Expected a number from 0 to 1")
    page.fill("#f-min_score", "")
    admin.says("#backtest-state", "Nothing")
    page.fill("#f-about", "memory leaks")
    page.click("text=Place the beacon")
    admin.says(".note", "would have brought 2")
    admin.says(".beacon", "memory leaks")
    page.click("text=Edit")
    assert page.input_value("#f-about") == "memory leaks"
    admin.says("#backtest-state", "2 messages")
    admin.accessible()
    page.click(".beacon .danger")
    admin.says(".note", "was removed")


def test_a_beacon_that_is_edited_keeps_what_was_not_changed(admin: Visitor, api: Api) -> None:
    agent_id = new_slug()[:40]
    api.ok("POST", "/agents", {"agent_id": agent_id}, status=201)
    agent = api.as_(api.agent([], agent=agent_id))
    about = "memory \u202eleaks\u202c\n\tin workers"
    wanted = {"require": ["a, b", "c\u200bd"], "types": ["x,y"], "kinds": ["alert"], "weight": 1e-7}
    agent.ok("PUT", "/beacons/ci", {"about": about, "ttl_seconds": 86_400, **wanted})
    before = agent.get("/beacons/ci")
    page = admin.open(f"/ui/agents/{agent_id}")
    assert "Goes out at" in admin.text(".beacon")
    page.click("summary:has-text('Filters')")
    page.fill("#f-backfill", "9")
    page.click("text=Edit")
    assert page.input_value("#f-about") == "memory ⟨U+202E⟩leaks⟨U+202C⟩\n\tin workers"
    assert page.input_value("#f-backfill") == ""
    assert page.is_checked("#keep-end input")
    assert admin.text("#keep-end time") == admin.text(".beacon time")
    admin.accessible()
    page.fill("#f-min_score", "0.6")
    page.click("text=Place the beacon")
    admin.says(".note", "is in place")
    after = agent.get("/beacons/ci")
    changing = ("placed_at", "expires_at", "min_score")
    assert {k: v for k, v in after.items() if k not in changing} == {
        k: v for k, v in before.items() if k not in changing
    }
    assert after["min_score"] == 0.6
    assert after["expires_at"][:15] == before["expires_at"][:15]
    page.click("text=Edit")
    page.uncheck("#keep-end input")
    page.click("text=Place the beacon")
    admin.says(".note", "is in place")
    assert agent.get("/beacons/ci")["expires_at"] is None


def test_who_is_waiting_right_now_is_seen(admin: Visitor, api: Api) -> None:
    slug, name = api.inbox(), new_slug()
    waiting = api.as_(api.agent([slug], name=name[:60]))
    admin.open("/ui/waiting")
    thread = threading.Thread(
        target=lambda: waiting.call(
            "GET", f"/inboxes/{slug}/wait", params={"after": 0, "timeout_seconds": 15}
        )
    )
    thread.start()
    admin.says("#waiting", name[:60])
    row = admin.text(f"tr:has-text('{slug}')")
    assert "waits" in row
    api.send(slug)
    thread.join(10)
    admin.page.wait_for_function("text => !document.body.textContent.includes(text)", arg=name[:60])


def test_search_finds_what_is_kept_where_it_is_on(admin: Visitor, api: Api) -> None:
    slug = api.inbox(search=True)
    for text in ("a red fox", "a green frog", "another red thing"):
        api.send(slug, text.encode())
    indexed = (api.get(f"/inboxes/{slug}/search", q="red")["indexed_seq"] for _ in range(ASKED_AT_MOST))
    assert any(seq == 3 for seq in indexed)
    page = admin.open(f"/ui/inboxes/{slug}")
    page.keyboard.press("/")
    page.keyboard.type("red -fox")
    page.keyboard.press("Enter")
    admin.says("#state", "Found")
    assert [one.strip() for one in page.locator("#messages .seq").all_text_contents()] == ["3"]


def test_commands_to_copy_name_this_message_and_the_address_that_is_written(visit: Visit, api: Api) -> None:
    slug = api.inbox()
    api.send(slug, b'{"it\'s": 1}', path="/x")
    admin = visit(permissions=["clipboard-read", "clipboard-write"])
    admin.bring(str(api.token))
    page = admin.open(f"/ui/inboxes/{slug}/messages/1")
    page.keyboard.press("c")
    admin.page.wait_for_function("() => document.getElementById('announcer').textContent === 'Copied'")
    copied = page.evaluate("navigator.clipboard.readText()")
    assert copied.startswith(f"curl -X POST {admin.url}/in/{slug}/x")
    assert """'{"it'"'"'s": 1}'""" in copied
    page.fill("#to", "http://localhost:9/it's")
    assert admin.text("#forward").endswith(f"{slug} --only 1 --to 'http://localhost:9/it'\\''s'")
