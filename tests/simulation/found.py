"""Seeds that have found something in the server, and what it was. They are played at every run of the suite."""

FOUND: dict[int, str] = {
    3: "settings in memory after a change whose outcome was unknown",
    5055: "a stream that told what it had read while its token was narrowed",
}
"""By seed. A seed plays another run when the simulation changes: what was found gets a test of its own besides."""
