"""What neighbours on the machine, and whoever gets hold of a core dump, learn of the server's process."""

import resource
from pathlib import Path

from tests.live.harness import Server


def test_secrets_are_in_no_command_line_and_no_child_has_them(tmp_path: Path) -> None:
    """Every user of a machine sees the command lines of all processes; the environment, its owner alone."""
    key = "a-key-that-seals-" + "k" * 32
    soft, hard = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (hard, hard))  # as a shell may have it
    try:
        with Server(tmp_path / "data", secret_key=key) as server:
            process = Path("/proc") / str(server.pid)
            line = (process / "cmdline").read_bytes()
            assert b"serve" in line
            assert server.token.encode() not in line
            assert key.encode() not in line
            assert (process / "environ").stat().st_mode & 0o077 == 0
            assert [each.read_text() for each in process.glob("task/*/children") if each.read_text()] == []
            limits = (process / "limits").read_text()
            assert "Max core file size        0 " in limits
            assert server.stop() == 0
            assert server.token not in server.output
            assert key not in server.output
    finally:
        resource.setrlimit(resource.RLIMIT_CORE, (soft, hard))
