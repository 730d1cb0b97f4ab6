"""The files of the configuration that hold secrets, read: passwords, certificates with keys, and
the keys of devices.

Read as a whole or not at all, at the start and at each reload, so that a gateway never goes on with
half of what is new.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from ssl import SSLContext
from typing import TYPE_CHECKING

from gateway.config.credential import credential_of, stored_at
from gateway.config.regular_file import opening, read_regular
from gateway.config.settings import Settings
from gateway.transports.errors import LinkError, NotAllowedError
from gateway.transports.tls import FILE_BYTES_MAX, broker_context, page_context

USUAL_CONFIG = Path("/etc/tidegate/config.toml")

if TYPE_CHECKING:
    from gateway.storage.keys.valid import ValidKeys
    from gateway.transports.dtls.options import CertificateFiles


@dataclass(frozen=True, slots=True)
class Credentials:
    """`tls_files` tells whether certificates or keys are others than before, and `keys_digest` the
    same of the keys of devices. `keys`: None without any. `dtls` is there where a listener asks for
    certificates.
    """

    password: bytes | None = field(repr=False)
    admin_password: bytes | None = field(repr=False)
    tls: SSLContext | None = field(compare=False)
    tls_files: tuple[bytes, ...]
    keys: ValidKeys | None = field(compare=False, default=None)
    keys_digest: bytes = b""
    page: SSLContext | None = field(default=None, compare=False)
    page_files: tuple[bytes, ...] = ()
    dtls: CertificateFiles | None = None

    def is_same_but_for_keys(self, other: Credentials) -> bool:
        """Nothing that is there for the broker or the page has changed."""
        return replace(self, keys_digest=other.keys_digest) == other


def read_credentials(settings: Settings, config: Path = USUAL_CONFIG) -> Credentials:
    """Raises LinkError with the file and what is wrong with it. `config`: where to repair it."""
    refuse_open_page(settings, config)
    return _read(settings)


def _read(settings: Settings) -> Credentials:
    upstream, admin, tls, page = settings.upstream, settings.admin, None, None
    files: list[Path | None] = []
    page_files: list[Path | None] = []
    if upstream.tls:
        files = [upstream.ca_file, upstream.cert_file, upstream.key_file]
        tls = broker_context(upstream)
    if admin.listen is not None and admin.certificate is not None:
        page_files = [admin.certificate, admin.key]
        page = page_context(admin.certificate, admin.key)
    password = _password("upstream.password_file", upstream.password_file)
    admin_password = _password("admin.password_file", settings.admin.password_file)
    if admin_password == b"":
        raise LinkError(f"admin.password_file {settings.admin.password_file} holds no password")
    keys, keys_digest = _device_keys(settings.keys_file, settings.gateway.state_dir)
    if keys is not None:
        from gateway.app.protected_packets import load_schemes  # where there are keys alone

        load_schemes(settings.protection)
    return Credentials(
        password=password,
        admin_password=admin_password,
        tls=tls,
        tls_files=_digests(files),
        keys=keys,
        keys_digest=keys_digest,
        page=page,
        page_files=_digests(page_files),
        dtls=dtls_files(settings),
    )


def refuse_open_page(settings: Settings, config: Path = USUAL_CONFIG) -> None:
    """Raises LinkError for a page that other machines reach and that asks for no sign-in."""
    listen = settings.admin.listen
    if listen is None or listen.is_loopback or settings.has_accounts:
        return
    if settings.admin.anonymous == "viewer":
        return
    raise LinkError(
        f"admin.listen {listen} is reached by other machines, and there is no password, user or "
        'token; admin.anonymous = "viewer" shows all of it to them, without actions; this makes a '
        f"user:  tidegate password --user admin --role operator | sudo tee -a {config}"
    )


def dtls_files(settings: Settings) -> CertificateFiles | None:
    """None where no listener asks for certificates. Raises LinkError with the file and what is
    wrong with it, or where the packages for DTLS are missing.
    """
    if not any(udp.has_dtls for udp in settings.listeners):
        return None
    from gateway.transports.dtls.packages import require_packages  # only when wanted

    require_packages()
    if not any(udp.security == "dtls-cert" for udp in settings.listeners):
        return None
    from gateway.transports.dtls.allow_list import LIST_BYTES_MAX, subjects_in
    from gateway.transports.dtls.openssl import certificate_contexts
    from gateway.transports.dtls.options import CertificateFiles

    dtls = settings.dtls
    if dtls.certificate is None or dtls.key is None or dtls.ca is None:
        return None  # credentials that are not handed over here; see `with_stored`
    allow = dtls.allow
    if dtls.allow_file is not None:
        listed = _content("dtls.allow_file", dtls.allow_file, LIST_BYTES_MAX + 1)
        allow += subjects_in(listed)
    files = CertificateFiles(
        certificate=_content("dtls.certificate", dtls.certificate),
        key=_content("dtls.key", dtls.key),
        ca=_content("dtls.ca", dtls.ca),
        crl=None if dtls.crl is None else _content("dtls.crl", dtls.crl),
        allow=allow,
    )
    certificate_contexts(files)
    return files


def refuse_unusable(settings: Settings, config: Path = USUAL_CONFIG) -> None:
    """Raises LinkError as `read_credentials` does, also where systemd has not handed over its
    credentials.
    """
    refuse_open_page(settings, config)
    _read(with_stored(settings))


def with_stored(settings: Settings) -> Settings:
    """Where systemd has not handed over its credentials: what can be read is taken from where the
    operator puts them, and the rest is left out.
    """
    upstream, admin = settings.upstream, settings.admin
    cert_file, key_file = _at_hand(upstream.cert_file), _at_hand(upstream.key_file)
    if cert_file is None or (upstream.key_file is not None and key_file is None):
        cert_file = key_file = None
    upstream = replace(
        upstream,
        ca_file=_at_hand(upstream.ca_file),
        cert_file=cert_file,
        key_file=key_file,
        password_file=_at_hand(upstream.password_file),
    )
    certificate, key = _at_hand(admin.certificate), _at_hand(admin.key)
    if certificate is None or (admin.key is not None and key is None):
        certificate = key = None
    password_file = _at_hand(admin.password_file)
    admin = replace(admin, password_file=password_file, certificate=certificate, key=key)
    security = replace(settings.security, keys_file=_at_hand(settings.security.keys_file))
    dtls = settings.dtls
    dtls = replace(
        dtls,
        certificate=_at_hand(dtls.certificate),
        key=_at_hand(dtls.key),
        ca=_at_hand(dtls.ca),
        crl=_at_hand(dtls.crl),
        allow_file=_at_hand(dtls.allow_file),
    )
    return replace(settings, upstream=upstream, admin=admin, security=security, dtls=dtls)


def _at_hand(path: Path | None) -> Path | None:
    """Any path, but for a credential that cannot be read here."""
    if path is None or credential_of(path) is None:
        return path
    return next(filter(_is_readable, (path, stored_at(path))), None)


def _is_readable(path: Path) -> bool:
    try:
        read_regular(path, 1)
    except OSError:
        return False
    return True


def _device_keys(path: Path, state_dir: Path) -> tuple[ValidKeys | None, bytes]:
    """Raises LinkError."""
    opening(path)
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError):  # of the folder others say more
        if credential_of(path) is None:
            return None, b""  # no device has a key yet
    except OSError as error:
        if isinstance(error, PermissionError) and path.parent == state_dir:  # not set by anyone
            from gateway.host.causes import not_allowed

            reason = not_allowed(state_dir, "gateway.state_dir")
            raise NotAllowedError(f"gateway.state_dir {state_dir} {reason}") from error
        raise LinkError(f"security.keys_file {path} cannot be read: {error.strerror}") from error
    from gateway.storage.keys.errors import KeysError  # where there are keys alone
    from gateway.storage.keys.file import read_keys
    from gateway.storage.keys.valid import ValidKeys

    try:
        records, digest = read_keys(path)
    except KeysError as error:
        raise LinkError(f"security.keys_file {error}") from None
    from gateway.app.protected_packets import has_package  # not first in the event loop

    has_package()
    return ValidKeys(records), digest


def _password(key: str, path: Path | None) -> bytes | None:
    return None if path is None else _content(key, path).rstrip(b"\r\n")


def _content(key: str, path: Path, bytes_max: int = FILE_BYTES_MAX) -> bytes:
    try:
        return read_regular(path, bytes_max)
    except OSError as error:
        raise LinkError(f"{key} {path} cannot be read: {error.strerror}") from error


def _digests(paths: list[Path | None]) -> tuple[bytes, ...]:
    return tuple(_digest(path) for path in paths if path is not None)


def _digest(path: Path) -> bytes:
    try:
        return sha256(read_regular(path, FILE_BYTES_MAX)).digest()
    except OSError:  # it was there a moment ago; it counts as another one
        return b""
