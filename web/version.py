"""The version of the program, as its package says."""

from importlib.metadata import PackageNotFoundError, version


def _version() -> str:
    try:
        return version("postroom")
    except PackageNotFoundError:  # run from a checkout that was never installed
        return "unknown"


VERSION = _version()
