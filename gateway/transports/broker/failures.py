"""Why a connection to the broker failed: a sentence that says what to do, a label to count by.

The sentences hold nothing that changes from try to try, so that the same reason reads the same and
the log has each reason once.
"""

from __future__ import annotations

import enum
import errno
import socket
import ssl
from hashlib import sha256

from gateway.host import limits
from gateway.host.causes import brief


class BrokerFailure(enum.Enum):
    """The label of a metric."""

    NAME = "name"  # the host name has no address
    REFUSED = "refused"
    TIMEOUT = "timeout"
    UNREACHABLE = "unreachable"
    TLS = "tls"
    CLOSED = "closed"  # it was open, and the other side or the network ended it
    DROPPED = "dropped"  # it was open, and we ended it
    OTHER = "other"


_UNREACHABLE = {errno.ENETUNREACH, errno.EHOSTUNREACH, errno.ENETDOWN, errno.EHOSTDOWN}
_RESET = {errno.ECONNRESET, errno.EPIPE, errno.ECONNABORTED}

_UNKNOWN_AUTHORITY = (
    "comes from an authority that is not trusted here: give its certificate as upstream.ca_file"
)

# OpenSSL's verification results (x509_vfy.h).
_CERTIFICATE_REASONS = {
    9: "is not valid yet: is the clock of this machine right?",
    10: "has expired: renew it on the broker, or is the clock of this machine wrong?",
    18: "is signed by itself: give that certificate as upstream.ca_file",
    19: _UNKNOWN_AUTHORITY,
    20: _UNKNOWN_AUTHORITY,
    21: _UNKNOWN_AUTHORITY,
    23: "has been revoked: renew it on the broker",
}
_WRONG_NAME = {62, 64}  # host name, IP address

_PLAIN_PORT = "is this a plain MQTT port (usually 1883; TLS is usually 8883)?"

# Reasons of OpenSSL, in its spelling, by what the operator has to look at.
_NO_TLS = (
    "WRONG_VERSION_NUMBER",
    "RECORD_LAYER_FAILURE",
    "PACKET_LENGTH_TOO_LONG",
    "HTTP_REQUEST",
    "EOF_OCCURRED",
)
_OLD_TLS = ("UNSUPPORTED_PROTOCOL", "ALERT_PROTOCOL_VERSION")
_CLIENT_CERTIFICATE = (
    "CERTIFICATE_REQUIRED",
    "ALERT_BAD_CERTIFICATE",
    "ALERT_CERTIFICATE_EXPIRED",
    "ALERT_CERTIFICATE_REVOKED",
    "ALERT_CERTIFICATE_UNKNOWN",
    "ALERT_UNSUPPORTED_CERTIFICATE",
    "ALERT_UNKNOWN_CA",
    "ALERT_HANDSHAKE_FAILURE",
    "ALERT_ACCESS_DENIED",
    "ALERT_DECRYPT_ERROR",
)


def explain(error: BaseException, host: str, port: int, tls: bool) -> str:
    """One sentence for the operator."""
    return diagnose(error, host, port, tls)[1]


def diagnose(
    error: BaseException, host: str, port: int, tls: bool, server_name: str | None = None
) -> tuple[BrokerFailure, str]:
    """The label and the sentence. `server_name`: where the certificate is to have another name."""
    where = _where(host, port)
    limit = limits.named(error)
    if limit is not None:
        return BrokerFailure.OTHER, f"no connection to {where} can be made now: {limit}"
    match error:
        case ssl.SSLError():
            return BrokerFailure.TLS, _explain_tls(error, server_name or host, where)
        case socket.gaierror():
            return BrokerFailure.NAME, explain_name(error, host, "upstream.url")
        case TimeoutError():
            return (
                BrokerFailure.TIMEOUT,
                f"{where} does not answer: check the address in upstream.url, the network "
                "and any firewall between",
            )
        case ConnectionRefusedError():
            return (
                BrokerFailure.REFUSED,
                f"nothing listens on {where}: is the broker running, and is this its port?",
            )
        case OSError():
            return _explain_network(error, where, tls)
        case _:
            return BrokerFailure.OTHER, f"{where} failed: {type(error).__name__}: {error}"


