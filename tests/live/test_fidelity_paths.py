"""Fidelity of request targets and methods: the raw path and query are kept, and nothing else is an ingest address."""

import pytest

from tests.live.api import Api
from tests.live.rawhttp import Sender, head, ingest


@pytest.mark.parametrize(
    "path",
    [
        b"",
        b"/",
        b"//",
        b"/a",
        b"/a/",
        b"/a//b",
        b"//a",
        b"///",
        b"/a%2Fb",
        b"/a%2fb%2F",
        b"/%2F",
        b"/..",
        b"/../..",
        b"/../other-inbox",
        b"/a/../b",
        b"/./a/.",
        b"/%2e%2e/%2E%2E",
        b"/a;v=1",
        b"/a:b@c",
        b"/%",
        b"/%zz",
        b"/%00",
        b"/%FF%FE",
        b"/%C5%BE",
        b"/a+b%20c",
        b"/[x]{y}|z^",
        b"/v1/inboxes",
    ],
)
def test_the_path_after_the_slug_is_kept_as_it_was_sent(api: Api, sender: Sender, path: bytes) -> None:
    slug = api.inbox()
    assert sender.post(slug, b"{}", suffix=path) == 1
    claims = api.message(slug, 1)["untrusted"]
    assert (claims["path"], claims["query"]) == (path.decode(), "")


def test_a_target_in_absolute_form_is_served_like_its_path(api: Api, sender: Sender) -> None:
    slug = api.inbox()
    target = b"http://elsewhere.example" + ingest(slug, b"//a%2Fb/")
    assert sender.request(b"POST", target, [], b"{}").status == 200
    assert api.message(slug, 1)["untrusted"]["path"] == "//a%2Fb/"


def test_the_path_of_a_put_is_kept_too(api: Api, sender: Sender) -> None:
    slug = api.inbox()
    assert sender.request(b"PUT", ingest(slug, b"//a%2Fb/../"), [], b"{}").status == 200
    assert api.message(slug, 1)["untrusted"]["path"] == "//a%2Fb/../"


@pytest.mark.parametrize(
    "query",
    [
        b"a=1&a=2&a=1",
        b"a=&b=&=",
        b"a&b&a",
        b"=v&=w",
        b"&&a=1&&",
        b"a=b=c?d=/e",
        b"a=%26&%3D=1",
        b"a+b=c%20d",
        b"a=%",
        b"q=%FF",
        b"b=2&a=1",
        b"?",
    ],
)
def test_the_query_is_kept_as_it_was_sent(api: Api, sender: Sender, query: bytes) -> None:
    slug = api.inbox()
    assert sender.post(slug, b"{}", suffix=b"/hook?" + query) == 1
    claims = api.message(slug, 1)["untrusted"]
    assert (claims["path"], claims["query"]) == ("/hook", query.decode())


def test_a_query_without_a_path_is_kept(api: Api, sender: Sender) -> None:
    slug = api.inbox()
    assert sender.post(slug, b"{}", suffix=b"?a=1&a=&b") == 1
    claims = api.message(slug, 1)["untrusted"]
    assert (claims["path"], claims["query"]) == ("", "a=1&a=&b")


def test_a_lone_question_mark_is_an_empty_query(api: Api, sender: Sender) -> None:
    slug = api.inbox()
    assert sender.post(slug, b"{}", suffix=b"/a?") == 1
    claims = api.message(slug, 1)["untrusted"]
    assert (claims["path"], claims["query"]) == ("/a", "")


def test_a_query_of_32_kib_is_kept(api: Api, sender: Sender) -> None:
    slug = api.inbox()
    query = "&".join(f"k{n}={n}" for n in range(3_000))
    assert sender.post(slug, b"{}", suffix=b"?" + query.encode()) == 1
    assert api.message(slug, 1)["untrusted"]["query"] == query


# -- methods --------------------------------------------------------------------------------------------


def test_put_is_stored_like_post_and_says_so(api: Api, sender: Sender) -> None:
    slug = api.inbox()
    reply = sender.request(b"PUT", ingest(slug), [(b"Content-Type", b"text/plain")], b"put")
    assert (reply.status, reply.json()["seq"]) == (200, 1)
    message = api.message(slug, 1)
    assert (message["method"], message["untrusted"]["body_text"]) == ("PUT", "put")


