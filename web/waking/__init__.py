"""Waking an agent: one signed HTTP request to a URL that the agent gave, and only to where an administrator allowed.

The URL is a stranger's, and the server stands in a network that the stranger may not reach: so no name is resolved
twice, no address is connected to that was not checked, and no redirect is followed. When to wake is decided in
`actors.waking`; this package owns how.
"""
