"""How this process shares its two cores between the event loop and the storage threads, and when it collects garbage.

Measured (study, S6 and S7): with the default switch interval of 5 ms a commit of 1.6 ms takes 179 ms beside a busy
loop, because every return from SQLite waits for the loop to give up the interpreter; with 0.5 ms it takes 17 (and 5
with few statements). The cyclic collector stops the loop for 95 ms with 1,000 idle waits when it runs in full; our
requests make no cycles, so full runs are rare by threshold, and what lives since the start is frozen out of them.
"""

import gc
import sys

SWITCH_INTERVAL_SECONDS = 0.0005
"""How long a thread may hold the interpreter while another wants it."""

GC_THRESHOLDS = (20_000, 50, 1_000)
"""Allocations before a young collection, young ones before a middle one, middle ones before a full one."""


def tune_interpreter() -> None:
    """Set the switch interval and the collector's thresholds; called once, by the composition root."""
    sys.setswitchinterval(SWITCH_INTERVAL_SECONDS)
    gc.set_threshold(*GC_THRESHOLDS)


def freeze_start() -> None:
    """Move everything that the start has made out of the collector's sight; called once, when the server is ready."""
    gc.collect()
    gc.freeze()
