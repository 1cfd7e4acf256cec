"""Following an inbox through everything that ends a stream: each message once, in order, and said what is not there."""

import json
from collections.abc import Callable
from itertools import islice, takewhile

import pytest

from postroom.client import Client, Refused
from postroom.following import (
    LONGEST_RETRY_SECONDS,
    Cursor,
    Ended,
    Follower,
    Gap,
    Item,
    Lost,
    Message,
    NewLife,
)
from tests.postroom.scriptedserver import ScriptedServer, answer, event, events


def message(seq: int, epoch: str = "e") -> str:
    return event("message", json.dumps({"seq": seq}), f"{epoch}:{seq}")


def error(status: str, code: str, **details: object) -> bytes:
    document = {"error": {"code": code, "message": "…", "details": details}}
    return answer(json.dumps(document).encode(), status=status)


def following(server: ScriptedServer, **how: object) -> Follower:
    api = Client(server.url, "token")
    nowhere: Callable[[float], None] = lambda seconds: None  # noqa: E731 - time does not pass here
    options: dict[str, object] = {"sleep": nowhere, "jitter": lambda: 1.0, **how}
    return Follower(api, "demo", Cursor(0, "e"), **options)  # type: ignore[arg-type]  # options of the tests


def seen(items: list[Item]) -> list[object]:
    """Return the messages as their seqs, other items as they are, and a lost stream as what follows it."""
    return [json.loads(one.document)["seq"] if isinstance(one, Message) else one for one in items]


def until_lost(follower: Follower) -> list[object]:
    return seen(list(takewhile(lambda item: not isinstance(item, Lost), follower)))


def test_a_broken_stream_is_resumed_after_the_last_whole_event() -> None:
    cut = 'event: message\ndata: {"seq":3}\nid: e:3\n'
    with ScriptedServer(events(message(1), message(2), cut), events(message(3))) as server:
        got = seen(list(islice(following(server), 5)))
    assert [one for one in got if isinstance(one, int)] == [1, 2, 3]
    assert [(asked.params["after"], asked.params["epoch"]) for asked in server.asked] == [
        (["0"], ["e"]),
        (["2"], ["e"]),
    ]


def test_a_cursor_moves_only_when_the_item_has_been_dealt_with() -> None:
    with ScriptedServer(events(message(1), message(2))) as server:
        follower = following(server)
        items = iter(follower)
        next(items)
        assert follower.cursor.after == 0
        next(items)
        assert follower.cursor.after == 1


def test_a_filter_goes_along_on_every_connection() -> None:
    with ScriptedServer(events(message(4)), events(message(9))) as server:
        list(islice(following(server, types=("push", "a&b"), bodies=True), 3))
    for asked in server.asked:
        assert asked.params["types"] == ["push", "a&b"]
        assert asked.params["bodies"] == ["true"]
        assert dict(asked.headers)["Authorization"] == "Bearer token"


def test_an_id_without_data_moves_the_cursor_past_what_a_filter_skips() -> None:
    with ScriptedServer(events("id: e:500\n\n"), events()) as server:
        list(islice(following(server), 2))
    assert [asked.params["after"] for asked in server.asked] == [["0"], ["500"]]


def test_gaps_are_told() -> None:
    gap = event("gap", '{"inbox":"demo","after":1,"first_seq":7}')
    with ScriptedServer(events(gap, message(7))) as server:
        assert until_lost(following(server)) == [Gap(1, 7), 7]


@pytest.mark.parametrize("how", ["in the stream", "before the stream"])
def test_a_new_life_is_told_and_read_from_its_beginning(how: str) -> None:
    told = (
        events(event("epoch_changed", '{"inbox":"demo","epoch":"f"}'))
        if how == "in the stream"
        else error("409 Conflict", "epoch_changed", epoch="f")
    )
    with ScriptedServer(told, events(message(1, "f"))) as server:
        assert until_lost(following(server)) == [NewLife("f"), 1]
    assert (server.asked[1].params["after"], server.asked[1].params["epoch"]) == (["0"], ["f"])


def test_a_farewell_of_a_stopping_server_is_followed_by_another_try() -> None:
    bye = event("bye", '{"reason":"shutdown"}')
    with ScriptedServer(events(message(1), bye), events(message(2))) as server:
        got = list(islice(following(server), 3))
    assert [type(one) for one in got] == [Message, Lost, Message]


@pytest.mark.parametrize("reason", ["inbox_deleted", "revoked"])
def test_a_farewell_for_good_ends_the_following(reason: str) -> None:
    bye = event("bye", json.dumps({"reason": reason}))
    with ScriptedServer(events(bye)) as server, pytest.raises(Ended) as ended:
        list(following(server))
    assert ended.value.reason == reason


@pytest.mark.parametrize("status", ["401 Unauthorized", "404 Not Found", "409 Conflict"])
def test_a_refusal_that_no_retry_changes_ends_the_following(status: str) -> None:
    with ScriptedServer(error(status, "whatever")) as server, pytest.raises(Refused):
        list(following(server))


@pytest.mark.parametrize("status", ["503 Service Unavailable", "429 Too Many Requests", "502 Bad Gateway"])
def test_a_refusal_for_now_is_tried_again(status: str) -> None:
    with ScriptedServer(error(status, "busy"), events(message(1))) as server:
        lost, first = islice(following(server), 2)
    assert isinstance(lost, Lost)
    assert isinstance(first, Message)


def test_what_is_no_stream_is_tried_again_later() -> None:
    with ScriptedServer(answer(b"<html>", "text/html")) as server:
        assert "not with a stream" in str(next(iter(following(server))))


def test_waits_double_up_to_the_longest_and_begin_anew_after_an_event() -> None:
    silent = [error("503 Service Unavailable", "busy")] * 6
    slept: list[float] = []
    with ScriptedServer(*silent, events("retry: 4000\n", message(1))) as server:
        list(islice(following(server, sleep=slept.append), 9))
    assert slept[:6] == [2.0, 4.0, 8.0, 16.0, LONGEST_RETRY_SECONDS, LONGEST_RETRY_SECONDS]
    assert slept[6:] == [4.0]


def test_jitter_takes_away_up_to_half_of_a_wait() -> None:
    slept: list[float] = []
    with ScriptedServer(events(), events()) as server:
        list(islice(following(server, sleep=slept.append, jitter=lambda: 0.0), 3))
    assert slept == [1.0, 2.0]
