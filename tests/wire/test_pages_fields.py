"""What is written into the page's forms, and what stands in them: numbers of any kind, characters that act or hide, and
what a form cannot show as it is.
"""

import html
import json
import re
from pathlib import Path
from typing import Any

import pytest
from trio.testing import MockClock

from storage.clock import wall_clock_us
from storage.records import Response
from tests.wire.pages_scene import Browser, Site, site

INBOX = {"kind": "webhook", "verifier": "none"}
BEACON = {"name": "ci", "about": "broken builds"}
TOKEN = {"kind": "agent", "inboxes": "demo"}

FIELDS = [
    ("/ui/new-inbox", INBOX, "retention.max_age_seconds"),
    ("/ui/new-inbox", INBOX, "retention.max_messages"),
    ("/ui/new-inbox", INBOX, "retention.max_bytes"),
    ("/ui/inboxes/demo/settings", {"verifier": "none"}, "retention.max_age_seconds"),
    ("/ui/inboxes/demo/settings", {"verifier": "none"}, "retention.max_messages"),
    ("/ui/inboxes/demo/settings", {"verifier": "none"}, "retention.max_bytes"),
    ("/ui/inboxes/demo/settings", {"verifier": "none"}, "dedupe_window_seconds"),
    ("/ui/inboxes/demo/settings", {"verifier": "none"}, "rate_per_minute"),
    ("/ui/inboxes/demo/settings", {"verifier": "none"}, "max_body_bytes"),
    ("/ui/inboxes/demo/settings", {"verifier": "none"}, "response.status"),
    ("/ui/agents/builder/beacons", BEACON, "min_score"),
    ("/ui/agents/builder/beacons", BEACON, "weight"),
    ("/ui/agents/builder/beacons", BEACON, "backfill"),
    ("/ui/agents/builder/beacons", BEACON, "ttl_seconds"),
    ("/ui/tokens", TOKEN, "expires_at"),
]
"""Every field of the page that takes a number."""

ALWAYS_REFUSED = (
    "-1",
    "nan",
    "inf",
    "1,5",
    "0x10",
    "٣",
    "9" * 18,
    "9" * 30,
    "9" * 400,
    "1e300",
    "--1",
    "1 2",
)

ZERO = {"dedupe_window_seconds", "min_score", "weight", "backfill"}
"""Where nothing is something that can be meant."""

BROKEN = {"min_score", "weight"}
"""Where a part of one can be; a duration and a size can be written with one, and are whole at last."""

ROUNDED = {"retention.max_age_seconds", "retention.max_bytes", "max_body_bytes", "dedupe_window_seconds"}
ROUNDED |= {"ttl_seconds", "expires_at"}

ODD = "a\u202eb\u2066c\u200bd\x1be"
SHOWN = "a⟨U+202E⟩b⟨U+2066⟩c⟨U+200B⟩d␛e"
ACTING = re.compile("[\u061c\u200b\u200e\u200f\u202a-\u202e\u2066-\u2069\x1b]")


async def _demo(at: Site) -> Browser:
    await at.served.inbox("demo")
    browser = await at.admin()
    assert (await browser.post("/ui/agents", {"agent_id": "builder"})).status == 303
    return browser


def _value(page: bytes, name: str) -> str:
    """Return what a field of a page is filled in with."""
    tag = re.search(rf'<input [^>]*name="{re.escape(name)}"[^>]*>', page.decode())
    assert tag is not None, name
    found = re.search(r'value="([^"]*)"', tag[0])
    return "" if found is None else html.unescape(found[1])


@pytest.mark.parametrize(
    ("path", "fields", "name"), FIELDS, ids=lambda value: value if "/" not in value else ""
)
async def test_a_number_that_cannot_be_meant_is_told_beside_its_field(
    tmp_path: Path, autojump_clock: MockClock, path: str, fields: dict[str, str], name: str
) -> None:
    refused = [*ALWAYS_REFUSED, *(() if name in ZERO else ("0", "0.0" if name in ROUNDED else "00"))]
    refused += () if name in BROKEN else ("0.4",)
    refused += () if name in BROKEN | ROUNDED else ("1.5",)
    async with site(tmp_path) as at:
        browser = await _demo(at)
        for text in refused:
            reply = await browser.post(path, {**fields, name: text})
            assert reply.status == 400, (text, reply.status, reply.header("location"))
            wrong = re.findall(
                r'<(?:input|textarea|select) [^>]*aria-invalid="true"[^>]*>', reply.body.decode()
            )
            assert [re.search(r'name="([^"]*)"', tag)[1] for tag in wrong] == [name], text  # type: ignore[index]  # each field has one
            assert b'role="alert"' in reply.body
            assert _value(reply.body, name) == text
        for text in ("", " ", *(("0",) if name in ZERO else ())):
            reply = await browser.post(path, {**fields, name: text, "slug": ""})
            assert reply.status == 303, (text, reply.body[-3000:])


