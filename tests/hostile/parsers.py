"""Coverage-guided runs of one target, or of all: `python -m tests.hostile.parsers NAME SECONDS DIRECTORY`.

atheris never returns, so it has a process of its own, which is this one. Inputs that reach new code go into the
directory, and so does one that is a finding. Python 3.11 to 3.14, as atheris has wheels.
"""

import sys
from pathlib import Path

MAX_INPUT_BYTES = 4_096
ORDINARY_RUNS = 60_000
ORDINARY_SEED = 1
"""Without a time, so many inputs, the same ones each time: a suite is no place for chance."""

SLOW_INPUT_SECONDS = 5
"""An input that takes as long is a finding: no parser may be kept busy by what fits into a head."""


def main() -> None:
    """Run until the time is up (0), or something is found (not 0)."""
    import atheris

    name, seconds, directory = sys.argv[1], int(sys.argv[2]), Path(sys.argv[3])
    with atheris.instrument_imports(include=["web", "storage", "actors"]):
        from tests.hostile.everything import EVERYTHING, everything
        from tests.hostile.targets import CORPUS, TARGETS
    corpus = [] if name == EVERYTHING else [str(CORPUS / name)]
    atheris.Setup(
        [
            sys.argv[0],
            *(
                [f"-max_total_time={seconds}"]
                if seconds
                else [f"-runs={ORDINARY_RUNS}", f"-seed={ORDINARY_SEED}"]
            ),
            f"-max_len={MAX_INPUT_BYTES}",
            f"-timeout={SLOW_INPUT_SECONDS}",
            f"-artifact_prefix={directory}/found-",
            "-print_final_stats=1",
            str(directory),
            *corpus,
        ],
        everything if name == EVERYTHING else TARGETS[name],
    )
    atheris.Fuzz()


if __name__ == "__main__":
    main()
