"""How long each part of the suite may take, in seconds of test time, on two cores.

The key is the first directory below `tests/` (or `house` for the modules beside this one). A budget is a
promise to whoever waits for the suite: about three times what the part takes on a quiet machine, so that
only a real regression exceeds it. Raise one knowingly, with the reason in the commit.
"""

BUDGETS_SECONDS: dict[str, float] = {
    "house": 180,
    "storage": 120,
    "contract": 60,
    "actors": 60,
    "web": 120,
    "wire": 60,
    "fuzz": 180,
    "postroom": 180,
    "live": 480,
    "bench": 150,
    "packages": 150,
}

DEFAULT_SECONDS = 30.0
"""For a directory without an entry, until it gets one."""
