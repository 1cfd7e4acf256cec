"""Waking over HTTP: real sockets of this machine, a resolver of the test's, and an eye on every socket that is made."""
