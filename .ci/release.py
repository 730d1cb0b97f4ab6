"""Builds what a release is made of, into dist/, or says why this tree is none.

    python .ci/release.py [--dry-run] [--all]

Wheel, source archive, .deb, SBOM and SHA256SUMS. The same commit gives the same bytes anywhere.
Nothing is tagged or sent: what is left to do is printed.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import os
import re
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterator, Mapping
from datetime import date
from pathlib import Path
from tempfile import TemporaryDirectory

FOLDER = Path(__file__).resolve().parent
sys.path[:0] = [str(FOLDER.parent), str(FOLDER)]

from deb import DATE, DIST, MACHINES, REPOSITORY, BuildError, commit_date, project, run  # noqa: E402

from gateway.host.version import version as installed  # noqa: E402
from tests.house.house_rules import GENERATED, stale_docs  # noqa: E402

SUMS = "SHA256SUMS"
CHANGELOG = "CHANGELOG.md"
SHOWN_MAX = 3  # of the files that are in the way


def main() -> int:
    parser = argparse.ArgumentParser(description="Build what a release is made of.")
    parser.add_argument("--dry-run", action="store_true", help="look only, and build nothing")
    parser.add_argument(
        "--all", action="store_true", help="the .deb of each architecture, compiled"
    )
    arguments = parser.parse_args()
    version = str(project()["version"])
    try:
        against = [*objections(REPOSITORY, version), *stale_docs(REPOSITORY, GENERATED)]
        if installed() != version:
            against.append(f"the environment has Tidegate {installed()}, not {version}; make setup")
        for each in against:
            print(f"release: {each}", file=sys.stderr)
        if against:
            return 1
        if arguments.dry_run:
            print(f"Nothing is against {version}:  make release")
            return 0
        for path in built(version, DIST, all_of_them=arguments.all):
            print(f"{path.relative_to(REPOSITORY)}, {path.stat().st_size / 1e6:.1f} MB")
    except BuildError as error:
        print(f"release: {error}", file=sys.stderr)
        return 1
    print(NEXT.format(version=version))
    return 0


NEXT = """
To do:
  git tag -a v{version} -m "Tidegate {version}"
  git push origin main v{version}
  and attach all that dist/SHA256SUMS names, and itself."""


# Why not


def objections(root: Path, version: str) -> Iterator[str]:
    """Why the tree of this repository cannot be released under this version, a sentence each."""
    changed = git(root, "status", "--porcelain").splitlines()
    if changed:
        shown = ", ".join(line[3:] for line in changed[:SHOWN_MAX])
        more = f" and {len(changed) - SHOWN_MAX} more" if len(changed) > SHOWN_MAX else ""
        yield f"the tree is not as it was committed: {shown}{more}; commit or remove them"
    sections = sections_of((root / CHANGELOG).read_text(encoding="utf-8"))
    if version not in sections:
        yield f"{CHANGELOG} has no section [{version}]; add it, or correct the version"
    elif not is_dated(sections[version][0]):
        yield f"{CHANGELOG}: [{version}] has no date; write  ## [{version}] - YYYY-MM-DD"
    if sections.get("Unreleased", ("", ""))[1]:
        yield f"{CHANGELOG}: [Unreleased] is not empty; move what it has to [{version}]"
    if git(root, "tag", "--list", f"v{version}"):
        yield f"the tag v{version} is there already; raise the version in pyproject.toml"


def sections_of(changelog: str) -> dict[str, tuple[str, str]]:
    """What stands behind the name of each release, and below it."""
    _, *parts = re.split(r"^## \[([^\]]+)\]", changelog, flags=re.MULTILINE)
    pairs: Mapping[str, str] = dict(zip(parts[::2], parts[1::2], strict=True))
    return {
        name: (text.partition("\n")[0].strip(), text.partition("\n")[2].strip())
        for name, text in pairs.items()
    }


def is_dated(text: str) -> bool:
    try:
        date.fromisoformat(text.removeprefix("- "))
    except ValueError:
        return False
    return text.startswith("- ")


def git(root: Path, *words: str) -> str:
    return run("git", "-c", "safe.directory=*", "-C", root, *words).rstrip("\n")


# What is built


def built(version: str, into: Path, *, all_of_them: bool) -> list[Path]:
    """Its files, the sums last."""
    try:
        from sbom import sbom
    except ImportError as error:
        raise BuildError(f"{error}; bash .ci/setup-release.sh brings it") from error
    os.environ.setdefault(DATE, commit_date())
    into.mkdir(exist_ok=True)
    with TemporaryDirectory(prefix="tidegate-release-") as temporary:
        unpack_head(Path(temporary, "tree"))
        made = Path(temporary, "made")
        command = (sys.executable, "-m", "hatchling", "build", "-d", made)
        hatchling = subprocess.run(
            command, cwd=Path(temporary, "tree"), capture_output=True, text=True, check=False
        )
        if hatchling.returncode:
            raise BuildError(f"hatchling failed: {hatchling.stderr.strip()[-1000:]}")
        choices = [["--arch", each, "--compile"] for each in MACHINES] if all_of_them else [[]]
        for choice in choices:
            run(sys.executable, FOLDER / "deb.py", "--into", made, *choice)
        (made / f"tidegate-{version}.cdx.json").write_text(sbom() + "\n", encoding="utf-8")
        paths = sorted(made.iterdir())
        lines = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}" for path in paths]
        (made / SUMS).write_text("\n".join([*lines, ""]), encoding="utf-8")
        return [Path(shutil.move(path, into / path.name)) for path in [*paths, made / SUMS]]


def unpack_head(folder: Path) -> None:
    """What was committed, without what tools have left in the working tree."""
    command = ["git", "-c", "safe.directory=*", "-C", str(REPOSITORY), "archive", "HEAD"]
    archive = subprocess.run(command, capture_output=True, check=True).stdout
    with tarfile.open(fileobj=io.BytesIO(archive)) as whole:
        whole.extractall(folder)


if __name__ == "__main__":
    sys.exit(main())
