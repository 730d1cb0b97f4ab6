"""Prints docs/conformance.md: `python -m tests.conformance >docs/conformance.md`."""

from __future__ import annotations

import sys

from tests.conformance.specification import SPECIFICATION, document, read

if __name__ == "__main__":
    sys.stdout.write(document(read(SPECIFICATION.read_text(encoding="ascii"))))
