"""Input that nobody honest sends: to the parsers, the HTTP interface and MCP, guided by coverage, schema and types.

`python -m tests.hostile --minutes 15` runs the three side by side and prints what was executed.
"""
