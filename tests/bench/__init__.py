"""The benchmark: `python -m tests.bench` measures the gateway and fills docs/performance.md.

It is no part of the test run: it takes minutes and wants the machine for itself. What it prints and
why is told in docs/performance.md.
"""
