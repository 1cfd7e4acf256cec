"""HTTP: ingest, reads, administration; authentication and verification; the limits of the edge."""
