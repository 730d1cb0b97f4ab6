"""Processes of tests that need not import the gateway again.

Hundreds of tests run `python -m gateway ...` as a process of its own. Two thirds of the processor's
time of a start are imports, the same each time. A template process has them done, and forks.

What a test sees of such a process is what it sees of one that began with `exec`: its parent is the
test's process, it has its own environment, folder, streams, group and exit code. Other are its
command line in /proc, which is that of the template, and its memory, as more modules are there.
Tests that look at those are named in COLD of tests/conftest.py. TIDEGATE_STARTS=cold has all begin
with `exec`, as `make soak` has.
"""
