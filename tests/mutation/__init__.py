"""Mutation testing: whether the unit tests of a pure module notice when one thing in it is changed.

`make mutants` runs it; it takes longer than the suite and is no part of it.
"""
