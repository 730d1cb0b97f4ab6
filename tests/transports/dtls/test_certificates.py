import asyncio
from datetime import UTC, datetime, timedelta

import pytest

pytest.importorskip("OpenSSL", reason="pyOpenSSL is missing: make setup")

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from gateway.transports.dtls.openssl import certificate_contexts, ends_at, subject_of
from gateway.transports.dtls.options import CertificateFiles
from gateway.transports.dtls.packages import require_packages
from gateway.transports.errors import LinkError
from tests.support.dtls_client import DtlsClient
from tests.transports.dtls.listening import ELSEWHERE, HERE, Listening

NOW = datetime.now(UTC)
Pair = tuple[x509.Certificate, ec.EllipticCurvePrivateKey]


def certificate(
    name: str, by: Pair | None = None, *, alternative: str = "", days: int = 30
) -> Pair:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)] if name else [])
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject if by is None else by[0].subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(NOW - timedelta(days=60))
        .not_valid_after(NOW + timedelta(days=days))
        .add_extension(x509.BasicConstraints(ca=by is None, path_length=None), critical=True)
    )
    if alternative:
        names = x509.SubjectAlternativeName([x509.DNSName(alternative)])
        builder = builder.add_extension(names, critical=not name)
    return builder.sign(key if by is None else by[1], hashes.SHA256()), key


def pem(pair: Pair) -> bytes:
    return pair[0].public_bytes(serialization.Encoding.PEM)


def key_pem(pair: Pair) -> bytes:
    return pair[1].private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )


AUTHORITY, OTHER = certificate("authority"), certificate("other")
GATEWAY = certificate("gateway", AUTHORITY)
TANK = certificate("tank", AUTHORITY)


def files(allow: tuple[str, ...] = (), *revoked: Pair) -> CertificateFiles:
    crl = None
    if revoked:
        builder = (
            x509.CertificateRevocationListBuilder()
            .issuer_name(AUTHORITY[0].subject)
            .last_update(NOW - timedelta(days=1))
            .next_update(NOW + timedelta(days=1))
        )
        for each, _ in revoked:
            entry = x509.RevokedCertificateBuilder().serial_number(each.serial_number)
            builder = builder.add_revoked_certificate(entry.revocation_date(NOW).build())
        signed = builder.sign(AUTHORITY[1], hashes.SHA256())
        crl = signed.public_bytes(serialization.Encoding.PEM)
    return CertificateFiles(pem(GATEWAY), key_pem(GATEWAY), pem(AUTHORITY), crl, allow)


def connects(client: DtlsClient, given: CertificateFiles | None = None) -> tuple[bool, Listening]:
    listening = Listening(contexts=certificate_contexts(given or files()))

    async def connect() -> bool:
        found = listening.shake_hands(client)
        if not found:
            listening.link.close()
        return found

    return asyncio.run(connect()), listening


@pytest.mark.parametrize("mtu", [1200, 300])
def test_who_has_a_certificate_is_known_by_its_subject(mtu: int) -> None:
    is_connected, listening = connects(DtlsClient(certificate=TANK, mtu=mtu))
    assert is_connected
    assert listening.link.identity_of(HERE) == "cert:tank"


def test_without_a_common_name_the_first_alternative_one_counts() -> None:
    assert subject_of(certificate("", AUTHORITY, alternative="tank.example")[0]) == "tank.example"
    assert subject_of(certificate("tank", alternative="x.example")[0]) == "tank"
    assert subject_of(certificate("")[0]) == ""


@pytest.mark.parametrize(
    ("shown", "given"),
    [
        (None, files()),
        (certificate("tank", OTHER), files()),
        (certificate("tank", AUTHORITY, days=-1), files()),
        (TANK, files(("greenhouse-*",))),
        (TANK, files((), TANK)),
        (certificate("", AUTHORITY), files()),
    ],
    ids=["none", "other authority", "expired", "not allowed", "revoked", "no name"],
)
def test_who_may_not_come_in(shown: Pair | None, given: CertificateFiles) -> None:
    is_connected, listening = connects(DtlsClient(certificate=shown), given)
    assert not is_connected
    assert not listening.link.session_count


def test_who_may_come_in_by_lists() -> None:
    assert connects(DtlsClient(certificate=TANK), files(("ta*",)))[0]
    assert connects(DtlsClient(certificate=TANK), files((), certificate("x", AUTHORITY)))[0]


def test_new_files_are_for_new_handshakes_and_end_who_is_no_longer_allowed() -> None:
    async def story() -> None:
        listening = Listening(contexts=certificate_contexts(files()))
        well = certificate("well", AUTHORITY)
        client = DtlsClient(certificate=TANK)
        assert listening.shake_hands(client)
        assert listening.shake_hands(DtlsClient(certificate=well), ELSEWHERE)
        listening.link.use(certificate_contexts(files(("tank",))))
        assert not listening.air.waits, "it is told at once"
        assert listening.link.session_count == 1
        listening.receive(HERE, client.sealed(b"still here"))
        assert listening.heard == [(HERE, b"still here")]
        assert not listening.shake_hands(DtlsClient(certificate=well), ELSEWHERE)

    asyncio.run(story())


def test_a_certificate_that_is_revoked_meanwhile_ends_its_session_alone() -> None:
    async def story() -> None:
        listening = Listening(contexts=certificate_contexts(files()))
        well = certificate("well", AUTHORITY)
        client = DtlsClient(certificate=TANK)
        assert listening.shake_hands(client)
        assert listening.shake_hands(DtlsClient(certificate=well), ELSEWHERE)
        listening.link.use(certificate_contexts(files((), well)))
        assert listening.link.counters.sessions_ended == {"revoked": 1}
        listening.receive(HERE, client.sealed(b"still here"))
        assert listening.heard == [(HERE, b"still here")]

    asyncio.run(story())


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (CertificateFiles(b"x", key_pem(GATEWAY), pem(AUTHORITY)), "dtls.certificate holds no"),
        (CertificateFiles(pem(GATEWAY), b"x", pem(AUTHORITY)), "dtls.key holds no private key"),
        (CertificateFiles(pem(GATEWAY), key_pem(TANK), pem(AUTHORITY)), "does not belong to"),
        (CertificateFiles(pem(GATEWAY), key_pem(GATEWAY), b""), "dtls.ca holds no certificate"),
        (CertificateFiles(pem(GATEWAY), key_pem(GATEWAY), pem(AUTHORITY), b"x"), "dtls.crl holds"),
    ],
    ids=["certificate", "key", "other key", "ca", "crl"],
)
def test_files_that_are_not_what_they_should_be(given: CertificateFiles, said: str) -> None:
    with pytest.raises(LinkError, match=said) as caught:
        certificate_contexts(given)
    assert "PRIVATE KEY" not in str(caught.value)
    assert key_pem(GATEWAY).decode().splitlines()[1] not in repr(given)


def test_when_a_certificate_ends() -> None:
    found = ends_at(pem(GATEWAY))
    assert found is not None
    assert found > NOW
    assert ends_at(b"") is None


def test_a_binding_that_is_too_old_is_said_with_the_command(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    require_packages()
    monkeypatch.setattr("OpenSSL.__version__", "23.0.0")  # of Debian 12
    with pytest.raises(LinkError, match=r"pyOpenSSL 23\.0\.0 is too old.*; install them with:  "):
        require_packages()
