"""Files against the schemas of others, which check-jsonschema has."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

_PROGRAM = Path(sys.executable).with_name("check-jsonschema")


def schema_fault(schema: str, *files: Path) -> str | None:
    """What does not fit the schema of that name."""
    if shutil.which(_PROGRAM) is None:
        pytest.skip("not run: check-jsonschema is missing (make test brings it)")
    done = subprocess.run(
        [_PROGRAM, "--builtin-schema", f"vendor.{schema}", *files],
        capture_output=True,
        text=True,
        check=False,
    )
    return None if done.returncode == 0 else done.stdout + done.stderr
