"""What `serve` and `init` say: where the server is, the admin token (once), and what to try next.

The commands are printed as the reader can type them: with the path of the program when it is not on the PATH.
"""

import os
import shutil
import sys
from pathlib import Path

from postroom.bootstrap import DEMO_SLUG, Founded
from postroom.cli.terminal import safe
from postroom.config import Config
from storage.life import Finding, describe

LAST_LINE = "Ctrl-C stops the server."
"""Ends what `serve` prints, so that whoever reads along knows that it was all."""


MOVED = (
    "After the next move of the data directory, start once with --same-life, and readers keep their cursors; "
    "never do so with a copy."
)


def program_name() -> str:
    """Return how this program is typed here: `postroom`, or its path from the current directory."""
    started_as = Path(sys.argv[0])
    if started_as.name != "postroom":
        return f"{Path(sys.executable).name} -m postroom"
    on_path = shutil.which("postroom")
    if on_path is not None and os.path.realpath(on_path) == os.path.realpath(started_as):
        return "postroom"
    relative = os.path.relpath(started_as)
    return str(started_as) if relative.startswith("..") else relative


def reached_at(url: str) -> str:
    """Return the URL by which this machine reaches a server that listens at `url`; every address includes its own."""
    return url.replace("//0.0.0.0:", "//127.0.0.1:").replace("//[::]:", "//[::1]:")


def exports(url: str, admin_token: str) -> list[str]:
    """Return the two lines that let the client commands work in another terminal."""
    return [f"  export POSTROOM_URL={reached_at(url)}", f"  export POSTROOM_TOKEN={admin_token}"]


def started(url: str, config: Config, founded: Founded, new_life: tuple[Finding, ...] = ()) -> str:
    """Return what `serve` prints when it takes requests. `url`: where it listens."""
    lines = [f"Postroom listens on {safe(url)} and keeps its data in {safe(config.data_dir)}."]
    if config.public_url is not None:
        lines.append(f"Senders reach it at {safe(config.public_url)} (PUBLIC_URL).")
    if not config.read_api_enabled:
        lines.append(
            "Reading is switched off (READ_API_ENABLED): it takes messages in, and can be administered."
        )
    if new_life:
        lines += ["", describe(new_life)]
        if new_life == ("moved",):
            lines.append(MOVED)
    if founded.admin_token is not None:
        lines += ["", "The admin token, printed this once (only its hash is kept). In another terminal:", ""]
        lines += exports(url, founded.admin_token)
    if founded.demo:
        name = program_name()
        lines += [
            "",
            "Then try:",
            "",
            f'  {name} send {DEMO_SLUG} --data \'{{"hello": "world"}}\'',
            *([f"  {name} messages {DEMO_SLUG}"] if config.read_api_enabled else []),
            f"  {name} inbox create",
        ]
    return "\n".join([*lines, "", LAST_LINE])
