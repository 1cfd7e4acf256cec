"""The page's own files: styles, scripts, an icon. Read once at the start, served from memory.

Their address has a hash of their contents in it: after an upgrade a page that is loaded anew never runs an old script.
"""

import hashlib
from collections.abc import Mapping
from importlib import resources

import msgspec

from web.errors import ApiError
from web.http import Answer, Request
from web.pages.rendering import SAFETY_HEADERS

KINDS = {"css": b"text/css; charset=utf-8", "js": b"text/javascript; charset=utf-8", "svg": b"image/svg+xml"}

DIGEST_CHARACTERS = 12


class Asset(msgspec.Struct, frozen=True):
    """One file."""

    body: bytes
    content_type: bytes


class Assets:
    """All files of `web/pages/static`."""

    def __init__(self, prefix: str) -> None:
        """`prefix`: the path below which they are served."""
        self._files: Mapping[str, Asset] = _load()
        digest = hashlib.sha256()
        for name, asset in sorted(self._files.items()):
            digest.update(name.encode() + b"\0" + asset.body + b"\0")
        self.digest = digest.hexdigest()[:DIGEST_CHARACTERS]
        self._prefix = f"{prefix}/{self.digest}"

    def path(self, name: str) -> str:
        """Return where a file is served. Raises `KeyError` for one that is not there: a template's slip of the pen."""
        self._files[name]
        return f"{self._prefix}/{name}"

    async def serve(self, request: Request) -> Answer:
        """`GET …/{digest}/{name}`: the file, whatever the digest: a script of an old page finds its modules. With the
        digest of now, browsers may keep it.
        """
        asset = self._files.get(request.params["name"])
        if asset is None:
            raise ApiError("not_found", "There is nothing at this address.")
        lasting = request.params["digest"] == self.digest
        return Answer(200, asset.body, asset.content_type, SAFETY_HEADERS, lasting=lasting)


def _load() -> Mapping[str, Asset]:
    found = {}
    for file in resources.files(__package__).joinpath("static").iterdir():
        kind = KINDS.get(file.name.rpartition(".")[2])
        if kind is not None:
            found[file.name] = Asset(file.read_bytes(), kind)
    return found
