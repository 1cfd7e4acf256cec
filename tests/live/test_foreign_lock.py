"""Somebody has the database open in the `sqlite3` shell, with `BEGIN IMMEDIATE`, while the server runs and ends."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

import apsw
import httpx
import pytest

from tests.live.api import Api
from tests.postroom.serverproc import ServerProcess


@contextlib.contextmanager
def write_lock(directory: Path) -> Iterator[None]:
    """Hold the database's write lock, as another program."""
    shell = apsw.Connection(str(directory / "postroom.db"))
    try:
        shell.execute("BEGIN IMMEDIATE")
        yield
    finally:
        shell.close(True)


def printed(server: ServerProcess) -> Iterator[str]:
    """Yield every line that a server which has ended printed."""
    yield from server.said
    while (line := server._lines.get(timeout=5)) is not None:
        yield line


@pytest.mark.parametrize("busy", [False, True], ids=["quiet", "with work under way"])
def test_the_end_is_orderly_while_somebody_else_holds_the_write_lock(tmp_path: Path, busy: bool) -> None:
    server = ServerProcess(tmp_path / "data")
    with server, Api(server.url, server.token) as api:
        api.send("demo")
        with write_lock(tmp_path / "data"):
            assert api.get("/me")["kind"] == "admin"  # a use that the end wants to write down
            if busy:
                assert api.post("demo").status_code == 503
                api.call("POST", "/inboxes/demo:purge")
            server.stop()
    said = "\n".join(printed(server))
    assert server.exit_code == 0, said
    assert server.exit_code == 0, said
    assert "Traceback" not in said
    with ServerProcess(tmp_path / "data") as again, Api(again.url, server.token) as api:
        assert api.send("demo") == 2
        assert httpx.get(f"{again.url}/readyz").status_code == 200
    assert "new life" not in "\n".join(again.said)
