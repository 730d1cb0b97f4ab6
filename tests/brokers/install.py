"""Installs the brokers of the table into the cache, each at its pinned version, and only where it
is not there yet: `python -m tests.brokers install [NAME ...]`.

Each kind of package is fetched by its own client, with that client's own settings. What fails is
noted beside it, and the table says so; the next run tries it again.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from urllib.request import urlopen

from tests.brokers.adapters import BROKERS
from tests.brokers.broker import Broker, cache_folder
from tests.support.logged_command import failure_of

PROGRAMS = Path(__file__).parent / "programs"
TIMEOUT_S = 3600.0
REASON_CHARACTERS = 160


class InstallError(Exception):
    """Why it could not be; one line."""


def install(broker: type[Broker]) -> str | None:
    """Why it could not be installed; None if it is there."""
    home = broker.home()
    if (home / "installed").exists() or broker.recipe.kind == "present":
        return broker.why_not_here()
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir(parents=True)
    try:
        for program in broker.recipe.needs:
            if shutil.which(program) is None:
                raise InstallError(f"{program}, which its build calls, is not on this machine")
        _KINDS[broker.recipe.kind](home, broker.recipe.packages)
    except (InstallError, OSError, subprocess.TimeoutExpired) as error:
        (home / "failed").write_text(f"{str(error)[:REASON_CHARACTERS]}\n", encoding="utf-8")
        return broker.why_not_here()
    (home / "installed").touch()
    return None


def install_all(names: list[str]) -> None:
    """All, or those that are named; says what it does."""
    wanted = [each for each in BROKERS if each.name in names or not names]
    for broker in wanted:
        if broker.why_not_here() is None:
            continue
        sys.stderr.write(f"installing {broker.title} {broker.version} ({broker.recipe})\n")
        why = install(broker)
        sys.stderr.write(f"  not installed: {why}\n" if why else f"  in {broker.home()}\n")


def _run(*command: str, folder: Path | None = None, **environment: str) -> None:
    program = shutil.which(command[0])
    if program is None:
        raise InstallError(f"{command[0]} is not on this machine")
    reason = failure_of(
        [program, *command[1:]],
        cache_folder() / "install.log",
        folder=folder,
        environment=environment,
        timeout_s=TIMEOUT_S,
    )
    if reason is not None:
        raise InstallError(f"{command[0]}: {reason}")


def _by_go(home: Path, packages: tuple[str, ...]) -> None:
    for package in packages:
        _run("go", "install", package, GOBIN=str(home), GOFLAGS="-mod=mod")


def _by_pip(home: Path, packages: tuple[str, ...]) -> None:
    _run(sys.executable, "-m", "venv", str(home))
    pip = [str(home / "bin" / "python"), "-m", "pip", "install", "--disable-pip-version-check"]
    _run(*pip, "--quiet", *packages)


def _by_npm(home: Path, packages: tuple[str, ...]) -> None:
    _run("npm", "install", "--no-audit", "--no-fund", "--prefix", str(home), *packages)


def _by_cargo(home: Path, packages: tuple[str, ...]) -> None:
    """In one process, so that a machine stays usable meanwhile."""
    for package in packages:
        _run(
            "cargo", "install", "--locked", "--jobs", "1", "--root", str(home),
            "--target-dir", str(home / "build"), package,
        )  # fmt: skip
    shutil.rmtree(home / "build")


def _by_maven(home: Path, packages: tuple[str, ...]) -> None:
    """The first package is the program of ours that starts it, whose profile has its lower name."""
    program = packages[0]
    profile = program.removesuffix("Broker").lower()
    jars = home / "jars"
    _run(
        "mvn", "--quiet", "--batch-mode", "--activate-profiles", profile,
        "dependency:copy-dependencies", "-DincludeScope=runtime", f"-DoutputDirectory={jars}",
        folder=PROGRAMS,
    )  # fmt: skip
    source = PROGRAMS / f"{program}.java"
    _run("javac", "-nowarn", "-cp", f"{jars}/*", "-d", str(home / "classes"), str(source))


def _by_deb(home: Path, packages: tuple[str, ...]) -> None:
    """With what they depend on and is not on this machine, into a folder; nothing is installed."""
    archives = home / "archives"
    (archives / "partial").mkdir(parents=True)
    _run(
        "apt-get", "install", "--yes", "--no-install-recommends", "--download-only",
        "--option", "Debug::NoLocking=1", "--option", f"Dir::Cache::archives={archives}",
        *packages,
    )  # fmt: skip
    for archive in sorted(archives.glob("*.deb")):
        _run("dpkg", "-x", str(archive), str(home / "root"))
    shutil.rmtree(archives)


def _by_cmake(home: Path, packages: tuple[str, ...]) -> None:
    """Of a source archive of Debian, its checksum, and the packages that the build needs beside
    what is on this machine. Without clients, tools and tests.
    """
    place, checksum, *libraries = packages
    source, root = home / "source", home / "root"
    source.mkdir()
    archive = source / Path(place).name
    archive.write_bytes(_from_debian(place, checksum.removeprefix("sha256=")))
    _run("tar", "-xf", str(archive), "--strip-components=1", "-C", str(source))
    _run("apt-get", "download", *libraries, folder=source)
    for library in sorted(source.glob("*.deb")):
        _run("dpkg", "-x", str(library), str(root))
    headers = root / "usr" / "include"
    cjson = next((root / "usr" / "lib").glob("*/libcjson.so"))
    off = (
        "TESTS", "CLIENTS", "APPS", "DOCS", "LIB_CPP", "HTTP_API", "WEBSOCKETS", "LTO",
        "CTRL_SHELL", "PLUGIN_EXAMPLES", "PLUGIN_PERSIST_SQLITE", "PLUGIN_SPARKPLUG_AWARE",
    )  # fmt: skip
    _run(
        "cmake", "-S", str(source), "-B", str(home / "build"), "-DCMAKE_BUILD_TYPE=Release",
        f"-DCJSON_LIBRARY={cjson}", f"-DCJSON_INCLUDE_DIR={headers}",
        *(f"-DWITH_{each}=OFF" for each in off), CFLAGS=f"-I{headers}",
    )  # fmt: skip
    _run("cmake", "--build", str(home / "build"))
    shutil.rmtree(source)


def _from_debian(place: str, checksum: str) -> bytes:
    """A file of the archive, from where this machine has its packages from."""
    listed = subprocess.run(
        ["apt-get", "indextargets", "--format", "$(REPO_URI)", "Created-By: Packages"],
        capture_output=True,
        text=True,
        check=False,
    )
    for uri in sorted(set(listed.stdout.split())):
        try:
            with urlopen(uri + place, timeout=60) as answer:
                content: bytes = answer.read()
        except (OSError, ValueError):
            continue
        if hashlib.sha256(content).hexdigest() == checksum:
            return content
    raise InstallError(f"no archive of Debian that this machine knows has {place}")


_KINDS: dict[str, Callable[[Path, tuple[str, ...]], None]] = {
    "go": _by_go,
    "pip": _by_pip,
    "npm": _by_npm,
    "cargo": _by_cargo,
    "maven": _by_maven,
    "deb": _by_deb,
    "cmake": _by_cmake,
}
