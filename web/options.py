"""The settings that the web layer needs, already parsed. `postroom.config` fills this in."""

import msgspec

from storage.records import Retention
from web.hosts import host_of, is_loopback

MIB = 1024 * 1024


class WebOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Limits and switches of the HTTP side; sizes in bytes, times in seconds.

    `max_streams` counts open waits and streams together, `max_streams_per_inbox` those on one inbox. `retention`: a new
    inbox gets it unless it is created with its own. `mcp_wait_keepalive_seconds`: None sends nothing before the answer.
    `allowed_origins` as `scheme://host[:port]`, `allowed_hosts` without ports; both beside those of `public_url`.
    `trusted_proxies` and `wake_allowed_cidrs` (empty: no wake-ups) as `web.addresses.network_of` returns them.
    `auth_failures_per_minute`: of one address, 0: any. `ui_idle_seconds`: a session of the page without a request ends
    then, `ui_session_seconds`: any.
    """

    bind: str = "127.0.0.1:8025"
    public_url: str | None = None
    read_api_enabled: bool = True
    max_body_bytes: int = 10 * MIB
    bodies_in_flight_bytes: int = 64 * MIB
    body_timeout_seconds: float = 30.0
    page_bytes: int = MIB
    message_bytes: int = 4 * MIB
    inline_body_bytes: int = 16_384
    header_bytes: int = 64 * 1024
    max_connections: int = 8192
    keep_alive_seconds: float = 75.0
    head_timeout_seconds: float = 10.0
    stalled_reader_seconds: float = 20.0
    shutdown_seconds: float = 10.0
    max_streams: int = 1024
    max_streams_per_inbox: int = 64
    mcp_enabled: bool = True
    mcp_read_only: bool = False
    mcp_empty_lists: bool = False
    mcp_wait_cap_seconds: float = 50.0
    mcp_wait_keepalive_seconds: float | None = None
    allowed_origins: tuple[str, ...] = ()
    allowed_hosts: tuple[str, ...] = ()
    trusted_proxies: tuple[str, ...] = ()
    auth_failures_per_minute: int = 30
    wake_allowed_cidrs: tuple[str, ...] = ()
    ui_enabled: bool = True
    ui_session_seconds: float = 12 * 3600.0
    ui_idle_seconds: float = 2 * 3600.0
    retention: Retention = Retention()

    @property
    def is_loopback(self) -> bool:
        """Whether the server can be reached from this machine only."""
        return is_loopback(host_of(self.bind) or "")


def adopt(options: WebOptions, new: WebOptions) -> None:
    """Let `options` say what `new` says, for everybody who holds it, in one synchronous step.

    The options are one object that all handlers share and read at the moment they need a value: they are frozen to the
    handlers, and changed here alone, when an operator asks for a reload.
    """
    for field in msgspec.structs.fields(WebOptions):
        msgspec.structs.force_setattr(options, field.name, getattr(new, field.name))
