"""`forward` with a path that would lead out of the URL: nothing is sent, and every other path is as it came."""

from io import BytesIO

import pytest

from postroom.forwarding import LEADS_OUT, Forwardable, Original, Target
from tests.postroom.conftest import Command
from tests.postroom.scriptedserver import ScriptedServer
from tests.postroom.test_cli import fine
from tests.postroom.test_forward import OK, closed_url, inbox

LEADING_OUT = (
    "/../admin",
    "/..",
    "/a/../../admin",
    "/%2e%2e/admin",
    "/%2E./admin",
    "/%252e%252e/admin",
    "/%25252e%25252e%25252fadmin",
    "/%" + "25" * 20 + "2e.",
    "/..%2fadmin",
    "/a%2F..%2F..%2Fadmin",
    "/a%2fb/../../admin",
    "/..%5cadmin",
    "/..\\admin",
    "\\..\\admin",
    "//../admin",
    "/.//..//admin",
    "/a//../../admin",
    "/..;x=1/admin",
    "/..%3b/admin",
    "/.%09./admin",
    "/..%00/admin",
    "/%2f../admin",
    "../admin",
    "-elsewhere",
)
"""Below a prefix, to one server or another."""

STAYING = (
    "",
    "/",
    "/a/..",
    "/a%2Fb//../c",
    "/...",
    "/..a",
    "/a..",
    "/%2e",
    "/a/b/../..",
    "/100%25",
    "/%zz",
    "/a;..",
)


@pytest.mark.parametrize("path", LEADING_OUT)
def test_a_path_that_leads_out_of_the_url_s_is_not_sent(path: str) -> None:
    message = Forwardable("demo", 1, "e", 1, Original(path=path))
    with Target(f"{closed_url()}/hook/", timeout_seconds=1) as target:
        outcome = target.send(message, BytesIO(b"x"))
    assert (outcome.status, outcome.error, outcome.is_success) == (None, LEADS_OUT, False)
    assert outcome.path == path


@pytest.mark.parametrize("path", STAYING)
def test_any_other_path_is_sent_as_it_came(path: str) -> None:
    message = Forwardable("demo", 1, "e", 1, Original(path=path))
    with ScriptedServer(OK) as server, Target(f"{server.url}/hook", timeout_seconds=5) as target:
        assert target.send(message, BytesIO(b"x")).is_success
    assert [asked.target for asked in server.asked] == [f"/hook{path}"]


def test_nothing_leads_out_of_a_url_without_a_path() -> None:
    message = Forwardable("demo", 1, "e", 1, Original(path="/../a"))
    with ScriptedServer(OK) as server, Target(server.url, timeout_seconds=5) as target:
        assert target.send(message, BytesIO(b"x")).is_success
    assert [asked.target for asked in server.asked] == ["/../a"]


def test_a_message_that_is_not_sent_is_said_and_counted_as_failed(command: Command) -> None:
    slug = inbox(command, "forward-out")
    fine(command("send", slug, "--data", "a", "--path", "/%2e%2e/admin"))
    fine(command("send", slug, "--data", "b", "--path", "/fine"))
    with ScriptedServer(OK) as target:
        result = command("forward", slug, "--to", f"{target.url}/hook", "--after", "0", "--once")
    assert result.exit_code == 1
    assert "POST /%2e%2e/admin  failed: not sent, its path leads out of the URL  " in result.stdout
    assert "1 of the messages was not taken" in result.stderr
    assert [asked.target for asked in target.asked] == ["/hook/fine"]
