"""`postroom connect`: what an MCP client needs to be told of a server, ready to paste or run."""

import re

import click

from postroom.cli.program import EXIT_USAGE, Failure, url_option
from postroom.cli.terminal import safe
from postroom.connecting import CLIENTS, TOKEN_VARIABLE, Wanted

NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
"""Names that every client takes."""
VARIABLE = re.compile(r"(?!prm_)[A-Za-z_][A-Za-z0-9_]*")
"""Not a token itself, which is easily pasted in its place."""


@click.command()
@click.argument("client", type=click.Choice(list(CLIENTS)))
@url_option
@click.option("--name", default="postroom", show_default=True, help="What the client shall call this server.")
@click.option(
    "--token-env",
    "variable",
    default=TOKEN_VARIABLE,
    show_default=True,
    metavar="NAME",
    help="The environment variable that holds the token; the client reads it.",
)
@click.option("--stdio", is_flag=True, help="Through `postroom mcp`, for clients that only start programs.")
def connect(client: str, url: str, name: str, variable: str, stdio: bool) -> None:
    """Print the configuration or command that connects an MCP client with a server.

    Nothing is called and nothing is changed; where the text belongs is said on stderr. The token itself is
    never in it: it names the environment variable from which the client reads the token.
    """
    if not url.startswith(("http://", "https://")):
        raise Failure(f"{url!r} is not an http:// or https:// URL.", EXIT_USAGE)
    if not NAME.fullmatch(name):
        raise Failure("--name takes letters, digits, _ and -, at most 64.", EXIT_USAGE)
    if not VARIABLE.fullmatch(variable):
        raise Failure("--token-env takes the name of an environment variable.", EXIT_USAGE)
    # The server's URL is asked for, and the endpoint's is what people have at hand.
    ready = CLIENTS[client](Wanted(url.rstrip("/").removesuffix("/mcp"), name, variable, stdio))
    click.echo(ready.text)
    click.echo(f"postroom: {safe(ready.hint)}", err=True)
