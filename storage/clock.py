"""The server's clock: µs since the Unix epoch. Whoever owns time in a test passes a clock of its own instead."""

import time


def wall_clock_us() -> int:
    """Return the time of day in µs since the Unix epoch."""
    return time.time_ns() // 1_000
