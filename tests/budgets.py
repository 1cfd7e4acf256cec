"""How long each part of the suite may take, in seconds of test time, on two cores.

The key is the first directory below `tests/` (or `house` for the modules beside this one). A budget is a
promise to whoever waits for the suite: about three times what the part takes on a quiet machine, where two
processes share the tests, so that only a real regression exceeds it. Raise one knowingly, with the reason in
the commit.
"""

BUDGETS_SECONDS: dict[str, float] = {
    "house": 240,
    "storage": 300,
    "contract": 150,
    "actors": 180,
    "web": 240,
    "wire": 150,
    "fuzz": 400,
    "postroom": 600,
    "live": 900,
    "bench": 300,
    "browser": 300,
    "packages": 240,
    "docs": 90,
    "simulation": 240,
    "security": 90,
    "hostile": 120,
    "floods": 60,
}

DEFAULT_SECONDS = 30.0
"""For a directory without an entry, until it gets one."""
