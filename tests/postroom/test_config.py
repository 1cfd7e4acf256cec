"""Where settings come from, which source wins, and the one sentence that stops a start."""

from pathlib import Path

import msgspec
import pytest

from postroom.config import Config, ConfigError, load
from postroom.parsing import readable
from postroom.settings import MAX_ADMIN_TOKEN_CHARACTERS, SETTINGS, Setting
from storage.options import StorageOptions
from storage.secret import SecretBytes
from web.auth import MAX_TOKEN_BYTES
from web.options import WebOptions

GIVEN_TOKEN = "t" * 40
GIVEN_KEY = "k" * 32


def write(folder: Path, text: str) -> Path:
    file = folder / "postroom.toml"
    file.write_text(text)
    return file


def test_the_object_has_exactly_the_settings_of_the_table() -> None:
    fields = {field.name for field in msgspec.structs.fields(Config)}
    assert fields == {setting.key for setting in SETTINGS} | {"origins"}


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: setting.name)
def test_a_default_is_a_value_that_could_be_given(setting: Setting) -> None:
    assert setting.kind.parse(readable(setting.default, setting.kind.unit)) == setting.default
    assert setting.reason.endswith(".")
    assert "\n" not in setting.reason


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: setting.name)
def test_a_name_carries_its_unit(setting: Setting) -> None:
    if setting.kind.unit in ("bytes", "seconds"):
        assert setting.name.endswith(f"_{setting.kind.unit.upper()}")


def test_the_longest_admin_token_is_the_longest_that_is_let_in() -> None:
    assert MAX_ADMIN_TOKEN_CHARACTERS == MAX_TOKEN_BYTES


def test_without_any_source_everything_is_default() -> None:
    config = load()
    assert config.bind == "127.0.0.1:8025"
    assert set(config.origins.values()) == {"default"}


def test_a_flag_wins_over_the_environment_and_that_over_the_file(tmp_path: Path) -> None:
    file = write(tmp_path, 'bind = "127.0.0.1:1"\nlog_level = "error"\nmax_connections = 7\n')
    environment = {"POSTROOM_BIND": "127.0.0.1:2", "POSTROOM_LOG_LEVEL": "warning"}
    config = load(file=file, environment=environment, flags={"bind": "127.0.0.1:3", "data_dir": None})
    assert (config.bind, config.log_level, config.max_connections) == ("127.0.0.1:3", "warning", 7)
    assert config.origins["bind"] == "flag --bind"
    assert config.origins["log_level"] == "environment POSTROOM_LOG_LEVEL"
    assert config.origins["max_connections"] == f"file {file}"
    assert config.origins["data_dir"] == "default"


@pytest.mark.parametrize(
    ("environment", "sentence"),
    [
        (
            {"POSTROOM_MAX_BODY_BYTES": "lots"},
            "POSTROOM_MAX_BODY_BYTES must be a size from 1 byte to 1 GiB, in bytes or with KiB, MiB, GiB or TiB, "
            "not 'lots'.",
        ),
        (
            {"POSTROOM_TRUSTED_PROXIES": "::1, 10.0.0.1/8, 10.1.0.0/16"},
            "POSTROOM_TRUSTED_PROXIES must be an address, or a network such as 10.0.0.0/8 or fd00::/8 with zero host "
            "bits, or several with commas between, not '10.0.0.1/8'.",
        ),
        ({"POSTROOM_LOG_LEVEL": ""}, "POSTROOM_LOG_LEVEL must be debug, info, warning or error, not ''."),
        (
            {"POSTROOM_MAX_BODY_BYTE": "1"},
            "POSTROOM_MAX_BODY_BYTE (environment POSTROOM_MAX_BODY_BYTE) is not a setting of this version; "
            "did you mean POSTROOM_MAX_BODY_BYTES?",
        ),
        (
            {"POSTROOM_TELEMETRY": "127.0.0.1:1"},
            "POSTROOM_TELEMETRY (environment POSTROOM_TELEMETRY) is not a setting of this version.",
        ),
    ],
)
def test_one_sentence_names_what_is_wrong_in_the_environment(
    environment: dict[str, str], sentence: str
) -> None:
    with pytest.raises(ConfigError) as refusal:
        load(environment=environment)
    assert str(refusal.value) == sentence


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("colour = 1", "colour (file {file}) is not a setting of this version."),
        ("BIND = '127.0.0.1:1'", "BIND (file {file}) is not a setting of this version."),
        ("[retention]\nmax_bytes = 1", "retention (file {file}) is not a setting of this version."),
        (
            "max_connections = true",
            "max_connections (in {file}) must be a whole number from 1 to 1,000,000, not True.",
        ),
        ("bind = [", "The configuration file {file} is not valid TOML: "),
    ],
)
def test_one_sentence_names_what_is_wrong_in_the_file(tmp_path: Path, text: str, expected: str) -> None:
    file = write(tmp_path, text)
    with pytest.raises(ConfigError) as refusal:
        load(file=file)
    assert str(refusal.value).startswith(expected.format(file=file))


