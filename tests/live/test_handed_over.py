"""Sockets that a supervisor hands over, and what it is told: a restart refuses nobody a connection."""

import json
import signal
import socket
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.live.api import Api
from tests.live.handing_over import ActivatedServer
from tests.postroom.conftest import run

CLIENT_SECONDS = 30.0

HTTP2_BEGINS = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(3) + b"\x04" + bytes(5)
SETTINGS_FRAME = 4


def url_of(sock: socket.socket) -> str:
    host, port = sock.getsockname()
    return f"http://{host}:{port}"


def test_a_restart_refuses_nobody_a_connection(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        with ActivatedServer(tmp_path / "data", listening) as first:
            assert first.url == url_of(listening), "not the address that was configured"
            token = first.token
            with Api(first.url, token) as api:
                api.send("demo", b"before")
        assert first.exit_code == 0
        with socket.create_connection(listening.getsockname(), CLIENT_SECONDS) as client:
            head = b"POST /in/demo HTTP/1.1\r\nHost: x\r\nContent-Length: 7\r\nConnection: close\r\n\r\n"
            client.sendall(head + b"between")
            with ActivatedServer(tmp_path / "data", listening) as second:
                answer = b"".join(iter(lambda: client.recv(65_536), b""))
                assert b" 200 " in answer.partition(b"\r\n")[0]
                assert json.loads(answer.partition(b"\r\n\r\n")[2])["seq"] == 2
                with Api(second.url, token) as api:
                    assert api.get("/inboxes/demo/messages")["latest_seq"] == 2


def test_who_comes_while_the_server_ends_is_served_by_the_next(tmp_path: Path) -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as listening,
        ExitStack() as clients,
    ):

        def connect() -> socket.socket:
            return clients.enter_context(socket.create_connection(listening.getsockname(), CLIENT_SECONDS))

        with ActivatedServer(tmp_path / "data", listening) as first:
            idle, busy = connect(), connect()
            for client in (idle, busy):
                client.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
                assert b" 200 " in client.recv(65_536)
            busy.sendall(b"POST /in/demo HTTP/1.1\r\nHost: x\r\nContent-Length: 7\r\n\r\nhal")
            first.signal(signal.SIGTERM)
            assert idle.recv(65_536) == b"", "now it ends, and waits for who is busy"
            late = connect()
            late.sendall(
                b"POST /in/demo HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\nConnection: close\r\n\r\nlate"
            )
        with ActivatedServer(tmp_path / "data", listening):
            answer = b"".join(iter(lambda: late.recv(65_536), b""))
            assert b" 200 " in answer.partition(b"\r\n")[0]


def test_the_supervisor_hands_over_both_ports_by_name_and_is_told_of_beginning_and_end(
    tmp_path: Path,
) -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as grpc,
        socket.create_server(("127.0.0.1", 0)) as http,
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as supervisor,
    ):
        supervisor.settimeout(CLIENT_SECONDS)
        supervisor.bind(f"{tmp_path}/notify")
        server = ActivatedServer(tmp_path / "data", grpc, http, names="grpc:http")
        server.tell(f"{tmp_path}/notify")
        with server:
            assert supervisor.recv(4096) == b"READY=1"
            assert server.url == url_of(http)
            assert run("health", "--url", server.url).stdout == "ready\n"
            with socket.create_connection(grpc.getsockname(), CLIENT_SECONDS) as client:
                client.sendall(HTTP2_BEGINS)
                assert client.recv(9)[3] == SETTINGS_FRAME
            server.signal(signal.SIGHUP)
            server.until("settings reloaded")
        assert supervisor.recv(4096) == b"STOPPING=1"
    assert server.exit_code == 0
    assert not [line for line in server.rest() if "wait for a restart" in line]


def test_sockets_that_nobody_can_tell_apart_are_refused_in_one_sentence(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as one, socket.create_server(("127.0.0.1", 0)) as other:
        server = ActivatedServer(tmp_path / "data", one, other)
        with pytest.raises(AssertionError), server:
            pass
    assert server.exit_code == 1
    [said] = server.said
    assert said.startswith("postroom: The supervisor hands over 2 sockets")
    assert not (tmp_path / "data").exists()
