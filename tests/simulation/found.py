"""Seeds that have found something in the server, and what it was. They are played at every run of the suite."""

FOUND: dict[int, str] = {}
"""By seed. A seed plays another run when the simulation changes: what was found gets a test of its own besides."""
