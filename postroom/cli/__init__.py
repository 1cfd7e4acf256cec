"""The commands of `postroom`. `serve` alone opens the database; `init` and `token reset-admin` do so
offline, under the data directory's lock; all others talk HTTP to a server.
"""
