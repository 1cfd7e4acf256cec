"""The table of settings: every limit and switch of the server, with its unit, default, bounds and reason.

This table is the only place where a setting is declared. The configuration object, the flags of `serve`,
the output of `postroom config` and the table in `docs/settings.md` are all made from it (tests compare them). A
setting is listed here from the day its feature exists; a name that is not listed stops the start.
"""

from pathlib import Path
from typing import Any

import msgspec

from postroom.parsing import (
    GIB,
    KIB,
    MIB,
    TIB,
    Kind,
    address,
    choice,
    host,
    local_address,
    network,
    optional,
    origin,
    path,
    seconds,
    secret,
    several,
    size,
    switch,
    url,
    whole,
)

ENVIRONMENT_PREFIX = "POSTROOM_"

CLIENT_VARIABLES = frozenset({"URL", "TOKEN", "AGENT", "SESSION"})
"""`POSTROOM_URL` and its like belong to the client commands; the server passes over them."""

MIN_ADMIN_TOKEN_CHARACTERS = 32
MAX_ADMIN_TOKEN_CHARACTERS = 512
"""`web.auth` refuses longer credentials unread. Not imported from there: every command would load trio for it."""

MIN_SECRET_KEY_CHARACTERS = 32
"""What `openssl rand -hex 16` prints: 128 bits."""
MAX_SECRET_KEY_CHARACTERS = 512

DAY_SECONDS = 86_400
CENTURY_SECONDS = 100 * 365 * DAY_SECONDS


class Setting(msgspec.Struct, frozen=True):
    """One setting. `reason` is one line: what it bounds and why the default is what it is. `reloads`: SIGHUP brings a
    new value into force; the others need a restart.
    """

    name: str
    kind: Kind
    default: Any
    reason: str
    is_secret: bool = False
    reloads: bool = False

    @property
    def key(self) -> str:
        """The name in the TOML file and in the configuration object."""
        return self.name.lower()

    @property
    def flag(self) -> str | None:
        """The flag of `serve`; secrets have none, because a command line is visible to every user."""
        return None if self.is_secret else "--" + self.key.replace("_", "-")

    @property
    def variable(self) -> str:
        """The environment variable."""
        return ENVIRONMENT_PREFIX + self.name


