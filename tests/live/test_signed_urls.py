"""A server whose PUBLIC_URL is gone while inboxes need it: the start says so, and no sample pretends to verify."""

from pathlib import Path
from secrets import token_hex

import pytest

from tests.live.api import Api
from tests.live.harness import Server
from tests.live.test_sign import send
from web.verify.registry import SCHEMES, signs_url

WARNING = "PUBLIC_URL is not set"
NEEDING = sorted(name for name in SCHEMES if name not in ("hmac", "header") and signs_url(name, {}))


def test_an_inbox_whose_provider_signs_the_url_is_named_at_a_start_without_one(tmp_path: Path) -> None:
    token = f"prm_admin_{token_hex(32)}"

    def server(**settings: str) -> Server:
        made = Server(tmp_path / "data", **settings)
        made.token = token
        return made

    assert NEEDING == ["hubspot", "mandrill", "square", "trello", "twilio"]
    with server(public_url="https://hooks.example.com") as running, Api(running.url, token) as api:
        for name in NEEDING:
            api.inbox(slug=name, verifier=name, secret="k")
        template = {"header": "X-S", "signed": "{url}{body}"}
        api.inbox(slug="own-template", verifier="hmac", verifier_options=template, secret="k")
        api.inbox(slug="has-its-url", verifier="square", secret="k", signed_url="https://a.example/x")
        api.inbox(slug="signs-none", verifier="github", secret="k")
        sample = send(running, "square", "--sign", "square")
        assert (sample.exit_code, ": verified" in sample.stdout) == (0, True)
        running.stop()
        assert WARNING not in running.output
    with server() as running, Api(running.url, token) as api:
        for name in (*NEEDING, "own-template"):
            refused = send(running, name, "--sign", "hmac" if name == "own-template" else name)
            assert (refused.exit_code, "set PUBLIC_URL on the server" in refused.stderr) == (1, True)
        for name, kind in (("has-its-url", "square"), ("signs-none", "github")):
            assert ": verified" in send(running, name, "--sign", kind).stdout
        assert api.messages("square")["latest_seq"] == 1
        running.stop()
        [line] = [line for line in running.output.splitlines() if WARNING in line]
        assert all(name in line for name in (*NEEDING, "own-template"))
        assert not any(name in line for name in ("has-its-url", "signs-none"))


@pytest.mark.parametrize("settings", [{}, {"public_url": "https://hooks.example.com"}])
def test_a_server_without_such_inboxes_says_nothing(tmp_path: Path, settings: dict[str, str]) -> None:
    with Server(tmp_path / "data", **settings) as running, Api(running.url, running.token) as api:
        api.inbox(verifier="github", secret="k")
        running.stop()
        running.start()
        running.stop()
        assert WARNING not in running.output
