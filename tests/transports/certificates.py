"""Certificates for one test run, made by the openssl command."""

from __future__ import annotations

import ssl
import subprocess
from pathlib import Path


class Certificates:
    """An authority, what it signed, and what is wrong in each interesting way."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.authority = self._authority("authority")
        self.other_authority = self._authority("other")
        self.server = self.signed("server", "subjectAltName=DNS:localhost,IP:127.0.0.1")
        self.name_only = self.signed("name_only", "subjectAltName=DNS:localhost")
        self.wrong_name = self.signed("wrong_name", "subjectAltName=DNS:elsewhere.example")
        self.expired = self.signed("expired", "subjectAltName=DNS:localhost", days=-1)
        self.client = self.signed("client", "subjectAltName=DNS:gateway")
        self.untrusted = self.signed("untrusted", "subjectAltName=DNS:gateway", by="other")

    def key(self, certificate: Path) -> Path:
        return certificate.with_suffix(".key")

    def server_context(self, certificate: Path) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, self.key(certificate))
        return context

    def signed(self, name: str, extension: str, *, by: str = "authority", days: int = 30) -> Path:
        request = self.folder / f"{name}.csr"
        extensions = self.folder / f"{name}.ext"
        extensions.write_text(extension + "\n")
        certificate = self.folder / f"{name}.pem"
        self._new_key("req", "-new", "-subj", f"/CN={name}", name=name, out=request)
        valid: tuple[object, ...] = ("-days", days)
        if days < 0 and takes_dates():
            valid = ("-not_before", "20200101000000Z", "-not_after", "20200102000000Z")
        openssl(
            "x509", "-req", "-in", request, "-out", certificate, *valid,
            "-CA", self.folder / f"{by}.pem", "-CAkey", self.folder / f"{by}.key",
            "-CAcreateserial", "-extfile", extensions,
        )  # fmt: skip
        return certificate

    def _authority(self, name: str) -> Path:
        certificate = self.folder / f"{name}.pem"
        self._new_key(
            "req", "-x509", "-days", "30", "-subj", f"/CN=Test {name}", name=name, out=certificate
        )
        return certificate

    def _new_key(self, *command: str, name: str, out: Path) -> None:
        key = self.folder / f"{name}.key"
        curve = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")
        openssl(*command, *curve, "-keyout", key, "-out", out)


def takes_dates() -> bool:
    """Since 3.4, which takes no negative number of days any more."""
    said = subprocess.run(["openssl", "x509", "-help"], capture_output=True, text=True, check=True)
    return "-not_after" in said.stdout + said.stderr


def openssl(*arguments: object) -> None:
    subprocess.run(
        ["openssl", *map(str, arguments)], check=True, capture_output=True, stdin=subprocess.DEVNULL
    )
