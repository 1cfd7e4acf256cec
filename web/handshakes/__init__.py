"""Handshakes: what a provider asks of an address before it sends to it, or from time to time, and the answer.

`compile_handshake` turns an inbox's settings and secrets into a `Handshake`, or into None for the many verifiers whose
providers ask nothing; `web/ingest.py` offers it each request that could be one. It answers, or returns None: then the
request is an ordinary one, whatever is wrong with it. Everything here is a pure function of the request and of what the
inbox was set up with; nothing is stored, fetched or awaited. Only an inbox whose verifier is that very preset knows its
handshake: on any other the same bytes are a message.
"""
