"""The sources of the revision whose files, and whose package, this one must take over."""

from __future__ import annotations

import io
import subprocess
import sys
import tarfile
import tomllib
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
# Of 0.1.0: the last one before its modules were moved and renamed, one whose state has schema 3, a
# late one. To be changed with each release.
REVISION, EARLY_REVISION, LATE_REVISION = "3a10f64", "6d3582e5", "bea8596"
VERSION = "0.1.0"


def why_not(revision: str = REVISION) -> str | None:
    """Why its sources are not here, or None."""
    known = _git("cat-file", "-e", f"{revision}^{{commit}}")
    return None if known.returncode == 0 else f"git does not have {revision}, in a shallow clone"


def unpack_before(folder: Path, revision: str = REVISION) -> Path:
    """Its whole tree, in this folder, which is returned."""
    made = _git("archive", "--format=tar", revision)
    assert made.returncode == 0, made.stderr.decode()
    with tarfile.open(fileobj=io.BytesIO(made.stdout)) as archive:
        archive.extractall(folder)
    assert _imported_in(folder) == folder / "gateway"
    project = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["version"] == VERSION
    # Or its first start takes as long as that.
    subprocess.run([sys.executable, "-m", "compileall", "-q", folder / "gateway"], check=True)
    return folder


def _imported_in(folder: Path) -> Path:
    """Which of the two a process takes that is started there."""
    program = "import gateway; print(gateway.__path__[0])"
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=folder, capture_output=True, text=True, check=True
    )
    return Path(done.stdout.strip())


def gateway_of(folder: Path) -> tuple[str, ...]:
    """The command that runs the gateway of this tree, with the packages that are installed here."""
    return ("env", f"--chdir={folder}", sys.executable, "-m", "gateway")


def _git(*command: str) -> subprocess.CompletedProcess[bytes]:
    try:
        return subprocess.run(
            ["git", "-C", str(REPOSITORY), *command], capture_output=True, check=False
        )
    except FileNotFoundError as error:
        return subprocess.CompletedProcess(command, 127, b"", str(error).encode())
