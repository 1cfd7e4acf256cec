"""A simulated world: the whole server on virtual time over a store that fails as a seed says, and people who use it.

`run.py` plays one seed; `python -m tests.simulation --seeds 0:1000` plays many.
"""
