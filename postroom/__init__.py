"""The program around the server: command line, configuration, composition root.

And what another trio program imports to run a server inside it (`docs/embedding.md`). That is loaded when it is used:
the commands import this package, too, and have no time for it.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from postroom.embedding import (
        ApiError,
        Appended,
        CannotListen,
        ConfigError,
        DataDirectoryError,
        Server,
        ServerFailed,
        configure,
        open,
    )

__all__ = [
    "ApiError",
    "Appended",
    "CannotListen",
    "ConfigError",
    "DataDirectoryError",
    "Server",
    "ServerFailed",
    "configure",
    "open",
]


def __getattr__(name: str) -> Any:
    """Load what embedding needs, when it is asked for."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from postroom import embedding

    return getattr(embedding, name)
