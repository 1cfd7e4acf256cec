"""How many files and sockets this process may have open: as many as its owner allows, not as few as it was given.

A shell gives 1,024, which is fewer than MAX_CONNECTIONS. The soft limit is raised to the hard one at start; only when
that is not enough does the operator have to do something, and is told what.
"""

import resource

import structlog

BESIDE_CONNECTIONS = 128
"""Descriptors that are no connections: the database and its readers, log, lock, listeners, and bodies on their way that
are over 256 KiB (as many as BODIES_IN_FLIGHT_BYTES holds in the usual sizes)."""

log = structlog.get_logger("postroom")


def raise_limit() -> int | None:
    """Raise the soft limit to the hard one and return it, None when there is no limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        except (ValueError, OSError):  # macOS has a lower limit of its own below an unlimited hard one
            hard = soft
    return None if hard == resource.RLIM_INFINITY else hard


def check_limit(limit: int | None, max_connections: int) -> None:
    """Warn when the limit is too low for the connections that are allowed."""
    needed = max_connections + BESIDE_CONNECTIONS
    if limit is not None and limit < needed:
        log.warning(
            "too few descriptors for MAX_CONNECTIONS",
            max_connections=max_connections,
            descriptors=limit,
            advice=f"raise the limit (ulimit -Hn, LimitNOFILE) to {needed}, or lower MAX_CONNECTIONS",
        )
