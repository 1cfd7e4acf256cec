"""The program `postroom`, also as `python -m postroom`: it loads the commands and runs one.

Nothing is imported here that takes time: until click and what all commands share are loaded, nothing has been
begun, and Ctrl-C ends the process with our own sentence in place of a trace from the middle of an import.
"""

import os
import signal
import time
from functools import partial
from types import FrameType

_BEGAN = time.monotonic()

EXIT_INTERRUPTED = 130
"""As `postroom.cli.program` has it, which is not loaded yet."""

SENTENCE = b"postroom: interrupted.\n"
STDERR = 2


def _end_at_once(number: int, frame: FrameType | None) -> None:
    os.write(STDERR, SENTENCE)
    os._exit(EXIT_INTERRUPTED)


def main() -> None:
    """Run the program and end the process with its exit code. Commands find in `obj` when it was started."""
    # Not where a shell that starts us in the background has SIGINT ignored.
    usual = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if usual:
        signal.signal(signal.SIGINT, _end_at_once)
    from postroom.cli.commands import program

    if usual:
        program.begins = partial(signal.signal, signal.SIGINT, signal.default_int_handler)
    program(prog_name="postroom", obj=_BEGAN)


if __name__ == "__main__":
    main()
