"""`python -m tests.mutation [GROUP…]`: try the mutants, and compare those that survive with the list."""

import sys
from collections import Counter, defaultdict
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from time import monotonic

import click

from tests.mutation.copies import outcomes
from tests.mutation.mutants import Change
from tests.mutation.survivors import entry, listed
from tests.mutation.table import GROUPS

FOUND = ("killed", "timed out")
LEAST_SHARE = 0.9


@click.command()
@click.argument("names", nargs=-1, type=click.Choice([group.name for group in GROUPS]))
@click.option("--jobs", default=2, show_default=True, type=click.IntRange(1), help="Groups side by side.")
def main(names: tuple[str, ...], jobs: int) -> None:
    """Exit with 1 when a mutant survives that is not listed, or when too few are found."""
    groups = [group for group in GROUPS if not names or group.name in names]
    began, reasons = monotonic(), listed()
    survivors: set[Change] = set()
    every: Counter[bool] = Counter()
    with ThreadPoolExecutor(jobs) as pool:
        for tried in pool.map(outcomes, groups):
            _tell(tried)
            every.update(outcome in FOUND for _, outcome in tried)
            survive = {change for change, outcome in tried if outcome not in FOUND}
            for change in sorted(survive - reasons.keys()):
                click.echo(f"survives, and is not listed:\n{entry(change)}")
            survivors |= survive
    mutated = {str(path) for group in groups for path in group.paths()}
    for change in sorted(change for change in reasons.keys() - survivors if change.module in mutated):
        click.echo(f"is listed, and does not survive (any more):\n{entry(change)}")
    unlisted = survivors - reasons.keys()
    share = every[True] / every.total()
    click.echo(
        f"{every.total()} mutants, {every[True]} found ({share:.1%}), {every[False]} survive, "
        f"{len(unlisted)} of them not listed; {monotonic() - began:.0f} s"
    )
    sys.exit(1 if unlisted or share < LEAST_SHARE else 0)


def _tell(tried: Iterable[tuple[Change, str]]) -> None:
    """Print a line for each module."""
    modules: dict[str, Counter[bool]] = defaultdict(Counter)
    for change, outcome in tried:
        modules[change.module][outcome in FOUND] += 1
    for module, counts in sorted(modules.items()):
        found, total = counts[True], counts.total()
        click.echo(
            f"{module:<44}{total:>5} mutants{found:>6} found{counts[False]:>5} survive{found / total:>8.1%}"
        )


if __name__ == "__main__":
    main()
