"""The SDK's server on the Hypercorn that serves Postroom."""

from typing import cast

from hypercorn.typing import ASGIFramework

from tests.bench.servers import run
from tests.bench.servers.sdk_tools import seeded_app

if __name__ == "__main__":
    run(cast(ASGIFramework, seeded_app()))
