"""A bare Quart-Trio route: reads the body and returns a small JSON of the size of Postroom's."""

from itertools import count

from quart import Response, jsonify, request
from quart_trio import QuartTrio

from tests.bench.servers import run

app = QuartTrio(__name__)
numbers = count(1)


@app.post("/in/<slug>")
async def receive(slug: str) -> Response:
    """Take a message and forget it."""
    await request.get_data()
    return jsonify({"id": "01JZ0000000000000000000000", "seq": next(numbers)})


if __name__ == "__main__":
    run(app)
