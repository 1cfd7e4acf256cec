"""The web application, put together: which handlers exist and what they stand on."""

from pathlib import Path

import trio

from actors.service import Service
from web.admin import Admin
from web.auth import Authenticator
from web.front import Front
from web.health import Health
from web.ingest import Ingest
from web.options import WebOptions
from web.reads import Reads


def build_app(service: Service, options: WebOptions, stopping: trio.Event, *, spool_dir: Path) -> Front:
    """Return the ASGI application. `spool_dir` is where large bodies wait for their verdict.

    With the read API off, its routes do not exist: ingest and administration are what is left.
    """
    return Front(
        ingest=Ingest(service, options, spool_dir),
        health=Health(service, stopping),
        authenticator=Authenticator(service.tokens),
        hot=Reads(service, options).routes() if options.read_api_enabled else (),
        administration=Admin(service, options).routes(),
        options=options,
        stopping=stopping,
    )
