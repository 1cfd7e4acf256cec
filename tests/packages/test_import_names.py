"""How the build moves imports below `postroom`: every form is moved or refused, and nothing else is touched."""

import importlib.util
from types import ModuleType

import pytest

from tests.packages.building import ROOT


def build_steps() -> ModuleType:
    """Load `hatch_build.py`, which is no module of a package."""
    spec = importlib.util.spec_from_file_location("hatch_build", ROOT / "hatch_build.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


moved = build_steps().moved


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("from web import front", "from postroom.web import front"),
        ("from web.front import Front", "from postroom.web.front import Front"),
        ("import storage.sqlite as s", "import postroom.storage.sqlite as s"),
        ("import os, actors as a, sys", "import os, postroom.actors as a, sys"),
        ("def f():\n    from actors.x import (\n        y,\n    )", None),
        ("if True: from web import a; from storage import b", None),
        ("from \\\n    web import front", "from postroom.\\\n    web import front"),
        ("é = 'web'; from web import é", "é = 'web'; from postroom.web import é"),
    ],
)
def test_an_import_of_a_moved_package_is_moved(source: str, expected: str | None) -> None:
    if expected is None:
        expected = source
        for name in ("web", "actors", "storage"):
            expected = expected.replace(f"from {name}", f"from postroom.{name}")
    assert moved(source.encode()).decode() == expected


@pytest.mark.parametrize(
    "source",
    [
        "from postroom.server import run\n",
        "from webapp import x\nimport storage_tools\n",
        "from . import web\nfrom .web import x\n",
        '"""\nfrom web import front\n"""\n# from web import front\n',
        "web = 1\r\nprint(web.real)\r\n",
    ],
)
def test_everything_else_stays_as_it_is(source: str) -> None:
    assert moved(source.encode()) == source.encode()


@pytest.mark.parametrize(
    "source", ["import web", "import os\nimport web.front", "from\\\n    web import front"]
)
def test_an_import_that_cannot_be_moved_stops_the_build(source: str) -> None:
    with pytest.raises(ValueError, match="line"):
        moved(source.encode())
