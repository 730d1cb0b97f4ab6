"""The clients, and the suites that each is run with.

Each is a library's DTLS behind a short program of ours (programs/), which knows nothing of MQTT-SN:
what it carries is the scripted client's of the tests. What is not installed is skipped, with the
reason.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from hil.boards import programs

PROGRAMS = Path(__file__).parent / "programs"
BUILT = Path(__file__).parents[2] / "build" / "dtls_clients"
# As OpenSSL, and so the gateway's log, calls the suites.
CCM8, CCM, GCM = "PSK-AES128-CCM8", "PSK-AES128-CCM", "PSK-AES128-GCM-SHA256"
CHACHA = "ECDHE-PSK-CHACHA20-POLY1305"
ECDSA_GCM, ECDSA_CCM = "ECDHE-ECDSA-AES128-GCM-SHA256", "ECDHE-ECDSA-AES128-CCM"
ECDSA_CHACHA = "ECDHE-ECDSA-CHACHA20-POLY1305"


@dataclass(frozen=True, slots=True)
class Recipe:
    """How a client is built (building.py). `crate`: the package of Rust that has the library's
    sources, at `source` in it; `options` are of its CMake.
    """

    kind: str
    crate: str = ""
    version: str = ""
    source: str = ""
    options: Sequence[str] = ()
    targets: Sequence[str] = ()
    needs: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Client:
    """`suites`: what the client calls a suite, by what the gateway calls it. Those with PSK in
    their name have keys, the others certificates.
    """

    name: str
    title: str
    recipe: Recipe
    suites: dict[str, str]

    @property
    def home(self) -> Path:
        return BUILT / f"{self.name}-{self.recipe.version or 'here'}"

    @property
    def command(self) -> list[str]:
        if self.recipe.kind == "micropython":
            return [programs.find("micropython") or "micropython", str(PROGRAMS / "client.py")]
        return [str(self.home / "client")]

    def why_not_here(self) -> str | None:
        """None where it can be run."""
        if self.recipe.kind == "micropython":
            return programs.missing("micropython")
        if (self.home / "client").exists():
            return None
        failed = self.home / "failed"
        if failed.exists():
            return failed.read_text(encoding="utf-8").strip()
        return "make dtls-test builds it"


_C = ("cargo", "cmake", "gcc")
CLIENTS = (
    Client(
        "mbedtls",
        "Mbed TLS 2.28.10",
        Recipe(
            "cmake",
            "mbedtls-sys-auto",
            "2.28.15",
            "vendor",
            ("-DENABLE_TESTING=OFF",),
            ("mbedtls", "ssl_client2"),
            needs=_C,
        ),
        {
            CCM8: "TLS-PSK-WITH-AES-128-CCM-8",
            CCM: "TLS-PSK-WITH-AES-128-CCM",
            GCM: "TLS-PSK-WITH-AES-128-GCM-SHA256",
            CHACHA: "TLS-ECDHE-PSK-WITH-CHACHA20-POLY1305-SHA256",
            ECDSA_GCM: "TLS-ECDHE-ECDSA-WITH-AES-128-GCM-SHA256",
            ECDSA_CCM: "TLS-ECDHE-ECDSA-WITH-AES-128-CCM",
        },
    ),
    Client(
        "wolfssl",
        "wolfSSL 5.9.4",
        Recipe(
            "cmake",
            "wolfssl-sys",
            "5.3.0",
            "wolfssl-src",
            (
                *("-DWOLFSSL_DTLS=yes", "-DWOLFSSL_PSK=yes", "-DWOLFSSL_AESCCM=yes"),
                *("-DWOLFSSL_EXAMPLES=no", "-DWOLFSSL_CRYPT_TESTS=no", "-DBUILD_SHARED_LIBS=OFF"),
                "-DCMAKE_C_FLAGS=-DWOLFSSL_STATIC_PSK",
            ),
            ("wolfssl",),
            needs=_C,
        ),
        {
            CCM8: "PSK-AES128-CCM-8",
            CCM: "PSK-AES128-CCM",
            GCM: "PSK-AES128-GCM-SHA256",
            CHACHA: "ECDHE-PSK-CHACHA20-POLY1305",
            ECDSA_GCM: "ECDHE-ECDSA-AES128-GCM-SHA256",
            ECDSA_CHACHA: "ECDHE-ECDSA-CHACHA20-POLY1305",
        },
    ),
    Client(
        "tinydtls",
        "tinydtls 0.8.6",
        Recipe(
            "cmake",
            "tinydtls-sys",
            "0.2.0+tinydtls-9d6cf54",
            "src/tinydtls",
            targets=("tinydtls",),
            needs=_C,
        ),
        {CCM8: "TLS_PSK_WITH_AES_128_CCM_8"},
    ),
    Client(
        "gnutls",
        "GnuTLS 3.7.9",
        Recipe("gnutls", needs=("gcc",)),
        {
            CCM8: "PSK:+AES-128-CCM-8:+AEAD",
            CCM: "PSK:+AES-128-CCM:+AEAD",
            GCM: "PSK:+AES-128-GCM:+AEAD",
            CHACHA: "ECDHE-PSK:+CHACHA20-POLY1305:+AEAD",
            ECDSA_GCM: "ECDHE-ECDSA:+AES-128-GCM:+AEAD",
            ECDSA_CCM: "ECDHE-ECDSA:+AES-128-CCM:+AEAD",
        },
    ),
    Client(
        "pion",
        "pion/dtls 3.1.15",
        Recipe("go", version="3.1.15", needs=("go",)),
        {
            CCM8: "TLS_PSK_WITH_AES_128_CCM_8",
            CCM: "TLS_PSK_WITH_AES_128_CCM",
            GCM: "TLS_PSK_WITH_AES_128_GCM_SHA256",
            ECDSA_GCM: "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
            ECDSA_CCM: "TLS_ECDHE_ECDSA_WITH_AES_128_CCM",
        },
    ),
    Client(
        "micropython",
        "MicroPython 1.25",
        Recipe("micropython"),
        {
            ECDSA_GCM: "TLS-ECDHE-ECDSA-WITH-AES-128-GCM-SHA256",
            ECDSA_CHACHA: "TLS-ECDHE-ECDSA-WITH-CHACHA20-POLY1305-SHA256",
        },
    ),
)


def has_key(suite: str) -> bool:
    """Whether a suite is one with pre-shared keys."""
    return "PSK" in suite


def program(name: str, which: Callable[[str], str | None] = shutil.which) -> str | None:
    """A tool of a build: on PATH, or where its installer puts it."""
    places = {"go": Path("/usr/local/go/bin/go"), "cargo": Path.home() / ".cargo/bin/cargo"}
    found = which(name)
    if found is None and os.access(places.get(name, Path()), os.X_OK) and name in places:
        return str(places[name])
    return found
