"""The threats of `docs/security.md` for which no other test tries to break the server."""
