"""The web page at `/ui`: HTML made by the server, small scripts of our own, no request to anywhere else.

The page is a client like any other, in this process: what it shows and does are the operations of REST
(`calls.py`), with the token of the session that asks (`sessions.py`). So a token sees and does here what it may over
REST, by the same code, and nothing else.
"""
