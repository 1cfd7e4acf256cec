"""What of a supervisor's sockets is taken, under which names, and what is refused; what it is told."""

import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from postroom import ports
from postroom.config import load
from postroom.supervisor import READY, tell
from web.serve import CannotListen

FIRST = 200
"""Far above what this process has open."""


def tcp() -> socket.socket:
    return socket.create_server(("127.0.0.1", 0))


def udp() -> socket.socket:
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.bind(("127.0.0.1", 0))
    return sock


def not_listening() -> socket.socket:
    sock = socket.socket()
    sock.bind(("127.0.0.1", 0))
    return sock


def local() -> socket.socket:
    sock = socket.socket(socket.AF_UNIX)
    sock.bind("")
    sock.listen()
    return sock


@pytest.fixture
def hand_over(monkeypatch: pytest.MonkeyPatch) -> Callable[..., dict[str, str]]:
    """Put sockets where the server expects them; return the environment that tells of them."""
    monkeypatch.setattr(ports, "FIRST_DESCRIPTOR", FIRST)

    def place(*made: Callable[[], socket.socket], names: str = "", pid: int | None = None) -> dict[str, str]:
        for n, make in enumerate(made):
            with make() as sock:
                os.dup2(sock.fileno(), FIRST + n, inheritable=True)
        ours = os.getpid() if pid is None else pid
        return {
            "LISTEN_PID": str(ours),
            "LISTEN_FDS": str(len(made)),
            "LISTEN_FDNAMES": names,
            "PATH": "/bin",
        }

    return place


def close(*numbers: int) -> None:
    for number in numbers:
        os.close(number)


@pytest.mark.parametrize(
    ("count", "names", "taken"),
    [
        (1, "", ["http"]),
        (1, "postroom.socket", ["http"]),
        (1, "http", ["http"]),
        (1, "grpc", ["grpc"]),
        (2, "http:grpc", ["http", "grpc"]),
        (2, "grpc:http", ["grpc", "http"]),
    ],
)
def test_sockets_are_taken_by_their_names(
    hand_over: Callable[..., dict[str, str]], count: int, names: str, taken: list[str]
) -> None:
    environment = hand_over(*[tcp] * count, names=names)
    sockets = ports.take_sockets(environment)
    try:
        assert list(sockets) == taken
        assert [sock.fileno() for sock in sockets.values()] == list(range(FIRST, FIRST + count))
        assert not any(os.get_inheritable(sock.fileno()) for sock in sockets.values())
        assert environment == {"PATH": "/bin"}, "told once"
        config = ports.bound_to(load(flags={"bind": "127.0.0.1:1"}), sockets)
        for name, key in (("http", "bind"), ("grpc", "grpc_bind")):
            if name in sockets:
                assert getattr(config, key) == f"127.0.0.1:{sockets[name].getsockname()[1]}"
                assert config.origins[key] == ports.ORIGIN
    finally:
        for sock in sockets.values():
            sock.close()


@pytest.mark.parametrize(
    ("made", "names", "said"),
    [
        ([udp], "", "no listening TCP socket"),
        ([not_listening], "http", "no listening TCP socket"),
        ([local], "http", "no listening TCP socket"),
        ([tcp, tcp], "http:http", "one named http and one named grpc"),
        ([tcp, tcp], "http:smtp", "'http:smtp'"),
        ([tcp, tcp, tcp], "http:grpc", "3 sockets"),
    ],
)
def test_what_cannot_be_served_is_refused(
    hand_over: Callable[..., dict[str, str]], made: list[Callable[[], socket.socket]], names: str, said: str
) -> None:
    environment = hand_over(*made, names=names)
    with pytest.raises(CannotListen, match=said):
        ports.take_sockets(environment)
    if len(made) > 1:
        close(*range(FIRST, FIRST + len(made)))


def test_a_descriptor_that_is_none_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ports, "FIRST_DESCRIPTOR", FIRST)
    with pytest.raises(CannotListen, match="bad file descriptor"):
        ports.take_sockets({"LISTEN_PID": str(os.getpid()), "LISTEN_FDS": "1"})


@pytest.mark.parametrize(
    "environment",
    [{}, {"LISTEN_FDS": "1"}, {"LISTEN_PID": "1", "LISTEN_FDS": "1"}, {"LISTEN_PID": "", "LISTEN_FDS": "x"}],
)
def test_sockets_for_another_process_are_left_alone(environment: dict[str, str]) -> None:
    assert ports.take_sockets(environment) == {}


@pytest.mark.parametrize("abstract", [False, True], ids=["file", "abstract"])
def test_the_supervisor_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, abstract: bool) -> None:
    name = f"{tmp_path}/notify"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as supervisor:
        supervisor.settimeout(1)
        supervisor.bind("\0" + name if abstract else name)
        monkeypatch.setenv("NOTIFY_SOCKET", "@" + name if abstract else name)
        tell(READY)
        assert supervisor.recv(64) == b"READY=1"


def test_a_supervisor_that_is_gone_is_no_reason_to_fail(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NOTIFY_SOCKET", f"{tmp_path}/nobody")
    tell(READY)
