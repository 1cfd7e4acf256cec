"""`python -m tests.hostile --minutes 15`: parsers, HTTP and MCP side by side, each for so long."""

import subprocess
import sys

import click

KINDS = ("parsers", "openapi", "mcp")


@click.command()
@click.option("--minutes", type=float, default=15.0, show_default=True, help="How long each of the three.")
def main(minutes: float) -> None:
    """Run them; exit with 1 when one has found something."""
    command = [sys.executable, "-m", "pytest", "-q", "-s", "--timeout", "0", f"--fuzz-minutes={minutes}"]
    running = {
        kind: subprocess.Popen([*command, f"tests/hostile/test_{kind}.py"], stdin=subprocess.DEVNULL)
        for kind in KINDS
    }
    codes = {kind: process.wait() for kind, process in running.items()}
    sys.exit(1 if any(codes.values()) else 0)


if __name__ == "__main__":
    main()
