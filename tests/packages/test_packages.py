"""The packages as their users get them: built, installed away from this checkout, and tried.

The wheel is installed with pip into an empty environment, and the tests of whole servers (`tests/live/`) then start
that one: some of them here, all of them in `make soak` (`--whole-wheel`).
"""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.packages.building import ROOT, build, contents, copy_tree, unpacked
from tests.program import VARIABLE

INSTALL_SECONDS = 180
"""For one installation, with everything to be fetched on a slow line."""
LIVE_SECONDS = 120
WHOLE_LIVE_SECONDS = 1800

PAGE = ROOT / "docs" / "install.md"

OPTIONAL = ("opentelemetry",)
"""What a module may need that is not installed with the package: it is loaded where it is configured."""

TRIED: tuple[str, ...] = (
    "tests/live/test_messages.py",
    "tests/live/test_page_files.py",
    "tests/live/test_grpc.py::test_a_client_that_knows_only_reflection_drains_an_inbox",
    "tests/live/test_streams.py::test_a_stream_resumes_after_a_restart[stop]",
)
"""Live tests that touch each part of the package: the store, its migrations, actors, REST, streams, gRPC, the page."""


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the source tree."""
    return copy_tree(tmp_path_factory.mktemp("source") / "postroom")


@pytest.fixture(scope="module")
def wheel(tree: Path) -> Path:
    """The wheel."""
    return build(tree, "wheel")


@pytest.fixture(scope="module")
def sdist(tree: Path) -> Path:
    """The source package."""
    return build(tree, "sdist")


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with nothing but the wheel and what it depends on, made as the page says for pip."""
    folder = tmp_path_factory.mktemp("installed")
    follow_the_page("pip", wheel, folder, PIP_NO_COMPILE="1", PIP_DISABLE_PIP_VERSION_CHECK="1")
    return folder / "opt" / "postroom"


def follow_the_page(how: str, wheel: Path, folder: Path, **environment: str) -> None:
    """Run what `docs/install.md` says for an installer, with the wheel in `dist`; check what it prints there.

    `/opt` is a directory in `folder`, as are the places where installers put programs.
    """
    (folder / "dist").mkdir()
    shutil.copy2(wheel, folder / "dist")
    [block] = re.findall(rf"<!-- install: {how} -->\n```console\n(.*?)```", PAGE.read_text(), re.S)
    script = "".join(line[2:] + "\n" for line in block.splitlines() if line.startswith("$ "))
    said = [line for line in block.splitlines() if not line.startswith("$ ")]
    tools = f"{folder / 'bin'}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    (folder / "bin").mkdir()
    printed = run(
        "bash", "-ec", script.replace("/opt/", f"{folder}/opt/"), cwd=folder, PATH=tools, **environment
    )
    assert printed.splitlines()[-len(said) :] == said