@pytest.mark.parametrize("method", [b"GET", b"HEAD"])
@pytest.mark.parametrize("path", [b"", b"/", b"/a//b?c=d"])
def test_get_and_head_answer_200_and_store_nothing(
    api: Api, sender: Sender, method: bytes, path: bytes
) -> None:
    slug = api.inbox()
    reply = sender.request(method, ingest(slug, path))
    assert reply.status == 200
    assert reply.header(b"cache-control") == b"no-store"
    assert reply.header(b"x-content-type-options") == b"nosniff"
    assert api.messages(slug)["latest_seq"] == 0


@pytest.mark.parametrize("method", [b"DELETE", b"PATCH", b"OPTIONS", b"TRACE", b"REPORT"])
def test_other_methods_answer_405_with_allow_and_store_nothing(
    api: Api, sender: Sender, method: bytes
) -> None:
    slug = api.inbox()
    reply = sender.request(method, ingest(slug), [], b"{}")
    assert (reply.status, reply.json()["error"]["code"]) == (405, "method_not_allowed")
    allowed = {one.strip() for one in (reply.header(b"allow") or b"").split(b",")}
    assert allowed == {b"POST", b"PUT", b"GET", b"HEAD"}
    assert api.messages(slug)["latest_seq"] == 0


# -- addresses without an inbox ---------------------------------------------------------------------------


METHODS = [b"POST", b"PUT", b"GET", b"DELETE", b"PATCH", b"OPTIONS", b"REPORT"]


def test_an_unknown_slug_answers_the_same_404_for_every_method(api: Api, sender: Sender) -> None:
    topic = api.inbox(kind="topic")
    gone = api.inbox()
    api.ok("DELETE", f"/inboxes/{gone}", status=204)
    slugs = ["nobody-here", "Not-A-Slug", "agent.somebody", "machine.box", "-", "a" * 65, "%61b", topic, gone]
    targets = [*(ingest(slug, rest) for slug in slugs for rest in (b"", b"/a/../b?c")), b"/in/", b"/in//"]
    answers = [
        sender.request(method, target, [], None if method == b"GET" else b"{}")
        for method in METHODS
        for target in targets
    ]
    first = answers[0]
    assert (first.status, first.json()["error"]["code"]) == (404, "not_found")
    assert [answer.undated for answer in answers] == [first.undated] * len(answers)


def test_head_of_an_unknown_slug_has_the_head_of_that_404(sender: Sender) -> None:
    status, headers, body = sender.request(b"HEAD", b"/in/nobody-here").undated
    assert (status, body) == (404, b"")
    assert headers == sender.request(b"GET", b"/in/nobody-here").undated[1]


def test_a_known_slug_in_other_letters_is_unknown(api: Api, sender: Sender) -> None:
    slug = api.inbox()
    assert sender.request(b"POST", ingest(slug.upper()), [], b"{}").status == 404
    assert sender.request(b"POST", ingest("%69" + slug[1:]), [], b"{}").status == 404
    assert sender.request(b"POST", b"//in/" + slug.encode(), [], b"{}").status == 404
    assert sender.request(b"POST", b"/IN/" + slug.encode(), [], b"{}").status == 404


def test_two_requests_of_one_connection_are_told_apart(api: Api, sender: Sender) -> None:
    slug = api.inbox()
    first = head(b"POST", ingest(slug, b"/1"), [(b"Content-Length", b"2")]) + b"[]"
    second = (
        head(b"POST", ingest(slug, b"/2"), [(b"Transfer-Encoding", b"chunked")]) + b"2\r\n{}\r\n0\r\n\r\n"
    )
    with sender.line() as line:
        line.send(first + second)  # pipelined: the second begins in the segment in which the first ends
        assert (line.reply().json()["seq"], line.reply().json()["seq"]) == (1, 2)
        line.send(first)
        assert line.reply().json()["seq"] == 3
    paths = [message["untrusted"]["path"] for message in api.messages(slug, after=0)["messages"]]
    assert paths == ["/1", "/2", "/1"]