def test_a_missing_file_is_said_by_name(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"nowhere\.toml: No such file or directory\.$"):
        load(file=tmp_path / "nowhere.toml")


def test_variables_of_the_clients_and_of_kubernetes_are_passed_over() -> None:
    environment = {
        "POSTROOM_URL": "http://127.0.0.1:8025",
        "POSTROOM_TOKEN": "prm_agent_x",
        "POSTROOM_PORT": "tcp://10.0.0.1:8025",
        "POSTROOM_PORT_8025_TCP_ADDR": "10.0.0.1",
        "POSTROOM_SERVICE_HOST": "10.0.0.1",
        "POSTROOM_SERVICE_PORT_HTTP": "8025",
        "PATH": "/bin",
    }
    assert set(load(environment=environment).origins.values()) == {"default"}


def test_a_variable_in_another_case_is_another_variable() -> None:
    with pytest.raises(ConfigError, match="POSTROOM_bind"):
        load(environment={"POSTROOM_bind": "127.0.0.1:1"})


def test_the_reserve_must_be_twice_the_write_ahead_log() -> None:
    with pytest.raises(ConfigError, match="twice WAL_LIMIT_BYTES"):
        load(environment={"POSTROOM_WAL_LIMIT_BYTES": "64MiB"})


def test_the_largest_body_must_fit_into_what_may_be_in_flight() -> None:
    with pytest.raises(ConfigError, match="BODIES_IN_FLIGHT_BYTES"):
        load(environment={"POSTROOM_MAX_BODY_BYTES": "100MiB"})


def test_the_admin_token_is_in_no_text_of_the_configuration() -> None:
    config = load(environment={"POSTROOM_ADMIN_TOKEN": GIVEN_TOKEN})
    assert GIVEN_TOKEN not in repr(config)
    assert config.admin_token is not None
    assert config.admin_token.matches(GIVEN_TOKEN.encode())


def test_the_secret_key_is_in_no_text_of_the_configuration() -> None:
    config = load(environment={"POSTROOM_SECRET_KEY": GIVEN_KEY})
    assert GIVEN_KEY not in repr(config) + repr(config.storage)
    assert config.storage.secret_key is not None
    assert config.storage.secret_key.matches(GIVEN_KEY.encode())


@pytest.mark.parametrize("key", ["k" * 31, "k" * 513, "k" * 20 + " " + "k" * 20, "k" * 31 + "ü", ""])
def test_a_secret_key_that_cannot_be_one_is_refused_and_not_repeated(key: str) -> None:
    with pytest.raises(ConfigError) as refusal:
        load(environment={"POSTROOM_SECRET_KEY": key})
    assert str(refusal.value) == (
        "POSTROOM_SECRET_KEY must be 32 to 512 printable ASCII characters without spaces."
    )


@pytest.mark.parametrize(
    ("bind", "loopback"),
    [
        ("127.0.0.1:8025", True),
        ("127.9.9.9:1", True),
        ("[::1]:8025", True),
        ("localhost:8025", True),
        ("0.0.0.0:8025", False),
        ("[::]:8025", False),
        ("hooks.example.org:80", False),
    ],
)
def test_loopback_is_recognised(bind: str, loopback: bool) -> None:
    assert load(flags={"bind": bind}).is_loopback is loopback


@pytest.mark.parametrize(
    ("given", "address"),
    [("9464", "127.0.0.1:9464"), ("[::]:9464", "[::]:9464"), ("metrics.internal:1", "metrics.internal:1")],
)
def test_the_metrics_are_on_the_loopback_unless_a_host_is_named(given: str, address: str) -> None:
    assert load(flags={"metrics_bind": given}).metrics_bind == address


