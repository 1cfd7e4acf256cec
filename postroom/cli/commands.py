"""All commands of `postroom`, in the order of the manual page. Each is loaded when it is asked for.

All of them together take three times as long to load as one.
"""

from collections.abc import Iterator, MutableMapping
from importlib import import_module

import click

from postroom.cli.program import Program

PLACES = {
    "serve": "serve:serve",
    "init": "serve:init",
    "send": "send:send",
    "messages": "read:messages",
    "message": "read:message",
    "raw": "read:raw",
    "search": "search:search",
    "erase": "erase:erase",
    "wait": "follow:wait",
    "tail": "follow:tail",
    "forward": "forward:forward_command",
    "inbox": "inbox:inbox",
    "verifiers": "verifiers:verifiers",
    "token": "token:token",  # a module and its command, no password # nosec B105
    "agent": "agent:agent",
    "beacon": "beacon:beacon",
    "publish": "publish:publish",
    "drain": "drain:drain",
    "machine": "machine:machine",
    "checkin": "presence:checkin",
    "checkout": "presence:checkout",
    "agents": "presence:agents",
    "tell": "tell:tell",
    "broadcast": "tell:broadcast",
    "ack": "mail:ack",
    "sent": "tell:sent",
    "watch": "watch:watch",
    "backup": "backup:backup",
    "restore": "backup:restore",
    "verify": "backup:verify",
    "epochs": "backup:epochs",
    "rekey": "rekey:rekey",
    "stats": "stats:stats",
    "health": "health:health",
    "mcp": "mcp:mcp",
    "connect": "connect:connect",
    "config": "configuration:config_command",
    "completion": "completion:completion",
}
"""Each command's module of this package, and its name there."""


class Loaded(MutableMapping[str, click.Command]):
    """The commands by name, as click keeps them; looking one up imports its module."""

    def __init__(self, places: dict[str, str]) -> None:
        self._places = dict(places)
        self._commands: dict[str, click.Command] = {}

    def __getitem__(self, name: str) -> click.Command:
        if name not in self._commands:
            module, _, attribute = self._places[name].partition(":")
            self._commands[name] = getattr(import_module(f"postroom.cli.{module}"), attribute)
        return self._commands[name]

    def __setitem__(self, name: str, command: click.Command) -> None:
        self._places.setdefault(name, "")
        self._commands[name] = command

    def __delitem__(self, name: str) -> None:
        del self._places[name]
        self._commands.pop(name, None)

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)


@click.group(
    cls=Program,
    commands=Loaded(PLACES),
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)
@click.option("--traceback", is_flag=True, help="Show where an error came from, for a bug report.")
@click.version_option(package_name="postroom", prog_name="postroom")
def program(traceback: bool) -> None:
    """Postroom: durable inboxes for software agents.

    `postroom serve` starts a server; the other commands talk to one (POSTROOM_URL, POSTROOM_TOKEN).

    Exit codes: 0 done, 1 failed, 2 wrong usage or configuration, 3 no server answered, 4 not authenticated
    or not allowed, 5 not found, 6 conflict, 7 try again later, 8 nothing came in time, 130 interrupted.
    """
