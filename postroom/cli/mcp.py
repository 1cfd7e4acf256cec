"""`postroom mcp`: a server's MCP endpoint for clients that start a program and talk to it over stdin and stdout."""

import functools
from http import HTTPStatus
from urllib.parse import urlencode

import click

from postroom.cli.program import EXIT_NOT_FOUND, Failure, Remote, token_variable, url_option
from postroom.cli.terminal import safe
from postroom.client import Refused

SMALLEST_PAGE_BYTES = 4_096
"""What the server takes (`web.mcp.exchange`, which is not imported: commands load fast)."""


@click.command("mcp")
@url_option
@click.option(
    "--page-bytes",
    type=click.IntRange(min=SMALLEST_PAGE_BYTES),
    metavar="BYTES",
    help="Smaller pages, for a client that refuses large results: 65536 keeps them under 25,000 tokens.",
)
@click.option(
    "--empty-lists",
    is_flag=True,
    help="Answer requests for resources and prompts with empty lists, for a client that shows an error otherwise.",
)
def mcp(url: str, page_bytes: int | None, empty_lists: bool) -> None:
    """Serve MCP over stdin and stdout, as a client of a server.

    For MCP clients that start a program; `postroom connect` prints how. It needs POSTROOM_TOKEN, and ends when stdin
    closes. A server that starts again is found again: calls meanwhile wait up to 20 seconds for it.
    """
    # Imported here: it loads trio, which the other commands do without.
    import trio

    from postroom.mcp_stdio import serve_stdio

    remote = Remote(url, False, token_variable())
    token = remote.token()
    options = {"page_bytes": page_bytes, "lists": "empty" if empty_lists else None}
    query = urlencode({name: value for name, value in options.items() if value is not None})
    try:
        trio.run(functools.partial(serve_stdio, url, query, token, _say, session=remote.session()))
    except Refused as error:
        if error.status != HTTPStatus.NOT_FOUND:
            raise
        raise Failure(
            f"there is no MCP endpoint at {url}; is it switched off there, or POSTROOM_URL wrong?",
            EXIT_NOT_FOUND,
        ) from None


def _say(sentence: str) -> None:
    click.echo(f"postroom: {safe(sentence)}", err=True)