@pytest.mark.parametrize("given", ["99999", "0x1", ":9464", "true", "9464 "])
def test_what_is_no_address_for_the_metrics_is_refused(given: str) -> None:
    with pytest.raises(ConfigError, match=r"METRICS.BIND|metrics.bind"):
        load(environment={"POSTROOM_METRICS_BIND": given})


OTHER_VALUES = {
    "DATA_DIR": "/elsewhere",
    "BIND": "127.0.0.1:1",
    "GRPC_BIND": "127.0.0.1:2",
    "METRICS_BIND": "3",
    "PUBLIC_URL": "https://hooks.example.org",
    "ADMIN_TOKEN": GIVEN_TOKEN,
    "SECRET_KEY": GIVEN_KEY,
    "READ_API_ENABLED": "false",
    "ALLOWED_HOSTS": "hooks.internal, 10.0.0.7",
    "ALLOWED_ORIGINS": "https://console.example.org",
    "TRUSTED_PROXIES": "10.0.0.0/8, ::1",
    "AUTH_FAILURES_PER_MINUTE": "9",
    "UI_ENABLED": "false",
    "UI_SESSION_SECONDS": "99",
    "UI_IDLE_SECONDS": "98",
    "LOG_FORMAT": "json",
    "LOG_LEVEL": "error",
    "MAX_CONNECTIONS": "9",
    "HEADER_BYTES": "32KiB",
    "KEEP_ALIVE_SECONDS": "9",
    "HEAD_TIMEOUT_SECONDS": "5",
    "STALLED_READER_SECONDS": "9",
    "SHUTDOWN_SECONDS": "9",
    "MAX_BODY_BYTES": "1MiB",
    "BODIES_IN_FLIGHT_BYTES": "9MiB",
    "BODY_TIMEOUT_SECONDS": "9",
    "PAGE_BYTES": "2MiB",
    "MESSAGE_BYTES": "9MiB",
    "MCP_INLINE_BODY_BYTES": "1024",
    "MCP_ENABLED": "false",
    "MCP_READ_ONLY": "true",
    "MCP_EMPTY_LISTS": "true",
    "MCP_WAIT_CAP_SECONDS": "9",
    "MCP_WAIT_KEEPALIVE_SECONDS": "9",
    "MAX_STREAMS": "9",
    "MAX_STREAMS_PER_INBOX": "9",
    "PULL_MAX_BATCH": "9",
    "MAX_CONCURRENT_READS": "9",
    "READ_SLOT_TIMEOUT_SECONDS": "9",
    "BEACONS_PER_AGENT": "9",
    "BEACON_TERMS": "9",
    "ROUTE_RECIPIENTS": "9",
    "BEACON_DELIVERIES_PER_DAY": "9",
    "WAKE_ALLOWED_CIDRS": "10.1.0.0/16",
    "RETENTION_MAX_AGE_SECONDS": "9",
    "RETENTION_MAX_MESSAGES": "9",
    "RETENTION_MAX_BYTES": "none",
    "MAX_DATA_BYTES": "99MiB",
    "DETECT_COPIES": "counter",
    "WAL_LIMIT_BYTES": "4MiB",
    "RESERVE_BYTES": "9MiB",
}


def other_values() -> Config:
    return load(environment={f"POSTROOM_{name}": value for name, value in OTHER_VALUES.items()})


def test_every_setting_can_be_set_from_the_environment() -> None:
    config = other_values()
    assert [s.name for s in SETTINGS if not s.is_secret and getattr(config, s.key) == s.default] == []
    assert set(OTHER_VALUES) == {setting.name for setting in SETTINGS}


def test_each_layer_gets_everything_that_was_configured() -> None:
    """A field of a layer's options that still has its default is one that nobody can set."""
    config, plain = other_values(), load()
    for options, defaults in ((config.web, plain.web), (config.storage, plain.storage)):
        for field in msgspec.structs.fields(type(options)):
            given, default = getattr(options, field.name), getattr(defaults, field.name)
            assert isinstance(given, SecretBytes) or given != default, field.name


def test_the_layers_and_the_table_agree_on_the_defaults() -> None:
    config = load()
    assert config.web == WebOptions(retention=config.retention)
    assert config.storage == StorageOptions(data_dir=config.data_dir)
