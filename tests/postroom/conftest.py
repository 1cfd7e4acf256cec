"""A server that the tests of the commands share, and a way to call a command."""

from collections.abc import Callable, Iterator

import pytest
from click.testing import CliRunner, Result

from postroom.cli.commands import program
from postroom.settings import CLIENT_VARIABLES
from tests.postroom.serverproc import ServerProcess

Command = Callable[..., Result]


@pytest.fixture(scope="package")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """Run a server on a new data directory."""
    with ServerProcess(tmp_path_factory.mktemp("server") / "data") as running:
        yield running


def run(*words: str, stdin: bytes | None = None, **environment: str | None) -> Result:
    """Run one command in this process, with no environment of Postroom's but what is given."""
    clean: dict[str, str | None] = dict.fromkeys(f"POSTROOM_{name}" for name in CLIENT_VARIABLES)
    return CliRunner().invoke(program, words, input=stdin, env=clean | environment, prog_name="postroom")


@pytest.fixture
def command(server: ServerProcess) -> Command:
    """Run one command against the shared server as its administrator."""

    def call(*words: str, stdin: bytes | None = None, **environment: str | None) -> Result:
        asked = {"POSTROOM_URL": server.url, "POSTROOM_TOKEN": server.token} | environment
        return run(*words, stdin=stdin, **asked)

    return call
