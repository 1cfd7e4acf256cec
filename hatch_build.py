"""The build's own step: the Python code of the gRPC messages is generated from its proto file.

Runs wherever the package is built: `pip install .`, `pip install -e .`, a wheel. The generated files are written next
to the proto file and are not committed. Only messages are generated. The one method is bound by hand
(`web/grpc/inbox.py`), because the code of grpclib's plugin would import `postroom.v1`, and `postroom` is the program.
"""

from pathlib import Path
from typing import Any

from grpc_tools import protoc
from hatchling.builders.hooks.plugin.interface import BuildHookInterface

PROTO_ROOT = "web/grpc"
PROTO_FILES = ("postroom/v1/inbox.proto",)
SUFFIXES = ("_pb2.py", "_pb2.pyi")
"""Code and its types."""


class GenerateMessages(BuildHookInterface):  # type: ignore[type-arg]  # hatchling's own configuration type does not matter
    """Generates the code before the wheel's files are collected, and has it collected although git ignores it."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Generate. Raises `RuntimeError` when protoc refuses the proto file; it has said why."""
        root = Path(self.root, PROTO_ROOT)
        arguments = [f"--proto_path={root}", f"--python_out={root}", f"--pyi_out={root}"]
        if protoc.main(["protoc", *arguments, *PROTO_FILES]) != 0:
            raise RuntimeError("protoc could not generate the gRPC messages")
        for file in PROTO_FILES:
            stem = f"{PROTO_ROOT}/{file.removesuffix('.proto')}"
            build_data["artifacts"] += [stem + suffix for suffix in SUFFIXES]
