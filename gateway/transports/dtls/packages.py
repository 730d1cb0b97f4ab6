"""Whether what DTLS needs is installed, for those who ask before it is wanted."""

from __future__ import annotations

from gateway.host.installation import Installation
from gateway.transports.errors import LinkError


def require_packages() -> None:
    """Raises LinkError with the command that installs what is missing."""
    try:
        import OpenSSL.SSL  # noqa: F401
    except ImportError as error:
        how = Installation.this().adding("dtls")
        raise LinkError(
            f"udp.security is DTLS, which needs pyOpenSSL and cryptography ({error}); "
            f"install them with:  {how}"
        ) from None
    from gateway.transports.dtls.openssl import check_binding

    check_binding()