SETTINGS: tuple[Setting, ...] = (
    # -- where ------------------------------------------------------------------------------------------
    Setting(
        "DATA_DIR", path(), Path("./postroom-data"), "Database, lock and reserve file; back up all of it."
    ),
    Setting("BIND", address(), "127.0.0.1:8025", "Loopback, because the server itself speaks no TLS."),
    Setting(
        "GRPC_BIND",
        optional(address()),
        None,
        "PullInbox over gRPC, on a port of its own, without TLS as well; 4 MiB of memory.",
    ),
    Setting(
        "METRICS_BIND",
        optional(local_address()),
        None,
        "Port of its own for /metrics, without a token; else it is on BIND, for the admin token.",
    ),
    Setting("PUBLIC_URL", optional(url()), None, "How senders reach this server; signed by some providers."),
    Setting(
        "ADMIN_TOKEN",
        optional(secret(MIN_ADMIN_TOKEN_CHARACTERS, MAX_ADMIN_TOKEN_CHARACTERS)),
        None,
        "Admin token of a new data directory; without it one is made and printed once.",
        is_secret=True,
    ),
    Setting(
        "SECRET_KEY",
        optional(secret(MIN_SECRET_KEY_CHARACTERS, MAX_SECRET_KEY_CHARACTERS)),
        None,
        "Seals the secrets of inboxes in the database and in backups; without it they are plain.",
        is_secret=True,
    ),
    Setting("READ_API_ENABLED", switch(), True, "False leaves ingest and administration only."),
    Setting(
        "ALLOWED_HOSTS",
        optional(several(host())),
        None,
        "On loopback /mcp takes loopback names and PUBLIC_URL's host only (DNS rebinding); these as well.",
        reloads=True,
    ),
    Setting(
        "ALLOWED_ORIGINS",
        optional(several(origin())),
        None,
        "Web pages whose scripts may call /mcp, beside those of PUBLIC_URL and, on loopback, loopback.",
        reloads=True,
    ),
    Setting(
        "TRUSTED_PROXIES",
        optional(several(network())),
        None,
        "Proxies before this server, believed about their clients (X-Forwarded-For, Forwarded).",
        reloads=True,
    ),
    Setting(
        "AUTH_FAILURES_PER_MINUTE",
        whole("wrong tokens", 0, 1_000_000),
        30,
        "Wrong tokens from one address (IPv6: one /64); more are 429, a valid one never is. 0: no limit.",
        reloads=True,
    ),
    Setting("UI_ENABLED", switch(), True, "The web page at /ui; false answers 404 there.", reloads=True),
    Setting(
        "UI_SESSION_SECONDS",
        seconds(60, 30 * DAY_SECONDS),
        12 * 3600.0,
        "Signed in to the page for so long at most: a working day.",
        reloads=True,
    ),
    Setting(
        "UI_IDLE_SECONDS",
        seconds(60, 30 * DAY_SECONDS),
        2 * 3600.0,
        "Signed out of the page after so long without a click.",
        reloads=True,
    ),
    # -- logs -------------------------------------------------------------------------------------------
    Setting(
        "LOG_FORMAT",
        choice("console", "json"),
        "console",
        "Lines for people, or JSON for a collector.",
        reloads=True,
    ),
    Setting(
        "LOG_LEVEL",
        choice("debug", "info", "warning", "error"),
        "info",
        "Only debug has a line for each request.",
        reloads=True,
    ),
    # -- connections ------------------------------------------------------------------------------------
    Setting(
        "MAX_CONNECTIONS",
        whole("connections", 1, 1_000_000),
        8192,
        "About 24 KiB of memory for each.",
        reloads=True,
    ),
    Setting("HEADER_BYTES", size(8 * KIB, MIB), 64 * KIB, "Head of one request; more is answered 431."),
    Setting(
        "KEEP_ALIVE_SECONDS",
        seconds(1, 3600),
        75.0,
        "Idle connections; over the 60 s of most proxies.",
        reloads=True,
    ),
    Setting(
        "HEAD_TIMEOUT_SECONDS",
        seconds(1, 3600),
        10.0,
        "From the connection, or a later head's first byte, to its end.",
        reloads=True,
    ),
    Setting("STALLED_READER_SECONDS", seconds(1, 3600), 20.0, "A client that stops reading is cut off then."),
    Setting(
        "SHUTDOWN_SECONDS",
        seconds(1, 300),
        10.0,
        "A stopping server ends by then, whatever hangs; no grace period: requests under way get 1 s.",
        reloads=True,
    ),
    # -- ingest -----------------------------------------------------------------------------------------
    Setting(
        "MAX_BODY_BYTES",
        size(1, GIB),
        10 * MIB,
        "One body; an inbox may ask for less. More is 413.",
        reloads=True,
    ),
    Setting(
        "BODIES_IN_FLIGHT_BYTES",
        size(MIB, 64 * GIB),
        64 * MIB,
        "All bodies being received; more is 503.",
        reloads=True,
    ),
    Setting(
        "BODY_TIMEOUT_SECONDS",
        seconds(1, 3600),
        30.0,
        "From the head to the last byte; later is 408.",
        reloads=True,
    ),
    # -- reading ----------------------------------------------------------------------------------------
    Setting(
        "PAGE_BYTES",
        size(16 * KIB, 64 * MIB),
        MIB,
        "One page as sent; at least one message is in it.",
        reloads=True,
    ),
    Setting(
        "MESSAGE_BYTES",
        size(16 * KIB, GIB),
        4 * MIB,
        "One message as sent; /raw has no such bound.",
        reloads=True,
    ),
    Setting(
        "MCP_INLINE_BODY_BYTES",
        size(0, 64 * KIB),
        16 * KIB,
        "Larger bodies are left out of pages; agents pay for every byte.",
        reloads=True,
    ),
    Setting("MCP_ENABLED", switch(), True, "False: /mcp answers 404; the read API stays on.", reloads=True),
    Setting(
        "MCP_READ_ONLY",
        switch(),
        False,
        "True hides every tool that changes something, whatever the token.",
        reloads=True,
    ),
    Setting(
        "MCP_EMPTY_LISTS",
        switch(),
        False,
        "True answers the lists of resources and prompts with empty ones, for clients that insist.",
        reloads=True,
    ),
    Setting(
        "MCP_WAIT_CAP_SECONDS",
        seconds(1, 60),
        50.0,
        "Longest wait over MCP: several clients and proxies cut a call at 60 s.",
        reloads=True,
    ),
    Setting(
        "MCP_WAIT_KEEPALIVE_SECONDS",
        optional(seconds(1, 60)),
        None,
        "A newline so often before the answer of a wait over MCP, where a proxy closes quiet connections.",
        reloads=True,
    ),
    Setting(
        "MAX_STREAMS",
        whole("waits and streams", 1, 1_000_000),
        1024,
        "Open at once; more is 429.",
        reloads=True,
    ),
    Setting(
        "MAX_STREAMS_PER_INBOX",
        whole("waits and streams", 1, 1_000_000),
        64,
        "Open at once on one inbox.",
        reloads=True,
    ),
    Setting(
        "PULL_MAX_BATCH",
        whole("deliveries", 1, 1000),
        100,
        "Looked at by one pull of an agent's inbox; a smaller limit of the call counts, a larger does not.",
        reloads=True,
    ),
    Setting(
        "MAX_CONCURRENT_READS", whole("reads", 1, 1024), 16, "Each may hold a page of PAGE_BYTES in memory."
    ),
    Setting("READ_SLOT_TIMEOUT_SECONDS", seconds(0.1, 60), 10.0, "Waiting for a free read; later is 503."),
    # -- routing ----------------------------------------------------------------------------------------
    Setting(
        "BEACONS_PER_AGENT",
        whole("beacons", 1, 10_000),
        100,
        "In force at a time; every message is matched against all of them.",
    ),
    Setting(
        "BEACON_TERMS",
        whole("words", 1, 1_000),
        32,
        "Words of one beacon that count, the first ones: half of them must be in a message.",
    ),
    Setting(
        "ROUTE_RECIPIENTS",
        whole("agents", 1, 100_000),
        1_000,
        "Reached by one message, named by its sender or by their beacons, the best matches first.",
    ),
    Setting(
        "BEACON_DELIVERIES_PER_DAY",
        whole("deliveries", 1, 1_000_000),
        500,
        "Brought by one beacon in a UTC day; what is over is counted, not delivered.",
    ),
    Setting(
        "WAKE_ALLOWED_CIDRS",
        optional(several(network())),
        None,
        "Addresses that agents may have wake-ups sent to; no request goes anywhere else. None: no wake-ups.",
        reloads=True,
    ),
    # -- retention of new inboxes -----------------------------------------------------------------------
    Setting(
        "RETENTION_MAX_AGE_SECONDS",
        optional(whole("seconds", 1, CENTURY_SECONDS)),
        30 * DAY_SECONDS,
        "Default of new inboxes: 30 days outlive every provider's retries.",
        reloads=True,
    ),
    Setting(
        "RETENTION_MAX_MESSAGES",
        optional(whole("messages", 1, 10**12)),
        1_000_000,
        "Default of new inboxes: bounds the rows of one inbox.",
        reloads=True,
    ),
    Setting(
        "RETENTION_MAX_BYTES",
        optional(size(1, 1024 * TIB)),
        GIB,
        "Default of new inboxes: bounds the bodies of one inbox.",
        reloads=True,
    ),
    # -- disk -------------------------------------------------------------------------------------------
    Setting(
        "MAX_DATA_BYTES",
        optional(size(MIB, 1024 * TIB)),
        None,
        "Size of the database at which ingest says 507.",
    ),
    Setting(
        "DETECT_COPIES",
        choice("full", "counter"),
        "full",
        "How a copied data directory is found out; counter where inodes change by themselves.",
    ),
    Setting("WAL_LIMIT_BYTES", size(MIB, GIB), 16 * MIB, "The write-ahead log shrinks back to this size."),
    Setting(
        "RESERVE_BYTES",
        size(2 * MIB, 4 * GIB),
        32 * MIB,
        "Given up when the disk is full, so that deleting can begin; twice WAL_LIMIT_BYTES.",
    ),
)

BY_KEY: dict[str, Setting] = {setting.key: setting for setting in SETTINGS}
