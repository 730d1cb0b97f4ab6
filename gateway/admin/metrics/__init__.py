"""Prometheus metrics: their table, how they are measured and written.

What they count is counted where it happens.
"""
