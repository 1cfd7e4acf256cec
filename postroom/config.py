"""The configuration: one frozen object, made once at start from file, environment and flags, in rising precedence.

It remembers where each value came from. A bad or unknown setting raises `ConfigError` with one sentence that
names the setting and its source; nothing starts with half a configuration.
"""

import difflib
import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

import msgspec

from actors.options import ActorOptions
from postroom.parsing import NOTHING
from postroom.settings import BY_KEY, CLIENT_VARIABLES, ENVIRONMENT_PREFIX, SETTINGS, Setting
from storage.options import StorageOptions
from storage.records import Retention
from storage.secret import SecretBytes
from web.hosts import host_of, is_loopback
from web.options import WebOptions

DEFAULT_ORIGIN = "default"
PROGRAM_ORIGIN = "program"
"""Of a setting that the program which embeds the server has given."""

# Kubernetes puts these into every container beside a Service called "postroom"; nobody set them on purpose.
_SERVICE_LINK = re.compile(r"SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT(_[0-9]+_(TCP|UDP)(_(PROTO|PORT|ADDR))?)?")


class ConfigError(Exception):
    """The configuration cannot be used. The message is one sentence for the person who wrote it."""


class Config(msgspec.Struct, frozen=True, kw_only=True):
    """Every setting, parsed; names carry their unit. `origins`: where each value came from."""

    data_dir: Path
    bind: str
    grpc_bind: str | None
    metrics_bind: str | None
    public_url: str | None
    admin_token: SecretBytes | None
    secret_key: SecretBytes | None
    read_api_enabled: bool
    allowed_hosts: tuple[str, ...] | None
    allowed_origins: tuple[str, ...] | None
    trusted_proxies: tuple[str, ...] | None
    auth_failures_per_minute: int
    ui_enabled: bool
    ui_session_seconds: float
    ui_idle_seconds: float
    log_format: str
    log_level: str
    max_connections: int
    header_bytes: int
    keep_alive_seconds: float
    head_timeout_seconds: float
    stalled_reader_seconds: float
    shutdown_seconds: float
    max_body_bytes: int
    bodies_in_flight_bytes: int
    body_timeout_seconds: float
    page_bytes: int
    message_bytes: int
    mcp_inline_body_bytes: int
    mcp_enabled: bool
    mcp_read_only: bool
    mcp_empty_lists: bool
    mcp_wait_cap_seconds: float
    mcp_wait_keepalive_seconds: float | None
    max_streams: int
    max_streams_per_inbox: int
    pull_max_batch: int
    beacons_per_agent: int
    beacon_terms: int
    route_recipients: int
    beacon_deliveries_per_day: int
    wake_allowed_cidrs: tuple[str, ...] | None
    max_concurrent_reads: int
    read_slot_timeout_seconds: float
    retention_max_age_seconds: int | None
    retention_max_messages: int | None
    retention_max_bytes: int | None
    max_data_bytes: int | None
    detect_copies: Literal["full", "counter"]
    wal_limit_bytes: int
    reserve_bytes: int
    origins: dict[str, str]

    @property
    def is_loopback(self) -> bool:
        """Whether the server can be reached from this machine only."""
        return is_loopback(host_of(self.bind) or "")

    @property
    def storage(self) -> StorageOptions:
        """What storage needs."""
        return StorageOptions(
            data_dir=self.data_dir,
            wal_limit_bytes=self.wal_limit_bytes,
            reserve_bytes=self.reserve_bytes,
            max_data_bytes=self.max_data_bytes,
            detect_copies=self.detect_copies,
            max_concurrent_reads=self.max_concurrent_reads,
            read_slot_timeout_seconds=self.read_slot_timeout_seconds,
            secret_key=self.secret_key,
        )

    @property
    def actors(self) -> ActorOptions:
        """What the actors need."""
        return ActorOptions(
            tail_body_bytes=self.mcp_inline_body_bytes,
            pull_max_batch=self.pull_max_batch,
            beacons_per_agent=self.beacons_per_agent,
            beacon_terms=self.beacon_terms,
            route_recipients=self.route_recipients,
            beacon_deliveries_per_day=self.beacon_deliveries_per_day,
        )

    @property
    def web(self) -> WebOptions:
        """What the web layer needs."""
        return WebOptions(
            bind=self.bind,
            public_url=self.public_url,
            read_api_enabled=self.read_api_enabled,
            max_body_bytes=self.max_body_bytes,
            bodies_in_flight_bytes=self.bodies_in_flight_bytes,
            body_timeout_seconds=self.body_timeout_seconds,
            page_bytes=self.page_bytes,
            message_bytes=self.message_bytes,
            inline_body_bytes=self.mcp_inline_body_bytes,
            header_bytes=self.header_bytes,
            max_connections=self.max_connections,
            keep_alive_seconds=self.keep_alive_seconds,
            head_timeout_seconds=self.head_timeout_seconds,
            stalled_reader_seconds=self.stalled_reader_seconds,
            shutdown_seconds=self.shutdown_seconds,
            max_streams=self.max_streams,
            max_streams_per_inbox=self.max_streams_per_inbox,
            mcp_enabled=self.mcp_enabled,
            mcp_read_only=self.mcp_read_only,
            mcp_empty_lists=self.mcp_empty_lists,
            mcp_wait_cap_seconds=self.mcp_wait_cap_seconds,
            mcp_wait_keepalive_seconds=self.mcp_wait_keepalive_seconds,
            allowed_origins=self.allowed_origins or (),
            allowed_hosts=self.allowed_hosts or (),
            trusted_proxies=self.trusted_proxies or (),
            auth_failures_per_minute=self.auth_failures_per_minute,
            wake_allowed_cidrs=self.wake_allowed_cidrs or (),
            ui_enabled=self.ui_enabled,
            ui_session_seconds=self.ui_session_seconds,
            ui_idle_seconds=self.ui_idle_seconds,
            retention=self.retention,
        )

    @property
    def retention(self) -> Retention:
        """The retention that a new inbox gets unless it is created with its own."""
        return Retention(
            max_age_seconds=self.retention_max_age_seconds,
            max_messages=self.retention_max_messages,
            max_bytes=self.retention_max_bytes,
        )


