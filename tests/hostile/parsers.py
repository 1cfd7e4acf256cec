"""Coverage-guided runs, one target after the other: `python -m tests.hostile.parsers SECONDS DIRECTORY [NAME …]`.

Each target has a share of the time, and a process of its own, since atheris never returns. All are forked from one,
because making the code tell of its branches takes longer than a short run. Inputs that reach new code go into
`DIRECTORY/NAME/`, and so does one that is a finding. Python 3.11 to 3.14, as atheris has wheels.

A target is tried by itself: inputs for all of them in one pool, with a byte that says which, found in a million
executions less than two thousand find here.
"""

import os
import sys
from pathlib import Path

MAX_INPUT_BYTES = 4_096
ORDINARY_RUNS = 3_000
ORDINARY_SEED = 1
"""Without a time, so many inputs of each target, the same ones each time: a suite is no place for chance."""

SLOW_INPUT_SECONDS = 5
"""An input that takes as long is a finding: no parser may be kept busy by what fits into a head."""


def main() -> None:
    """Run until the time is up (0), or a target has found something (1): the others have their turn all the same."""
    import atheris

    seconds, directory, names = int(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:]
    with atheris.instrument_imports(include=["web", "storage", "actors"]):
        from tests.hostile.targets import CORPUS, TARGETS
    names = names or list(TARGETS)
    share = max(1, seconds // len(names))
    how = [f"-max_total_time={share}"] if seconds else [f"-runs={ORDINARY_RUNS}", f"-seed={ORDINARY_SEED}"]
    failed = False
    for name in names:
        own = directory / name
        own.mkdir(exist_ok=True)
        child = os.fork()
        if child == 0:
            flags = [f"-max_len={MAX_INPUT_BYTES}", f"-timeout={SLOW_INPUT_SECONDS}", "-print_final_stats=1"]
            places = [f"-artifact_prefix={own}/found-", str(own), str(CORPUS / name)]
            atheris.Setup([sys.argv[0], *how, *flags, *places], TARGETS[name])
            atheris.Fuzz()
            os._exit(0)
        failed |= os.waitpid(child, 0)[1] != 0
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
