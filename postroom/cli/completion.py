"""`completion`: what a shell reads to complete this program's commands, options and names."""

import click
from click.shell_completion import get_completion_class

SHELLS = ("bash", "zsh", "fish")
VARIABLE = "_POSTROOM_COMPLETE"
"""In which the script tells this program that it is asked for completions; click's own name for it."""


@click.command()
@click.argument("shell", type=click.Choice(SHELLS))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print the completion script of a shell.

    For one session: `eval "$(postroom completion bash)"`. To keep it, write it to a file where the shell looks for
    completions, or put that line into its start file. Fish: `postroom completion fish | source`.
    """
    kind = get_completion_class(shell)
    if kind is None:
        raise LookupError(f"click knows no completion for {shell}")
    click.echo(kind(context.find_root().command, {}, "postroom", VARIABLE).source())
