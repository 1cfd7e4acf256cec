"""Refusals over REST: one error shape at every address, and nothing of the server's inside in any answer.

Black-box: written from section 9 of the surface, over real sockets.
"""

import json

import pytest

from tests.live.api import Api, error_of, github_headers


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", "/nothing", 404, "not_found"),
        ("GET", "/inboxes/", 404, "not_found"),
        ("GET", "//inboxes", 404, "not_found"),
        ("GET", "/inboxes/{}/messages/", 404, "not_found"),
        ("GET", "/inboxes/{}/messages/1/raw/", 404, "not_found"),
        ("GET", "/%69nboxes", 404, "not_found"),
        ("POST", "/inboxes/{}:explode", 404, "not_found"),
        ("POST", "/inboxes/{}/messages", 405, "method_not_allowed"),
        ("PUT", "/inboxes", 405, "method_not_allowed"),
        ("DELETE", "/me", 405, "method_not_allowed"),
        ("OPTIONS", "/inboxes", 405, "method_not_allowed"),
        ("PUT", "/tokens/x", 405, "method_not_allowed"),
        ("BREW", "/inboxes", 405, "method_not_allowed"),
        ("GET", "/tokens/nothing", 405, "method_not_allowed"),
        ("DELETE", "/tokens/nothing", 404, "not_found"),
    ],
)
def test_a_wrong_address_or_method_is_refused_in_the_same_shape(
    api: Api, ten: str, method: str, path: str, status: int, code: str
) -> None:
    answer = api.call(method, path.format(ten))
    assert error_of(answer)[:2] == (status, code)
    if status == 405:
        assert answer.headers["allow"]


def test_an_address_outside_the_api_is_refused_in_the_same_shape(api: Api) -> None:
    for path in (
        "/nothing",
        "/in",
        "/in/",
        "/v1",
        "/v2/inboxes",
        "/%00",
        "/.well-known/oauth-authorization-server",
    ):
        answer = api._http.get(f"{api.url}{path}")
        assert error_of(answer)[:2] == (404, "not_found"), path


def test_answers_do_not_name_the_servers_software_or_its_directories(api: Api, ten: str) -> None:
    answers = [
        api.call("GET", f"/inboxes/{ten}"),
        api.call("GET", f"/inboxes/{ten}/messages"),
        api.call("GET", "/me"),
        api.call("POST", "/inboxes", content=b"{"),
        api.post(ten, headers=github_headers(b"{}", "push", "d")),
        api._http.get(f"{api.url}/healthz"),
        api._http.get(f"{api.url}/readyz"),
    ]
    for answer in answers:
        assert "server" not in answer.headers
        assert answer.headers["cache-control"] == "no-store"
        assert answer.headers["x-content-type-options"] == "nosniff"
        for inside in ("Traceback", ".py", "sqlite", "/tmp/", "hypercorn", "postroom-data"):
            assert inside not in answer.text
            assert inside not in json.dumps(dict(answer.headers))
