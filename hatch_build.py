"""The build's own steps: the gRPC messages are generated, and a wheel keeps everything below `postroom/`.

**Messages.** The Python code of the gRPC messages is generated from its proto file wherever the package is built:
`pip install .`, `pip install -e .`, a wheel. The generated files are written next to the proto file and are not
committed. Only messages are generated. The one method is bound by hand (`web/grpc/inbox.py`), because the code of
grpclib's plugin would import `postroom.v1`, and `postroom` is the program.

**One name.** In the source tree `web`, `actors` and `storage` are top-level packages beside `postroom`. Installed like
that they would take names that other programs use for their own modules, and a program that embeds Postroom could not
have a module called `web`. So a wheel holds them as `postroom.web`, `postroom.actors` and `postroom.storage`, with
their import statements changed accordingly and not a character else. An editable install is the source tree itself.
"""

import ast
import re
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

PROTO_ROOT = "web/grpc"
PROTO_FILES = ("postroom/v1/inbox.proto",)

HOME = "postroom"
MOVED = ("web", "actors", "storage")
"""The packages that a wheel holds below `HOME`."""


class Build(BuildHookInterface):  # type: ignore[type-arg]  # hatchling's own configuration type does not matter
    """Runs before the wheel's files are collected."""

    _tree: tempfile.TemporaryDirectory[str] | None = None
    """Removed by `finalize`, or by its own finalizer when the build fails."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Generate the messages and, unless the install is editable, lay out the wheel in a temporary directory.

        Raises `RuntimeError` when protoc refuses the proto file (it has said why), or when a module imports in a way
        that `moved` cannot change.
        """
        root = Path(self.root)
        generate_messages(root)
        if version != "editable":
            self._tree = tempfile.TemporaryDirectory(prefix="postroom-wheel-")
            lay_out(root, Path(self._tree.name))
            build_data["force_include"][str(Path(self._tree.name, HOME))] = HOME

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove the temporary directory."""
        if self._tree is not None:
            self._tree.cleanup()


def generate_messages(root: Path) -> None:
    """Write the code of the messages and its types beside the proto file. Raises `RuntimeError`."""
    from grpc_tools import protoc  # here, so that the functions below can be used without it

    at = root / PROTO_ROOT
    arguments = [f"--proto_path={at}", f"--python_out={at}", f"--pyi_out={at}"]
    if protoc.main(["protoc", *arguments, *PROTO_FILES]) != 0:
        raise RuntimeError("protoc could not generate the gRPC messages")


def lay_out(root: Path, tree: Path) -> None:
    """Copy the packages from `root` to `tree` as a wheel holds them. Raises `RuntimeError`, naming the module."""
    for package in (HOME, *MOVED):
        target = tree / HOME if package == HOME else tree / HOME / package
        shutil.copytree(root / package, target, ignore=shutil.ignore_patterns("__pycache__", "*.py[cod]"))
    for module in sorted(tree.rglob("*.py*")):
        try:
            module.write_bytes(moved(module.read_bytes()))
        except ValueError as error:
            raise RuntimeError(f"{module.relative_to(tree)}: {error}") from error


def moved(source: bytes) -> bytes:
    """Return a module's source with the moved packages imported from where a wheel has them.

    Raises `ValueError` for an import statement that binds the name of a moved package (`import web.front`): what is
    said of it further down would have to change as well. `from web import front` says the same.
    """
    lines = source.splitlines(keepends=True)
    for number, column in sorted(_imports(source), reverse=True):
        line = lines[number - 1]
        lines[number - 1] = line[:column] + HOME.encode() + b"." + line[column:]
    return b"".join(lines)


def _imports(source: bytes) -> Iterator[tuple[int, int]]:
    """Give line (from 1) and column (in bytes) of each name of a moved package in an import statement."""
    lines = source.splitlines()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and node.level == 0 and _is_moved(node.module or ""):
            begin = re.compile(rb"from[ \t]+").match(lines[node.lineno - 1], node.col_offset)
            if begin is None:
                raise ValueError(f"line {node.lineno}: the name must follow `from` on its line")
            yield node.lineno, begin.end()
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if _is_moved(alias.name):
                    if alias.asname is None:
                        raise ValueError(f"line {node.lineno}: say `from … import …` instead")
                    yield alias.lineno, alias.col_offset


def _is_moved(module: str) -> bool:
    return module.partition(".")[0] in MOVED
