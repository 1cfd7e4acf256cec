"""The known holes of what Postroom runs on: pip-audit over the installed versions of the runtime dependencies.

`make audit` runs it and fails when a hole is known, and also when nobody could be asked; the suite runs it too, and
passes by where nobody could be asked, as on a machine without the Internet. What is only needed for development is not
asked about: no server runs it.
"""

import subprocess
import sys
import tempfile
from importlib.metadata import PackageNotFoundError, distribution
from typing import NamedTuple

import msgspec
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

AUDIT_SECONDS = 120.0
"""With an answer for each of some fifty packages it takes about five."""


class Package(NamedTuple):
    """An installed package."""

    name: str
    version: str


class Unreachable(Exception):
    """Nobody could be asked. The message says why, in a line."""


class _Hole(msgspec.Struct):
    id: str
    fix_versions: list[str] = []


class _Audited(msgspec.Struct):
    name: str
    vulns: list[_Hole] = []
    skip_reason: str | None = None


class _Report(msgspec.Struct):
    dependencies: list[_Audited]


def runtime_packages() -> list[Package]:
    """Return what `postroom` needs to run here, with all that this needs, in the versions that are installed."""
    found: dict[str, str] = {}

    def add(name: str) -> None:
        key = canonicalize_name(name)
        if key in found:
            return
        try:
            installed = distribution(name)
        except PackageNotFoundError:  # of another system or Python
            return
        found[key] = installed.version
        for line in installed.requires or ():
            needed = Requirement(line)
            if needed.marker is None or needed.marker.evaluate({"extra": ""}):
                add(needed.name)

    add("postroom")
    del found["postroom"]
    return [Package(name, version) for name, version in sorted(found.items())]


def known_holes(packages: list[Package]) -> list[str]:
    """Return a line for each known hole of these packages. Raises `Unreachable`."""
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
        file.writelines(f"{package.name}=={package.version}\n" for package in packages)
        file.flush()
        options = ["--no-deps", "--disable-pip", "--format", "json", "--progress-spinner", "off"]
        try:
            done = subprocess.run(
                [sys.executable, "-m", "pip_audit", "-r", file.name, *options],
                capture_output=True,
                text=True,
                timeout=AUDIT_SECONDS,
            )
        except subprocess.TimeoutExpired:
            raise Unreachable(f"no answer within {AUDIT_SECONDS:g} s") from None
    return holes_in(done.stdout, done.stderr)


def holes_in(report: str, complaints: str) -> list[str]:
    """Return a line for each hole that pip-audit reports, and for each package that it could not ask about.

    Raises `Unreachable` when there is no report, or one in which none could be asked about: no hole is known then.
    """
    try:
        audited = msgspec.json.decode(report, type=_Report).dependencies
    except msgspec.DecodeError:
        raise Unreachable(complaints.strip().rpartition("\n")[2] or "no report") from None
    skipped = [one for one in audited if one.skip_reason is not None]
    if len(skipped) == len(audited):
        raise Unreachable("the index that is configured here answers for none of the packages")
    lines = [f"{one.name} could not be audited: {one.skip_reason}" for one in skipped]
    return lines + [
        f"{one.name}: {hole.id}, mended in {', '.join(hole.fix_versions) or 'no version yet'}"
        for one in audited
        for hole in one.vulns
    ]


def main() -> int:
    """Print what is known and return the exit code: 0 when nothing is."""
    packages = runtime_packages()
    try:
        holes = known_holes(packages)
    except Unreachable as why:
        sys.stderr.write(f"Nobody could be asked: {why}.\n")
        return 1
    sys.stdout.write("".join(f"{line}\n" for line in holes))
    sys.stdout.write(f"{len(packages)} packages, {len(holes)} findings.\n")
    return 1 if holes else 0


if __name__ == "__main__":
    sys.exit(main())
