"""`python -m tests.simulation --seeds 0:10000`: print the seeds that find something, with their log's end."""

import multiprocessing
import sys
from collections.abc import Iterator
from time import monotonic

import click

from tests.simulation.run import Played, play

TAIL_LINES = 40
PROGRESS_EVERY = 500


@click.command()
@click.option(
    "--seeds", default="0:200", show_default=True, metavar="FROM:TO", help="Which, TO not included."
)
@click.option("--jobs", default=1, show_default=True, type=click.IntRange(1), help="Processes side by side.")
@click.option(
    "--log", "whole", is_flag=True, help="Print the whole log of every seed, for one that is looked into."
)
def main(seeds: str, jobs: int, whole: bool) -> None:
    """Play seeds of the simulated world."""
    first, _, end = seeds.partition(":")
    chosen = range(int(first), int(end or int(first) + 1))
    began, failed, cost, commits, lives = monotonic(), list[int](), 0.0, 0, 0
    for count, played in enumerate(_all(chosen, jobs), 1):
        cost, commits, lives = cost + played.seconds, commits + played.commits, lives + played.lives
        if whole:
            click.echo("\n".join(played.lines))
        if played.findings:
            failed.append(played.seed)
            click.echo(f"seed {played.seed}:")
            click.echo("\n".join(f"    {line[:240]}" for line in played.lines[-TAIL_LINES:]))
            click.echo("\n".join(f"  - {finding}" for finding in played.findings))
        if count % PROGRESS_EVERY == 0:
            click.echo(f"{count} seeds, {len(failed)} with findings, {monotonic() - began:.0f} s")
    click.echo(
        f"{len(chosen)} seeds in {monotonic() - began:.0f} s ({cost:.0f} s of processor time): {lives} starts, "
        f"{commits} units stored; findings: {', '.join(map(str, failed)) or 'none'}"
    )
    sys.exit(1 if failed else 0)


def _all(seeds: range, jobs: int) -> Iterator[Played]:
    if jobs == 1:
        yield from map(play, seeds)
        return
    with multiprocessing.get_context("spawn").Pool(jobs) as pool:
        yield from pool.imap_unordered(play, seeds)


if __name__ == "__main__":
    main()
