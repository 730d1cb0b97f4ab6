"""Builds the load generator with gcc when its sources are newer than it, and runs it."""

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from tests.bench.measurement import MeasurementError

SOURCE_DIR = Path(__file__).parent / "load"
BUILD_DIR = Path(__file__).parents[2] / "build" / "bench"
COMPILER_FLAGS = ("-O2", "-std=gnu11", "-Wall", "-Wextra", "-Wshadow", "-Werror")
BUILD_TIMEOUT_S = 120.0


class BuildError(Exception):
    """The generator could not be built; the text says what to do."""


def build(build_dir: Path = BUILD_DIR) -> Path:
    compiler = shutil.which("gcc")
    if compiler is None:
        raise BuildError(
            "gcc is not installed, and the load generator is written in C; "
            "try: sudo apt-get install gcc libc6-dev"
        )
    executable = build_dir / "load"
    sources = sorted(SOURCE_DIR.glob("*.c"))
    if executable.exists() and not _is_older(executable, [*sources, *SOURCE_DIR.glob("*.h")]):
        return executable
    build_dir.mkdir(parents=True, exist_ok=True)
    command = [compiler, *COMPILER_FLAGS, "-o", str(executable), *map(str, sources)]
    answer = subprocess.run(
        command, capture_output=True, text=True, timeout=BUILD_TIMEOUT_S, check=False
    )
    if answer.returncode != 0:
        raise BuildError(f"gcc could not build the load generator:\n{answer.stderr.strip()}")
    return executable


def run(executable: Path, arguments: Sequence[str], timeout_s: float) -> str:
    """One JSON object, as text."""
    try:
        answer = subprocess.run(
            [str(executable), *arguments],
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise MeasurementError(f"the load generator did not end in {timeout_s:.0f} s") from error
    if answer.returncode != 0:
        said = answer.stderr.strip() or f"exit code {answer.returncode}"
        raise MeasurementError(said)
    return answer.stdout


def _is_older(executable: Path, sources: Sequence[Path]) -> bool:
    built_at = executable.stat().st_mtime
    return any(source.stat().st_mtime > built_at for source in sources)