def diagnose_end(
    error: Exception | None, host: str, port: int, *, tls: bool, answered: bool
) -> tuple[BrokerFailure, str]:
    """For a connection that was open. `answered`: the broker had sent something on it.

    TLS 1.3 lets a client without the right certificate in and throws it out afterwards. mosquitto
    does that, and ends plain connections to its TLS port, without a message.
    """
    where = _where(host, port)
    lost = (ConnectionError, ssl.SSLEOFError)
    if error is not None and not isinstance(error, lost):
        return diagnose(error, host, port, tls)
    if answered:
        sentence = f"{where} closed the connection: see the log of the broker"
    elif tls:
        sentence = (
            f"{where} closed the connection without a word: see the log of the broker; "
            "if it asks for a client certificate, check upstream.cert_file and upstream.key_file"
        )
    else:
        sentence = (
            f"{where} closed the connection without a word: see the log of the broker; "
            "if this is its TLS port, write mqtts:// in upstream.url"
        )
    return BrokerFailure.CLOSED, sentence


def tls_expected(host: str, port: int) -> str:
    """For a connection without TLS on which a TLS alert arrived."""
    return f"{_where(host, port)} answers in TLS: write mqtts:// in upstream.url"


def unpinned(host: str, port: int, certificate: bytes | None) -> str:
    """For a certificate that is not in upstream.fingerprints. Nothing was sent."""
    found = sha256(certificate or b"").hexdigest()
    return (
        f"the certificate of {_where(host, port)} is none of upstream.fingerprints, but {found}: "
        "if the broker has a new certificate, compare that there and put it into the list"
    )


def _where(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def explain_name(error: socket.gaierror, host: str, key: str) -> str:
    """`key`: where the name is configured."""
    if error.errno == socket.EAI_AGAIN:
        return (
            f"the name {host!r} cannot be looked up: no name server answers; "
            "check the network and /etc/resolv.conf"
        )
    if ":" in host:  # an address, so what is not known is its zone
        zone = host.partition("%")[2]
        return f"this machine has no interface {zone!r} now: `ip address` shows all; see {key}"
    return f"the name {host!r} has no address: check the host in {key}"


def _explain_network(error: OSError, where: str, tls: bool) -> tuple[BrokerFailure, str]:
    if error.errno in _UNREACHABLE:
        return BrokerFailure.UNREACHABLE, f"there is no way to {where}: is the network up?"
    reset = isinstance(error, ConnectionError) or error.errno in _RESET
    if not reset:
        return BrokerFailure.OTHER, f"{where} failed: {brief(error)}"
    if not tls:
        return BrokerFailure.CLOSED, f"{where} broke the connection: see the log of the broker"
    if isinstance(error, ConnectionAbortedError) and "handshake" in str(error):
        return (
            BrokerFailure.TIMEOUT,
            f"{where} accepts connections but does not answer in TLS: {_PLAIN_PORT}",
        )
    return BrokerFailure.TLS, f"{where} broke off the TLS handshake: {_PLAIN_PORT}"


def _explain_tls(error: ssl.SSLError, host: str, where: str) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return _explain_certificate(error, host, where)
    reason = error.reason or str(error).upper().replace(" ", "_")
    if isinstance(error, ssl.SSLEOFError) or any(part in reason for part in _NO_TLS):
        return f"{where} does not answer in TLS: {_PLAIN_PORT}"
    if any(part in reason for part in _OLD_TLS):
        return (
            f"{where} offers no TLS of upstream.tls_min or newer: update the broker or its settings"
        )
    if "NO_APPLICATION_PROTOCOL" in reason:
        return f"{where} takes none of upstream.alpn: see what its documentation asks for"
    if "CERTIFICATE_EXPIRED" in reason:
        return (
            f"{where} says that our certificate has expired: renew upstream.cert_file, or is the "
            "clock of this machine or of the broker wrong?"
        )
    if any(part in reason for part in _CLIENT_CERTIFICATE):
        return (
            f"{where} refused our certificate or misses one: "
            "check upstream.cert_file and upstream.key_file, and what authority the broker trusts"
        )
    return f"TLS with {where} failed: {reason.lower().replace('_', ' ')}"


def _explain_certificate(error: ssl.SSLCertVerificationError, host: str, where: str) -> str:
    if error.verify_code in _WRONG_NAME:
        return (
            f"the certificate of {where} is not for {host!r}: use in upstream.url (or "
            "upstream.server_name) a name that the certificate has, or give the broker a "
            "certificate for this one"
        )
    reason = _CERTIFICATE_REASONS.get(error.verify_code, f"is not accepted: {error.verify_message}")
    return f"the certificate of {where} {reason}"
