"""Whatever is gone for good is asked about once: without scripts by a page between, which the server makes."""

import html
import re
from pathlib import Path

import pytest
from trio.testing import MockClock

from tests.wire.client import Reply
from tests.wire.pages_scene import SURE, Browser, Site, site
from web.pages import assets
from web.pages.asking import QUESTIONS

DESTRUCTIVE = (
    ("purge", "/ui/inboxes/demo/settings", "/ui/inboxes/demo/purge", "demo"),
    ("erase", "/ui/inboxes/demo/messages/1", "/ui/inboxes/demo/messages/1/erase", "message 1 of demo"),
    ("retire", "/ui/inboxes/demo/settings", "/ui/inboxes/demo/secrets/old/drop", "old of demo"),
    ("revoke", "/ui/tokens", "/ui/tokens/{token_id}/revoke", "ci"),
    ("delete_agent", "/ui/agents/builder", "/ui/agents/builder/delete", "builder"),
    ("delete_machine", "/ui/agents", "/ui/machines/laptop/delete", "laptop"),
    ("remove_beacon", "/ui/agents/builder", "/ui/agents/builder/beacons/leaks/remove", "leaks"),
)
"""By the question: the screen with the form, where it is sent, and what the question names."""

TEMPLATES = Path(assets.__file__).parent / "templates"

IDS = [one[0] for one in DESTRUCTIVE]


async def _furnished(at: Site) -> tuple[Browser, str]:
    await at.served.inbox("demo", {"old": b"a secret of some length"}, verifier="github")
    browser = await at.admin()
    await browser.post("/ui/machines", {"name": "laptop"})
    await browser.post("/ui/agents", {"agent_id": "builder"})
    await browser.post("/ui/agents/builder/beacons", {"name": "leaks", "about": "memory leaks"})
    await browser.post("/ui/tokens", {"kind": "agent", "inboxes": "demo", "name": "ci"})
    async with at.served.connect() as client:
        assert (await client.request("POST", "/in/demo", [], b"{}")).status == 200
    [token_id] = [one.token_id for one in at.served.world.tokens.page("", 9) if one.name == "ci"]
    return browser, token_id


def _form_of(page: Reply, action: str) -> str:
    """Return the opening tag of the form that is sent to an address."""
    tags: list[str] = re.findall(r"<form [^>]*>", page.body.decode())
    [found] = [html.unescape(tag) for tag in tags if f'action="{action}"' in tag]
    return found


def test_every_question_is_here_and_every_form_that_destroys_asks_one() -> None:
    assert set(QUESTIONS) == set(IDS)
    ends = re.compile(r'<form [^>]*/(?:purge|erase|drop|revoke|remove|delete)"[^>]*>')
    forms = [form for file in TEMPLATES.glob("*.html") for form in ends.findall(file.read_text())]
    by_name = [form for form in forms if "data-ask" not in form]
    assert len(forms) == len(IDS) + len(by_name)
    assert by_name == ['<form method="post" action="{{ here }}/delete">'], "an inbox: its slug is written"


@pytest.mark.parametrize(("what", "screen", "path", "named"), DESTRUCTIVE, ids=IDS)
async def test_a_page_comes_between_and_nothing_is_done_until_it_is_answered(
    tmp_path: Path, autojump_clock: MockClock, what: str, screen: str, path: str, named: str
) -> None:
    async with site(tmp_path) as at:
        browser, token_id = await _furnished(at)
        path = path.format(token_id=token_id)
        script_asks = re.search(r'data-ask="([^"]*)"', _form_of(await browser.get(screen), path))
        assert script_asks is not None
        asked = await browser.post(path, {})
        said = html.unescape(asked.body.decode())
        assert asked.status == 200
        assert script_asks[1] in said, "the page asks what the script asks"
        assert named in script_asks[1]
        assert f'<a class="button" href="{screen}">Cancel</a>' in said
        assert "data-ask" not in _form_of(asked, path), "a script does not ask a second time"
        assert "data-ask" in _form_of(await browser.get(screen), path), "it is still there"
        fields = dict(re.findall(r'<input type="hidden" name="([^"]+)" value="([^"]+)">', said))
        assert (await browser.post(path, fields)).status == 303
        if what != "purge":  # which can be done again
            assert f'action="{path}"' not in (await browser.get(screen)).body.decode()


@pytest.mark.parametrize(("what", "screen", "path", "named"), DESTRUCTIVE, ids=IDS)
async def test_with_the_answer_in_it_a_form_is_done_at_once(
    tmp_path: Path, autojump_clock: MockClock, what: str, screen: str, path: str, named: str
) -> None:
    async with site(tmp_path) as at:
        browser, token_id = await _furnished(at)
        assert (await browser.post(path.format(token_id=token_id), SURE)).status == 303


@pytest.mark.parametrize("answer", [{}, SURE], ids=["not asked", "answered"])
async def test_who_may_not_is_not_asked(
    tmp_path: Path, autojump_clock: MockClock, answer: dict[str, str]
) -> None:
    async with site(tmp_path) as at:
        _, token_id = await _furnished(at)
        browser = at.browser()
        await browser.sign_in(await at.token("agent", ["demo"]))
        for what, _, path, _ in DESTRUCTIVE:
            reply = await browser.post(path.format(token_id=token_id), answer)
            assert reply.status == (404 if what == "remove_beacon" else 403), path
