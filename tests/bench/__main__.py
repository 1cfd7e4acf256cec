"""`python -m tests.bench`: run the cases, show the table, write `bench-results.json`."""

import signal
import sys
from pathlib import Path
from types import FrameType

import click
import msgspec
from rich.console import Console

from tests.bench.cases import CASES
from tests.bench.details import merged, read, results_of, write
from tests.bench.figures import Figure
from tests.bench.harness import FULL, QUICK, Bench, LoadFailed
from tests.bench.machine import describe, disk_directory
from tests.bench.processes import ServerFailed
from tests.bench.report import all_met, as_table, doubtful
from tests.bench.subject import NotWhatItSays

EXIT_FAILED = 1
EXIT_GOAL_MISSED = 3
EXIT_INTERRUPTED = 130


@click.command()
@click.option("--quick", is_flag=True, help="Fewer and shorter rounds: a rough idea in a few seconds.")
@click.option(
    "--only", multiple=True, type=click.Choice(sorted(CASES)), help="Run this case only; repeatable."
)
@click.option("--strict", is_flag=True, help=f"Exit with {EXIT_GOAL_MISSED} when a goal is missed.")
@click.option("--rounds", type=click.IntRange(1), help="Rounds of each case, instead of the usual number.")
@click.option(
    "--directory",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Where data directories are made; the first usual place on a disk unless given.",
)
@click.option(
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    default=Path("bench-results.json"),
    show_default=True,
    help="Where the figures go; their details go beside them.",
)
@click.option("--keep", is_flag=True, help="Keep the figures of other cases that the output has.")
def main(
    quick: bool,
    only: tuple[str, ...],
    strict: bool,
    rounds: int | None,
    directory: Path | None,
    output: Path,
    keep: bool,
) -> None:
    """Measure Postroom against what it stands on, as ratios within one run."""
    signal.signal(signal.SIGTERM, _end)
    console = Console()
    where = disk_directory(directory)
    effort = QUICK if quick else FULL
    if rounds is not None:
        effort = msgspec.structs.replace(effort, rounds=rounds, long_rounds=rounds)
    bench = Bench(effort, where, console)
    machine = describe(where)
    for line in machine:
        console.print(line, style="dim", highlight=False, soft_wrap=True)
    figures: list[Figure] = []
    failed: list[str] = []
    try:
        for name, measure in CASES.items():
            if only and name not in only:
                continue
            bench.begin(name)
            try:
                figures += measure(bench)
            except (
                ServerFailed,
                LoadFailed,
                NotWhatItSays,
            ) as error:  # half an hour of others is not lost by it
                failed.append(name)
                console.print(f"[red]bench, {name}:[/] {error}", highlight=False)
                for note in getattr(error, "__notes__", ()):
                    console.print(note, style="dim", highlight=False, soft_wrap=True)
    except KeyboardInterrupt:
        console.print("bench: interrupted; no figures were written.")
        sys.exit(EXIT_INTERRUPTED)
    if failed and not figures:
        sys.exit(EXIT_FAILED)
    console.print(as_table(figures))
    results = results_of(figures, machine, bench.notes, bench.series)
    if keep and output.exists():
        results = merged(read(output), results)
    write(results, output)
    for name in doubtful(figures):
        console.print(
            f"The rounds of {name} disagree: the machine was busy with something else; run it again."
        )
    console.print(f"Written to {output}.")
    if failed:
        console.print(f"[red]Without figures, because they failed:[/] {', '.join(failed)}", highlight=False)
        sys.exit(EXIT_FAILED)
    if strict and not all_met(figures):
        sys.exit(EXIT_GOAL_MISSED)


def _end(number: int, frame: FrameType | None) -> None:
    """Let SIGTERM unwind like ctrl-C, so that servers and directories go."""
    raise KeyboardInterrupt


if __name__ == "__main__":
    main()
