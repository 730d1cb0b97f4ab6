"""Every way in which certificate files are wrong, with the words that the operator reads."""

from __future__ import annotations

import os
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from gateway.transports.tls import LinkError, client_context
from tests.transports.certificates import Certificates, openssl


def refusal(ca_file: Path | None, cert_file: Path | None, key_file: Path | None) -> str:
    with pytest.raises(LinkError) as refused:
        client_context(ca_file, cert_file, key_file)
    return str(refused.value)


def test_verification_is_always_on(certificates: Certificates) -> None:
    for ca_file in (None, certificates.authority):
        context = client_context(ca_file, None, None)
        assert context.verify_mode is ssl.CERT_REQUIRED
        assert context.check_hostname
        assert context.minimum_version is ssl.TLSVersion.TLSv1_2


def test_only_the_given_authority_is_trusted(certificates: Certificates) -> None:
    context = client_context(str(certificates.authority), None, None)
    (trusted,) = context.get_ca_certs()
    assert trusted["subject"] == ((("commonName", "Test authority"),),)


def test_the_key_may_be_in_the_certificate_file(certificates: Certificates, tmp_path: Path) -> None:
    both = tmp_path / "both.pem"
    both.write_bytes(
        certificates.client.read_bytes() + certificates.key(certificates.client).read_bytes()
    )
    client_context(None, both, None)
    client_context(None, certificates.client, certificates.key(certificates.client))


def test_a_missing_file_is_named(certificates: Certificates, tmp_path: Path) -> None:
    nowhere = tmp_path / "nowhere.pem"
    assert refusal(nowhere, None, None) == f"ca_file {nowhere} does not exist"
    assert refusal(None, nowhere, None) == f"cert_file {nowhere} does not exist"
    assert refusal(None, certificates.client, nowhere) == f"key_file {nowhere} does not exist"


def test_a_folder_is_no_certificate(tmp_path: Path) -> None:
    assert refusal(tmp_path, None, None) == f"ca_file {tmp_path} cannot be read: Is a directory"


def test_a_file_of_another_user_is_named(certificates: Certificates, tmp_path: Path) -> None:
    locked = tmp_path / "locked.pem"
    locked.write_bytes(certificates.authority.read_bytes())
    locked.chmod(0)
    with nobody_special():
        said = refusal(locked, None, None)
    assert said == f"ca_file {locked} may not be read by this user: check its mode"


@contextmanager
def nobody_special() -> Iterator[None]:
    """Root reads everything; the daemon does not run as root."""
    user = os.geteuid()
    if user == 0:
        os.seteuid(65534)
    try:
        yield
    finally:
        if user == 0:
            os.seteuid(0)


def test_a_key_without_a_certificate_is_of_no_use(certificates: Certificates) -> None:
    key = certificates.key(certificates.client)
    assert refusal(None, None, key) == (
        f"key_file {key} is of no use without cert_file: give both or neither"
    )


def test_a_file_that_is_not_pem_is_named(certificates: Certificates, tmp_path: Path) -> None:
    notes = tmp_path / "notes.txt"
    notes.write_text("the certificate is in the other drawer\n")
    assert refusal(notes, None, None) == f"ca_file {notes} holds no certificate in PEM form"
    assert (
        refusal(None, certificates.client, notes)
        == f"key_file {notes} holds no private key in PEM form"
    )


def test_der_form_comes_with_the_command_that_converts_it(
    certificates: Certificates, tmp_path: Path
) -> None:
    der = tmp_path / "authority.der"
    openssl("x509", "-in", certificates.authority, "-outform", "DER", "-out", der)
    assert f"`openssl x509 -inform DER -in {der} -out NEW_FILE`" in refusal(der, None, None)


def test_a_key_of_another_certificate_is_named(certificates: Certificates) -> None:
    key = certificates.key(certificates.server)
    assert refusal(None, certificates.client, key) == (
        f"key_file {key} does not belong to cert_file {certificates.client}"
    )


def test_an_encrypted_key_is_refused_without_asking_anyone(
    certificates: Certificates, tmp_path: Path
) -> None:
    locked = tmp_path / "encrypted.key"
    plain = certificates.key(certificates.client)
    openssl("pkey", "-in", plain, "-aes256", "-passout", "pass:secret", "-out", locked)
    said = refusal(None, certificates.client, locked)
    assert said.startswith(f"key_file {locked} is encrypted")
    assert f"`openssl pkey -in {locked} -out NEW_FILE`" in said


@pytest.mark.parametrize("key", ["ca_file", "cert_file"])
def test_a_damaged_certificate_is_named(
    certificates: Certificates, tmp_path: Path, key: str
) -> None:
    damaged = tmp_path / "damaged.pem"
    text = certificates.client.read_text()
    damaged.write_text(text[:100] + "!!!" + text[200:])
    ours = certificates.key(certificates.client)
    said = refusal(damaged, None, None) if key == "ca_file" else refusal(None, damaged, ours)
    assert said.startswith(f"{key} {damaged} ")
    assert "copy" in said
