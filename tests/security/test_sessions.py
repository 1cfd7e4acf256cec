"""Sessions of the web page: whose they are, and that neither they nor tokens can be read from a disk."""

import re

import httpx

from tests.live.api import Api
from tests.live.harness import Server

SAME = {"Sec-Fetch-Site": "same-origin", "Sec-Fetch-Mode": "navigate"}


def sign_in(client: httpx.Client, token: str, **headers: str) -> str:
    """Sign in and return the id of the session, by itself: the client keeps no cookie."""
    answer = client.post("/ui/sign-in", data={"token": token}, headers=SAME | headers)
    assert answer.status_code == 303, answer.text
    client.cookies.clear()
    found = re.match(r"postroom_session=([\w-]+);", answer.headers["set-cookie"])
    assert found is not None
    return found[1]


def test_a_session_of_somebody_else_s_making_is_not_the_one_that_signing_in_leads_to(
    server: Server, api: Api
) -> None:
    """Fixation: an attacker has a browser use a session that the attacker knows, and waits for its user to sign in."""
    with httpx.Client(base_url=server.url, trust_env=False) as client:
        planted = sign_in(client, api.agent([api.inbox()]))
        for cookie in (planted, "A" * 43):
            mine = sign_in(client, server.token, Cookie=f"postroom_session={cookie}")
            assert mine != cookie
            for session, status in ((mine, 200), (cookie, 303)):  # the planted one is over
                shown = client.get("/ui/inboxes", headers=SAME | {"Cookie": f"postroom_session={session}"})
                assert shown.status_code == status


def test_no_token_and_no_session_is_in_any_file(server: Server, api: Api) -> None:
    token = api.agent("all")
    with httpx.Client(base_url=server.url, trust_env=False) as client:
        texts = (token, server.token, sign_in(client, token))
    kept = b"".join(path.read_bytes() for path in server.data_dir.iterdir() if path.suffix != ".reserve")
    assert b"postroom" in kept or len(kept) > 100_000
    for text in texts:
        assert text.encode() not in kept
        assert re.sub("^prm_[a-z]+_", "", text).encode() not in kept