def run(*words: str | Path, cwd: Path = Path("/"), **more: str) -> str:
    """Run a program to its end; return what it printed. Away from the checkout, which must not be found by chance."""
    done = subprocess.run(
        words,
        cwd=cwd,
        env=os.environ | more,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=INSTALL_SECONDS,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


def test_the_wheel_takes_no_name_but_its_own(wheel: Path) -> None:
    files = contents(wheel)
    outermost = {name.partition("/")[0] for name in files}
    assert {name for name in outermost if not name.startswith("postroom-")} == {"postroom"}
    for name, text in files.items():
        if name.endswith((".py", ".pyi")):
            assert not re.search(rb"^\s*(from|import) (web|actors|storage)\b", text, re.M), name
            assert not re.search(rb"[\"'](web|actors|storage)(\.\w+)+[\"']", text), f"{name} names a module"


def test_every_file_of_the_packages_is_in_the_wheel(wheel: Path, tree: Path) -> None:
    files = contents(wheel)
    for package in ("postroom", "web", "actors", "storage"):
        for source in (tree / package).rglob("*"):
            if source.is_file() and "__pycache__" not in source.parts:
                name = source.relative_to(tree).as_posix()
                assert (name if package == "postroom" else f"postroom/{name}") in files
    assert "postroom/web/grpc/postroom/v1/inbox_pb2.py" in files, "what the build generates is there, too"
    assert any(name.endswith("share/man/man1/postroom.1") for name in files)


def test_a_wheel_of_the_source_package_is_the_same_wheel(wheel: Path, sdist: Path, tmp_path: Path) -> None:
    again = build(unpacked(sdist, tmp_path), "wheel")
    assert again.name == wheel.name
    assert contents(again) == contents(wheel)


def test_the_source_package_has_what_it_takes_to_work_on_it(sdist: Path, tmp_path: Path) -> None:
    made = unpacked(sdist, tmp_path)
    for name in (
        "Makefile",
        "LICENSE",
        "tests/conftest.py",
        "docs/architecture.md",
        "deploy",
        ".dockerignore",
    ):
        assert (made / name).exists(), name
    assert not (made / "tests" / "node_modules").exists()


def test_the_version_is_that_of_the_tag_and_says_what_came_after(tree: Path, tmp_path: Path) -> None:
    repository = tmp_path / "tagged"
    (repository / "postroom").mkdir(parents=True)
    pyproject = (tree / "pyproject.toml").read_text()
    (repository / "pyproject.toml").write_text(pyproject)
    (repository / "README.md").touch()
    (repository / "LICENSE").touch()

    def git(*words: str) -> None:
        who = ("-c", "user.name=x", "-c", "user.email=x@example.org")
        run("git", *who, *words, cwd=repository)

    def version() -> str:
        return run(sys.executable, "-m", "hatchling", "version", cwd=repository).strip()

    git("init", "-q")
    git("add", "-A")
    git("commit", "-q", "-m", "one")
    git("tag", "v1.4.0")
    assert version() == "1.4.0"
    git("tag", "nightly")  # no version
    git("commit", "-q", "--allow-empty", "-m", "two")
    assert re.fullmatch(r"1\.4\.1\.dev1\+g[0-9a-f]+", version())


def test_the_version_without_git_is_one_that_nobody_takes_for_a_release(wheel: Path) -> None:
    assert wheel.name.startswith("postroom-0.1.dev0-")


def test_the_installed_program_says_its_version_and_finds_its_manual(installed: Path) -> None:
    assert run(installed / "bin" / "postroom", "--version") == "postroom, version 0.1.dev0\n"
    assert (installed / "share" / "man" / "man1" / "postroom.1").is_file()
    where = run(installed / "bin" / "python", "-c", "import postroom.server as s; print(s.__file__)")
    assert where.startswith(str(installed)), "it is not the checkout that is tried"


def test_every_module_of_the_installed_package_can_be_imported(installed: Path) -> None:
    walk = (
        "import importlib, pkgutil, postroom\n"
        "names = [m.name for m in pkgutil.walk_packages(postroom.__path__, 'postroom.')]\n"
        "for name in names:\n"
        "    if name.endswith('__main__'): continue\n"
        "    try: importlib.import_module(name)\n"
        "    except ModuleNotFoundError as error:\n"
        f"        if error.name.partition('.')[0] not in {OPTIONAL}: raise\n"
        "print(len(names))\n"
    )
    assert int(run(installed / "bin" / "python", "-c", walk)) > 200


def test_the_installed_package_passes_the_live_tests(
    installed: Path, wheel: Path, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    whole = request.config.getoption("--whole-wheel")
    tests = TRIED
    if whole:
        tests = ("--whole-wheel", "tests/live")  # long on purpose: without a budget
        run(installed / "bin" / "pip", "install", "-q", f"{wheel}[traces]")  # some look at these
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", f"--basetemp={tmp_path / 'live'}", *tests],
        cwd=ROOT,
        env=os.environ | {VARIABLE: str(installed / "bin" / "postroom")},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=WHOLE_LIVE_SECONDS if whole else LIVE_SECONDS,
    )
    assert done.returncode == 0, done.stdout
    passed = re.search(r"(\d+) passed", done.stdout)
    assert passed is not None
    assert int(passed[1]) > 30


def test_a_program_that_embeds_it_keeps_its_own_module_names(installed: Path, tmp_path: Path) -> None:
    for name in ("web", "actors", "storage"):
        (tmp_path / f"{name}.py").write_text(f"MINE = {name!r}\n")
    page = (ROOT / "docs" / "embedding.md").read_text()
    [program] = re.findall(r"<!-- program: shop.py -->\n```python\n(.*?)```", page, re.S)
    (tmp_path / "shop.py").write_text(f"import web, actors, storage\n{program}print(web.MINE)\n")
    printed = run(installed / "bin" / "python", "shop.py", cwd=tmp_path)
    assert printed.splitlines()[-2:] == ["again: 1 True", "web"]


def test_uv_makes_a_tool_of_the_source_package(sdist: Path, tmp_path: Path) -> None:
    """With the build in an environment of its own, as everybody has it who installs from source."""
    bin_dir = tmp_path / "bin"
    uv = Path(sys.executable).with_name("uv")
    run(uv, "tool", "install", "-q", sdist, UV_TOOL_DIR=str(tmp_path / "tools"), UV_TOOL_BIN_DIR=str(bin_dir))
    assert run(bin_dir / "postroom", "--version") == "postroom, version 0.1.dev0\n"


@pytest.mark.parametrize(
    ("how", "places"),
    [
        ("pipx", {"PIPX_HOME": "home", "PIPX_BIN_DIR": "bin", "PIPX_MAN_DIR": "man"}),
        ("uv", {"UV_TOOL_DIR": "home", "UV_TOOL_BIN_DIR": "bin"}),
    ],
)
def test_installers_of_programs_take_the_wheel_as_the_page_says(
    wheel: Path, tmp_path: Path, how: str, places: dict[str, str]
) -> None:
    environment = {name: str(tmp_path / place) for name, place in places.items()}
    follow_the_page(how, wheel, tmp_path, PIPX_DEFAULT_BACKEND="uv", **environment)
    settings = json.loads(run(tmp_path / "bin" / "postroom", "config", "--json"))
    assert settings["settings"]
    assert how == "uv" or (tmp_path / "man" / "man1" / "postroom.1").exists()


def test_the_page_installs_where_the_units_look() -> None:
    page, units = PAGE.read_text(), ROOT / "deploy"
    service = (units / "postroom.service").read_text()
    for name in re.findall(r"deploy/[\w.]+", page):
        assert (ROOT / name).is_file(), name
    for told in ("/opt/postroom/bin/postroom", "/var/lib/postroom", "/etc/postroom.env"):
        assert told in page
        assert told in service
    user = re.search(r"useradd .* (\w+)$", page, re.M)
    assert user is not None
    assert f"User={user[1]}\nGroup={user[1]}\n" in service
