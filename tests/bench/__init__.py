"""The benchmark: `python -m tests.bench` measures the gateway and fills docs/performance.md.

It is no part of the test run: it takes minutes and wants the machine for itself. What it prints and
why is told in docs/performance.md.

What is measured in process runs as `tidegate run` does, compiled where that is there: that must be
asked for before anything of it is imported. Of a test of the benchmark it is not asked.
"""

import os
import sys

from gateway.host import compiled

if sys.argv[0] == "-m":  # while Python looks for the program of this package that it was told
    compiled.use(os.environ)
