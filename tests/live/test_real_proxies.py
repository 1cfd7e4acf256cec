"""nginx and Caddy with the files of `deploy/` in front of a real server: nothing is held back, nothing is rewritten."""

import ssl
from collections.abc import Iterator

import httpx
import pytest

from tests.live import proxies
from tests.live.api import Api
from tests.live.harness import Server

CALL_SECONDS = 20.0

CLIENT = "127.0.0.7"
"""Another address than the proxy's own."""

MIB = 1024 * 1024


@pytest.fixture(scope="module")
def behind(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    """The server, as its administrator sees it from this machine."""
    folder = tmp_path_factory.mktemp("behind")
    settings = {"trusted_proxies": "127.0.0.1", "public_url": "https://hooks.example.org"}
    with Server(folder / "data", **settings) as server, Api(server.url, server.token) as api:
        yield api


@pytest.fixture(scope="module", params=["nginx", "caddy"])
def proxied(
    request: pytest.FixtureRequest, behind: Api, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[httpx.Client]:
    """A client with an address of its own that reaches the server through a proxy."""
    folder = tmp_path_factory.mktemp(request.param)
    port = int(behind.url.rpartition(":")[2])
    with getattr(proxies, request.param)(folder, port) as url:
        trusted = folder / "certificate.pem"
        verify = ssl.create_default_context(cafile=trusted) if trusted.exists() else True
        transport = httpx.HTTPTransport(verify=verify, local_address=CLIENT)
        headers = {"Authorization": f"Bearer {behind.token}"}
        with httpx.Client(
            base_url=url, transport=transport, headers=headers, timeout=CALL_SECONDS, trust_env=False
        ) as client:
            yield client


def test_an_event_comes_through_while_the_stream_is_open(behind: Api, proxied: httpx.Client) -> None:
    slug = behind.inbox()
    with proxied.stream("GET", f"/v1/inboxes/{slug}/stream") as answer:
        assert answer.status_code == 200
        pieces = answer.iter_raw()
        said = next(pieces)
        for n in (1, 2):
            behind.send(slug, b"{}")
            while b'"seq":%d,' % n not in said:
                said += next(pieces)


def test_a_wait_is_answered_by_the_message_that_it_waits_for(behind: Api, proxied: httpx.Client) -> None:
    slug = behind.inbox()
    behind.send(slug, b"{}")
    page = proxied.get(f"/v1/inboxes/{slug}/wait", params={"after": 0, "timeout_seconds": 60})
    assert [message["seq"] for message in page.json()["messages"]] == [1]
    empty = proxied.get(f"/v1/inboxes/{slug}/wait", params={"after": 1, "timeout_seconds": 1})
    assert (empty.status_code, empty.json()["next_after"]) == (200, 1)


@pytest.mark.parametrize("path", ["/a%2Fb//c", "/%7Euser/./x?q=a%20b&q=+", "/%C3%A9"])
def test_a_path_arrives_as_it_was_sent(behind: Api, proxied: httpx.Client, path: str) -> None:
    slug = behind.inbox()
    sent = proxied.post(
        "/", content=b"{}", headers={"X-A": "1"}, extensions={"target": f"/in/{slug}{path}".encode()}
    )
    assert sent.status_code == 200, sent.text
    said = behind.message(slug, 1)["untrusted"]
    assert (said["path"], said["query"]) == (path.partition("?")[0], path.partition("?")[2])


def test_the_address_is_the_clients_and_nobody_can_choose_it(behind: Api, proxied: httpx.Client) -> None:
    slug = behind.inbox()
    lies = {"X-Forwarded-For": "203.0.113.9", "Forwarded": "for=203.0.113.9"}
    assert proxied.post(f"/in/{slug}", content=b"{}", headers=lies).status_code == 200
    assert behind.message(slug, 1)["source_ip"] == CLIENT


def test_a_large_body_goes_in_and_comes_out_whole(behind: Api, proxied: httpx.Client) -> None:
    slug = behind.inbox()
    body = bytes(range(256)) * (9 * MIB // 256)
    assert proxied.post(f"/in/{slug}", content=body).status_code == 200
    assert proxied.get(f"/v1/inboxes/{slug}/messages/1/raw").content == body
    assert proxied.post(f"/in/{slug}", content=bytes(11 * MIB)).status_code == 413
