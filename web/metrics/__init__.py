"""Metrics for Prometheus. Everything is counted elsewhere, as plain numbers, by whoever does the thing; here is the
table of what is published (`families.py`), where it is read (`sources.py`), and how it is asked for (`exposition.py`).
"""
