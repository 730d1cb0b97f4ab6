"""Whether what DTLS needs is installed, for those who ask before it is wanted."""

from __future__ import annotations

from gateway.host.installation import Installation
from gateway.transports.errors import LinkError

OLDEST = (24, 3)  # the first whose contexts take certificates and keys of cryptography


def require_packages() -> None:
    """Raises LinkError with the command that installs what is missing or too old."""
    try:
        import OpenSSL.SSL
    except ImportError as error:
        raise _missing(str(error)) from None
    version: str = OpenSSL.__version__
    if tuple(map(int, version.split(".")[:2])) < OLDEST:  # as that of Debian 12 is
        raise _missing(f"pyOpenSSL {version} is too old")
    from gateway.transports.dtls.openssl import check_binding

    check_binding()


def _missing(why: str) -> LinkError:
    how = Installation.this().adding("dtls")
    return LinkError(
        f"udp.security is DTLS, which needs pyOpenSSL and cryptography ({why}); "
        f"install them with:  {how}"
    )
