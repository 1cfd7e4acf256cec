"""A bare Quart-Trio route that reads the body of a request and answers with the file that its command line names."""

import sys
from pathlib import Path

from quart import Response, request
from quart_trio import QuartTrio

from tests.bench.servers import run

app = QuartTrio(__name__)
page = Path(sys.argv[1]).read_bytes()


@app.post("/agent/send")
@app.post("/v1/inbox:pull")
async def take() -> Response:
    """Take a request and answer with the page."""
    await request.get_data()
    return Response(page, content_type="application/json")


if __name__ == "__main__":
    run(app)