async def test_a_token_that_would_be_over_at_once_is_none(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with site(tmp_path) as at:
        browser = await _demo(at)
        before = len(at.served.world.tokens.page("", 99))
        reply = await browser.post("/ui/tokens", {**TOKEN, "expires_at": "0"})
        assert b"Expected at least 1 second" in reply.body
        assert b"(expires_at)" in reply.body
        assert len(at.served.world.tokens.page("", 99)) == before


# -- characters that act or hide -----------------------------------------------------------------------------------
async def test_no_screen_has_a_character_that_reorders_or_hides_in_it(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with site(tmp_path) as at:
        browser = await _odd(at)
        for path in (
            "/ui/inboxes",
            "/ui/inboxes/odd",
            f"/ui/inboxes/odd?types={ODD_QUERY}",
            f"/ui/inboxes/odd?since={ODD_QUERY}",
            f"/ui/inboxes?after={ODD_QUERY}",
            "/ui/inboxes/odd/settings",
            "/ui/inboxes/odd/messages/1",
            "/ui/inboxes/odd/messages/1?view=text",
            "/ui/agents/builder",
        ):
            reply = await browser.get(path)
            assert ACTING.findall(reply.body.decode()) == [], path
        for path, fields in (
            ("/ui/new-inbox", {"slug": ODD, "name": ODD, "verifier_options": ODD}),
            ("/ui/tokens", {"kind": "agent", "name": ODD, "inboxes": ODD}),
            ("/ui/agents", {"agent_id": ODD, "machine": ODD}),
            ("/ui/machines", {"name": ODD}),
            ("/ui/agents/builder/beacons", {"name": ODD, "about": ODD, "types": ODD}),
            ("/ui/inboxes/odd/settings", {"name": ODD, "retention.max_messages": ODD}),
            ("/ui/inboxes/odd/secrets", {"name": ODD, "value": "x"}),
        ):
            reply = await browser.post(path, fields)
            assert reply.status == 400, path
            assert ACTING.findall(reply.body.decode()) == [], path


ODD_QUERY = "a%E2%80%AEb"


async def _odd(at: Site) -> Browser:
    """Have an inbox, a message and a beacon with odd text wherever there may be any."""
    response = Response(202, "text/plain", f"{ODD}\r\n{ODD}\n")
    await at.served.inbox("odd", {"default": b"a secret of some length"}, response=response)
    browser = await at.admin()
    assert (await browser.post("/ui/inboxes/odd/settings", {"name": ODD})).status == 303
    async with at.served.connect() as client:
        sent = await client.request("POST", "/in/odd", [("Content-Type", "text/plain")], ODD.encode())
    assert sent.status == 202
    await browser.post("/ui/agents", {"agent_id": "builder"})
    await browser.post(
        "/ui/agents/builder/beacons", {"name": "odd", "about": ODD, "types": ODD, "require": f"x{ODD}"}
    )
    return browser


async def test_saving_leaves_odd_text_as_it_is_where_it_was_left_alone(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with site(tmp_path) as at:
        browser = await _odd(at)
        before = await at.served.service.find("odd")
        page = (await browser.get("/ui/inboxes/odd/settings")).body
        was = _value(page, "was")
        fields = {**json.loads(was), "was": was}
        assert _value(page, "name") == fields["name"] == SHOWN
        assert fields["response.body"] == f"{SHOWN}\n{SHOWN}\n"
        assert (await browser.post("/ui/inboxes/odd/settings", fields)).status == 303
        assert await at.served.service.find("odd") == before
        assert before is not None
        assert before.name == ODD
        changed = {**fields, "name": f"{SHOWN}!"}
        assert (await browser.post("/ui/inboxes/odd/settings", changed)).status == 303
        after = await at.served.service.find("odd")
        assert after is not None
        assert after.name == f"{SHOWN}!", "what is read is what is saved"
        assert after.settings == before.settings


# -- beacons that are edited ---------------------------------------------------------------------------------------
ABOUT = f"  memory {ODD} leaks\nin workers  "
PLACED: dict[str, Any] = {
    "about": ABOUT,
    "types": ["a, b", f"c{ODD}"],
    "require": ["memory, leaks", "x"],
    "exclude": ["y,z"],
    "kinds": ["webhook", "alert"],
    "min_score": 1e-7,
    "weight": 0.1 + 0.2,
}


async def _edited(at: Site, browser: Browser) -> dict[str, str]:
    """Return the fields of the form as a click on Edit fills them in (`static/beacons.js`)."""
    page = (await browser.get("/ui/agents/builder")).body.decode()
    edit = re.search(r'data-edit="([^"]*)"', page)
    assert edit is not None
    beacon = json.loads(was := html.unescape(edit[1]))
    assert ACTING.findall(was) == []
    shown = {name: ", ".join(beacon[name]) for name in ("inboxes", "types", "require", "exclude")}
    shown |= {"about": beacon["about"], "name": beacon["name"]}
    marked = {name: text.replace(ODD, SHOWN) for name, text in shown.items()}
    return {
        **marked,
        "min_score": str(beacon["min_score"]),
        "weight": str(beacon["weight"]),
        "was": was,
        **({"keep_end": "on"} if beacon["expires_at"] else {}),
    }


async def _place(at: Site, ttl_seconds: int | None) -> tuple[Browser, Any]:
    browser = await _demo(at)
    bearer = ("Authorization", f"Bearer {await at.token('agent', ['demo'], agent='builder')}")
    body = {**PLACED, **({} if ttl_seconds is None else {"ttl_seconds": ttl_seconds})}
    async with at.served.connect() as client:
        reply = await client.request("PUT", "/v1/beacons/ci", [bearer], json.dumps(body).encode())
    assert reply.status == 200, reply.body
    return browser, _in_force(at)


def _in_force(at: Site) -> Any:
    agent = at.served.service.mail.agents.get("builder")
    assert agent is not None
    return at.served.service.beacons.find(agent, "ci")


async def _send(browser: Browser, fields: dict[str, str]) -> int:
    # A browser sends each ticked box.
    path = "/ui/agents/builder/beacons"
    return (
        await browser.post_all(path, [*fields.items(), *(("kinds", kind) for kind in PLACED["kinds"])])
    ).status


@pytest.mark.parametrize("ttl_seconds", [None, 86_400])
async def test_a_beacon_that_is_edited_and_left_alone_is_what_it_was(
    tmp_path: Path, autojump_clock: MockClock, ttl_seconds: int | None
) -> None:
    async with site(tmp_path) as at:
        browser, before = await _place(at, ttl_seconds)
        page = (await browser.get("/ui/agents/builder")).body
        assert (b"Goes out at <time" in page) == (ttl_seconds is not None)
        assert await _send(browser, await _edited(at, browser)) == 303
        after = _in_force(at)
        assert after.spec == before.spec
        assert (after.expires_at is None) == (before.expires_at is None)
        if before.expires_at is not None:
            assert abs(after.expires_at - before.expires_at) <= 1_000_000


@pytest.mark.parametrize(
    ("changed", "seconds"),
    [
        ({"keep_end": ""}, None),
        ({"ttl_seconds": "2 h"}, 7_200),
        ({"keep_end": "", "ttl_seconds": "2 h"}, 7_200),
    ],
    ids=["never", "another end", "another end alone"],
)
async def test_the_end_of_a_beacon_is_changed_by_saying_so(
    tmp_path: Path, autojump_clock: MockClock, changed: dict[str, str], seconds: int | None
) -> None:
    async with site(tmp_path) as at:
        browser, _ = await _place(at, 86_400)
        fields = {name: text for name, text in {**await _edited(at, browser), **changed}.items() if text}
        assert await _send(browser, fields) == 303
        expires_at = _in_force(at).expires_at
        if seconds is None:
            assert expires_at is None
        else:
            assert abs(expires_at - wall_clock_us() - seconds * 1_000_000) < 60_000_000


async def test_a_beacon_that_is_refused_comes_back_with_everything(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with site(tmp_path) as at:
        browser, before = await _place(at, 86_400)
        fields = {**await _edited(at, browser), "weight": "7"}
        sent = [*fields.items(), ("kinds", "webhook"), ("kinds", "alert")]
        reply = await browser.post_all("/ui/agents/builder/beacons", sent)
        assert reply.status == 400
        page = reply.body.decode()
        assert _value(reply.body, "was") == fields["was"]
        assert re.findall(r'name="kinds" value="(\w+)" checked', page) == ["alert", "webhook"]
        assert 'name="keep_end" checked' in page
        assert re.search(r'<label class="tick" id="keep-end">', page)
        assert _in_force(at) == before
        over = json.dumps({**json.loads(fields["was"]), "expires_at": "2020-01-01T00:00:00Z"})
        reply = await browser.post_all(
            "/ui/agents/builder/beacons", list({**fields, "was": over, "weight": "1"}.items())
        )
        assert reply.status == 400
        assert b"Its time is over by now" in reply.body