class _Given(msgspec.Struct, frozen=True):
    """One value as a source gave it. `called` is the setting's name in that source's own spelling."""

    key: str
    called: str
    value: Any
    origin: str


def load(
    *,
    file: Path | None = None,
    environment: Mapping[str, str] | None = None,
    flags: Mapping[str, str | None] | None = None,
    settings: Mapping[str, Any] | None = None,
) -> Config:
    """Return the configuration. `flags` maps keys (`data_dir`) to text, None where the flag was not given; `settings`
    maps them to values, as a program gives them: text, numbers, booleans, lists, paths, and None for what is off.

    Raises `ConfigError`.
    """
    values = {setting.key: setting.default for setting in SETTINGS}
    origins = dict.fromkeys(values, DEFAULT_ORIGIN)
    for given in (
        *_from_file(file),
        *_from_environment(environment or {}),
        *_from_flags(flags or {}),
        *_from_program(settings or {}),
    ):
        setting = BY_KEY.get(given.key)
        if setting is None:
            raise ConfigError(_unknown(given))
        values[given.key] = _parse(setting, given)
        origins[given.key] = given.origin
    config = Config(**values, origins=origins)
    check_together(config)
    return config


def _from_file(file: Path | None) -> Iterator[_Given]:
    if file is None:
        return
    try:
        document = tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"Cannot read the configuration file {file}: {error.strerror}.") from error
    except ValueError as error:  # UnicodeDecodeError and TOMLDecodeError
        raise ConfigError(f"The configuration file {file} is not valid TOML: {error}.") from error
    for key, value in document.items():
        yield _Given(key, key, value, f"file {file}")


def _from_environment(environment: Mapping[str, str]) -> Iterator[_Given]:
    for variable in sorted(environment):
        if not variable.startswith(ENVIRONMENT_PREFIX):
            continue
        name = variable.removeprefix(ENVIRONMENT_PREFIX)
        if name in CLIENT_VARIABLES or _SERVICE_LINK.fullmatch(name):
            continue
        # The case is part of a variable's name: POSTROOM_bind must not pass as POSTROOM_BIND.
        key = name.lower() if name == name.upper() else variable
        yield _Given(key, variable, environment[variable], f"environment {variable}")


def _from_flags(flags: Mapping[str, str | None]) -> Iterator[_Given]:
    for key, value in flags.items():
        if value is not None:
            flag = "--" + key.replace("_", "-")
            yield _Given(key, flag, value, f"flag {flag}")


def _from_program(settings: Mapping[str, Any]) -> Iterator[_Given]:
    for key, value in settings.items():
        text = NOTHING if value is None else str(value) if isinstance(value, Path) else value
        yield _Given(key, key, list(text) if isinstance(text, tuple) else text, PROGRAM_ORIGIN)


def _parse(setting: Setting, given: _Given) -> Any:
    try:
        return setting.kind.parse(given.value)
    except ValueError as error:
        where = f" (in {given.origin.removeprefix('file ')})" if given.origin.startswith("file ") else ""
        raise ConfigError(f"{given.called}{where} {error}.") from None


def _unknown(given: _Given) -> str:
    near = difflib.get_close_matches(given.key, BY_KEY, n=1, cutoff=0.75)
    hint = ""
    if near:
        setting = BY_KEY[near[0]]
        name = setting.variable if given.origin.startswith("environment") else setting.key
        hint = f"; did you mean {name}?"
    return f"{given.called} ({given.origin}) is not a setting of this version{hint or '.'}"


def check_together(config: Config) -> None:
    """Refuse values that are each fine and cannot work together."""
    if config.reserve_bytes < 2 * config.wal_limit_bytes:
        raise ConfigError(
            f"RESERVE_BYTES ({config.reserve_bytes}) must be at least twice WAL_LIMIT_BYTES "
            f"({config.wal_limit_bytes}), or a full disk could not be recovered from."
        )
    # Up to a quarter of it is kept for small bodies (web/limits.py); the rest must hold one of the largest.
    if config.bodies_in_flight_bytes < 2 * config.max_body_bytes:
        raise ConfigError(
            f"BODIES_IN_FLIGHT_BYTES ({config.bodies_in_flight_bytes}) must be at least twice MAX_BODY_BYTES "
            f"({config.max_body_bytes}), or one large body could stop all others."
        )
