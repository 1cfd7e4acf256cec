"""The program `postroom` with all its commands. `postroom.__main__` starts it."""

import click

from postroom.cli.agent import agent
from postroom.cli.backup import backup, epochs, restore, verify
from postroom.cli.beacon import beacon
from postroom.cli.completion import completion
from postroom.cli.configuration import config_command
from postroom.cli.connect import connect
from postroom.cli.drain import drain
from postroom.cli.erase import erase
from postroom.cli.follow import tail, wait
from postroom.cli.forward import forward_command
from postroom.cli.health import health
from postroom.cli.inbox import inbox
from postroom.cli.machine import machine
from postroom.cli.mail import ack
from postroom.cli.mcp import mcp
from postroom.cli.presence import agents, checkin, checkout
from postroom.cli.program import Program
from postroom.cli.publish import publish
from postroom.cli.read import message, messages, raw
from postroom.cli.rekey import rekey
from postroom.cli.search import search
from postroom.cli.send import send
from postroom.cli.serve import init, serve
from postroom.cli.stats import stats
from postroom.cli.tell import broadcast, sent, tell
from postroom.cli.token import token
from postroom.cli.verifiers import verifiers
from postroom.cli.watch import watch


@click.group(cls=Program, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.option("--traceback", is_flag=True, help="Show where an error came from, for a bug report.")
@click.version_option(package_name="postroom", prog_name="postroom")
def program(traceback: bool) -> None:
    """Postroom: durable inboxes for software agents.

    `postroom serve` starts a server; the other commands talk to one (POSTROOM_URL, POSTROOM_TOKEN).

    Exit codes: 0 done, 1 failed, 2 wrong usage or configuration, 3 no server answered, 4 not authenticated
    or not allowed, 5 not found, 6 conflict, 7 try again later, 8 nothing came in time, 130 interrupted.
    """


for command in (
    serve,
    init,
    send,
    messages,
    message,
    raw,
    search,
    erase,
    wait,
    tail,
    forward_command,
    inbox,
    verifiers,
    token,
    agent,
    beacon,
    publish,
    drain,
    machine,
    checkin,
    checkout,
    agents,
    tell,
    broadcast,
    ack,
    sent,
    watch,
    backup,
    restore,
    verify,
    epochs,
    rekey,
    stats,
    health,
    mcp,
    connect,
    config_command,
    completion,
):
    program.add_command(command)
