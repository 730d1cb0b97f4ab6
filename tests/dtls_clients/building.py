"""Builds the clients into build/dtls_clients, each at its pinned version and only where it is not
there yet. What fails is noted beside it, and the next run tries it again.

Sources come by the client of the registry that has them (cargo, go), with its own settings; nothing
is installed on the machine.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from tests.dtls_clients.clients import CLIENTS, PROGRAMS, Client, program
from tests.support.logged_command import failure_of

TIMEOUT_S = 3600.0
REASON_CHARACTERS = 160
# That of a package which is vendored; its own code is not built.
MANIFEST = """\
[package]
name = "sources"
version = "0.0.0"
edition = "2021"
[lib]
path = "none.rs"
[dependencies]
{crate} = "={version}"
"""
_LIBRARIES = {
    "mbedtls": (
        *("library/libmbedtls.a", "library/libmbedx509.a", "library/libmbedcrypto.a"),
        "-I{source}/include",
    ),
    "wolfssl": ("libwolfssl.a", "-lm", "-I{source}", "-I{home}", "-DWOLFSSL_STATIC_PSK"),
    "tinydtls": (
        *("libtinydtls.a", "-I{source}", "-I{home}"),
        *("-DDTLSv12", "-DWITH_SHA256", "-DSHA2_USE_INTTYPES_H"),
    ),
}


class BuildError(Exception):
    """Why it could not be; one line."""


def build_all(names: list[str]) -> None:
    """All, or those that are named; says what it does."""
    for client in CLIENTS:
        if (names and client.name not in names) or client.why_not_here() is None:
            continue
        if client.recipe.kind == "micropython":
            sys.stderr.write(f"{client.title}: {client.why_not_here()}\n")
            continue
        sys.stderr.write(f"building {client.title}\n")
        shutil.rmtree(client.home, ignore_errors=True)
        client.home.mkdir(parents=True)
        try:
            absent = [each for each in client.recipe.needs if program(each) is None]
            if absent:
                raise BuildError(f"{' and '.join(absent)} not on this machine")
            _KINDS[client.recipe.kind](client)
        except (BuildError, OSError, subprocess.TimeoutExpired) as error:
            reason = str(error)[:REASON_CHARACTERS]
            (client.home / "failed").write_text(f"{reason}\n", encoding="utf-8")
            sys.stderr.write(f"  not built: {reason}\n")


def _run(home: Path, *command: str, folder: Path | None = None) -> None:
    """The first line of an error is the reason."""
    tool = program(command[0])
    if tool is None:
        raise BuildError(f"{command[0]} is not on this machine")
    reason = failure_of(
        [tool, *command[1:]],
        home / "build.log",
        folder=folder,
        environment={"GOFLAGS": "-mod=readonly", "CGO_ENABLED": "0"},
        timeout_s=TIMEOUT_S,
    )
    if reason is not None:
        raise BuildError(f"{command[0]}: {reason}")


def _by_cmake(client: Client) -> None:
    home, recipe = client.home.resolve(), client.recipe
    sources = home / "sources"
    sources.mkdir()
    manifest = MANIFEST.format(crate=recipe.crate, version=recipe.version.partition("+")[0])
    (sources / "Cargo.toml").write_text(manifest, encoding="utf-8")
    (sources / "none.rs").touch()
    _run(home, "cargo", "vendor", "--quiet", folder=sources)
    source = sources / "vendor" / recipe.crate / recipe.source
    _run(
        home, "cmake", "-S", str(source), "-B", str(home), "-DCMAKE_BUILD_TYPE=Release",
        *recipe.options,
    )  # fmt: skip
    _run(home, "cmake", "--build", str(home), "--target", *recipe.targets)
    with_these = [each.format(source=source, home=home) for each in _LIBRARIES[client.name]]
    _compile(client, *(each if each.startswith("-") else str(home / each) for each in with_these))


def _by_gcc(client: Client) -> None:
    _compile(client, "-lgnutls")


def _compile(client: Client, *options: str) -> None:
    source = PROGRAMS / f"{client.name}.c"
    _run(
        client.home, "gcc", "-O1", "-Wall", "-Wextra", str(source), *options,
        "-o", str(client.home.resolve() / "client"),
    )  # fmt: skip


def _by_go(client: Client) -> None:
    home = client.home.resolve()
    _run(home, "go", "build", "-o", str(home / "client"), ".", folder=PROGRAMS / "pion")


_KINDS: dict[str, Callable[[Client], None]] = {
    "cmake": _by_cmake,
    "gnutls": _by_gcc,
    "go": _by_go,
}
