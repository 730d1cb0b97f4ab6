"""The scripts of .ci, which are in no package, as modules."""

import importlib.util
from pathlib import Path
from types import ModuleType

FOLDER = Path(__file__).resolve().parents[2] / ".ci"


def ci_script(name: str) -> ModuleType:
    """`.ci/NAME.py`, imported; its `main` is not called."""
    spec = importlib.util.spec_from_file_location(f"ci_{name}", FOLDER / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
