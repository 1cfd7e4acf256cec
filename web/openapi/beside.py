"""The operations of the document that the front answers without a table of routes: ingest and health."""

from web.health import Health, Readiness
from web.openapi.about import About, Media
from web.openapi.operations import Operation, operation
from web.openapi.shapes import Alive, Stored

ANYTHING = Media("*/*", "Any bytes; they are kept as they are.")

OWN_ANSWER = Media(
    "*/*", "The inbox's own answer, where it has one, or what its provider expects of an address."
)

SEND = (
    "Send a message to a webhook inbox. Any path and query may follow the slug, and are kept with the headers. The "
    "answer comes once the message is on disk; a signature is checked as the inbox has it, and what its provider asks "
    "of an address before it sends is answered as that expects it."
)

_SENDING = About(
    "Sending",
    "anybody",
    ANYTHING,
    Stored,
    refuses="unauthenticated rate_limited",
    also={"2XX": OWN_ANSWER},
    gives=("Postroom-Duplicate",),
)

LOOK = (
    "See whether the address of an inbox is there: some providers look before they send. Nothing is stored; where its "
    "provider asks something of an address first, that is answered as it expects it."
)

_LOOKING = About("Sending", "anybody", answers=OWN_ANSWER, refuses="not_found")

_READY = About("Server", "anybody", None, Readiness, name="show_readiness", also={503: Readiness})

BESIDE_THE_TABLES: tuple[Operation, ...] = (
    Operation("POST", "/in/{slug}", "send_message", SEND, _SENDING),
    Operation("PUT", "/in/{slug}", "put_message", SEND, _SENDING),
    Operation("GET", "/in/{slug}", "look_at_inbox", LOOK, _LOOKING),
    operation("GET", "/healthz", Health.healthz, About("Server", "anybody", None, Alive, name="show_health")),
    operation("GET", "/readyz", Health.readyz, _READY),
)
