"""The broker: its name, its port, its certificate, and what it answers to CONNECT.

A connection of its own, under another client id and with a session that ends with it: the gateway
may be running, and must not be thrown out.
"""

from __future__ import annotations

import contextlib
import shlex
import socket
import ssl
import time
from collections.abc import Iterator
from pathlib import Path

import mqtt5

from gateway.app.credentials import read_credentials, with_stored
from gateway.cli.doctor.findings import Finding, Level
from gateway.cli.doctor.section import Examined, Section
from gateway.config.credential import credential_of, stored_at
from gateway.config.settings import UpstreamSettings
from gateway.core.mqtt.reason_codes import spoken
from gateway.core.mqtt.session import NO_CONNACK
from gateway.host.supervisor import SYSTEMD, how_to
from gateway.packets.codec import (
    CONNACK,
    CONNACK_311_BYTES,
    BadPacketError,
    no_connack_but,
    packet_end,
    read_packet,
)
from gateway.transports.broker.failures import (
    BrokerFailure,
    diagnose,
    diagnose_end,
    tls_expected,
    unpinned,
)
from gateway.transports.errors import LinkError
from gateway.transports.port_owner import port_owner
from gateway.transports.tls import is_pinned

CLIENT_ID_SUFFIX = "-doctor"
EXPIRES_SOON_DAYS = 21
PACKET_BYTES_MAX = 64 << 10
OK = 0
_USUAL_PORTS = (1883, 8883)
_LOOPBACK = ("127.0.0.1", "localhost", "::1")
_TLS_ALERT = b"\x15\x03"
_CREDENTIALS = frozenset({0x86, 0x87, 0x8C})


class _EndError(Exception):
    """The connection ended before CONNACK."""


class _SilenceError(Exception):
    """CONNACK did not come in time."""


def examine(subject: Examined) -> Section:
    upstream = subject.configuration.settings.upstream
    section = Section("broker")
    url = f"{'mqtts' if upstream.tls else 'mqtt'}://{_where(upstream)}"
    section.facts["url"] = url
    try:
        settings = with_stored(subject.configuration.settings)
        credentials = read_credentials(settings)
    except LinkError as error:
        key = str(error).partition(" ")[0]
        full = key if "." in key else f"upstream.{key}"
        section.lines.append(("broker", f"{url}, not asked"))
        section.findings.append(Finding(Level.FAILURE, str(error), "", subject.edit(full)))
        return section
    if upstream.password_file is not None and settings.upstream.password_file is None:
        section.lines.append(("broker", f"{url}, not asked"))
        section.findings.append(
            Finding(
                Level.NOTE,
                f"the broker was not asked: {stored_at(upstream.password_file)} is for root and "
                "the service alone",
                "run this as root",
                "sudo tidegate doctor --only broker",
            )
        )
        return section
    _connect_once(subject, section, url, credentials.tls, credentials.password)
    return section


class _UnpinnedError(OSError):
    """The certificate is none of upstream.fingerprints."""


def _secured(
    plain: socket.socket, tls: ssl.SSLContext, upstream: UpstreamSettings
) -> ssl.SSLSocket:
    """Raises OSError."""
    line = tls.wrap_socket(plain, server_hostname=_name(upstream))
    shown = line.getpeercert(binary_form=True)
    if upstream.fingerprints and not is_pinned(shown, upstream.fingerprints):
        raise _UnpinnedError(unpinned(upstream.host, upstream.port, shown))
    return line


def _name(upstream: UpstreamSettings) -> str:
    return upstream.server_name or upstream.host.partition("%")[0]


def _connect_once(
    subject: Examined,
    section: Section,
    url: str,
    tls: ssl.SSLContext | None,
    password: bytes | None,
) -> None:
    upstream = subject.configuration.settings.upstream
    answered, certificate = False, None
    try:
        connected = socket.create_connection(
            (upstream.host, upstream.port), upstream.connect_timeout_s
        )
        with contextlib.closing(connected) as plain:
            plain.settimeout(upstream.connect_timeout_s)
            line = plain
            if tls is not None:
                line = _secured(plain, tls, upstream)
                certificate = line.getpeercert()
            line.sendall(_connect_packet(upstream, password))
            try:
                answer = _answer(line, upstream)
            except TimeoutError:
                raise _SilenceError from None
            answered = True
            with contextlib.suppress(OSError):
                line.sendall(mqtt5.DisconnectPacket().write())
    except (OSError, _EndError) as error:
        failure, text = _diagnosed(error, upstream)
        section.lines.append(("broker", f"{url}, {failure.value}"))
        section.facts["failure"] = failure.value
        is_here = failure is BrokerFailure.REFUSED and upstream.host in _LOOPBACK
        other = _other_broker(upstream) if is_here else None
        command = _command(failure, subject, upstream, other)
        if failure is BrokerFailure.TLS and not isinstance(error, ssl.SSLCertVerificationError):
            command = subject.edit("upstream.url")  # a plain port, most likely
        advice = _advice(failure, upstream, other)
        section.findings.append(Finding(Level.FAILURE, text, advice, command))
    except _SilenceError:
        section.lines.append(("broker", f"{url}, no CONNACK"))
        section.facts["failure"] = BrokerFailure.TIMEOUT.value
        text = f"{_where(upstream)}: {NO_CONNACK.format(seconds=upstream.connect_timeout_s)}"
        section.findings.append(Finding(Level.FAILURE, text, "", subject.edit("upstream.url")))
    except BadPacketError as error:
        text = f"{_where(upstream)} does not speak MQTT 5: {error}"
        section.lines.append(("broker", f"{url}, no MQTT 5"))
        section.findings.append(Finding(Level.FAILURE, text, "", subject.edit("upstream.url")))
    if answered:
        _add_answer(subject, section, url, answer)
    section.findings += _about_certificate(certificate)
    section.findings += _about_own_certificate(upstream)


def _connect_packet(upstream: UpstreamSettings, password: bytes | None) -> bytes:
    return mqtt5.ConnectPacket(
        upstream.client_id + CLIENT_ID_SUFFIX,
        username=upstream.username,
        password=password,
        clean_start=True,
        keep_alive=upstream.keep_alive_s,
    ).write()


def _answer(line: socket.socket, upstream: UpstreamSettings) -> mqtt5.ConnAckPacket:
    data = _first_packet(line, upstream)
    if data[0] == CONNACK and len(data) == CONNACK_311_BYTES:
        raise BadPacketError("it answers CONNECT as MQTT 3.1.1 does")
    try:
        packet, _, _ = read_packet(memoryview(data))
    except BadPacketError:
        if data[0] != CONNACK:
            raise BadPacketError(no_connack_but(data)) from None
        raise
    if not isinstance(packet, mqtt5.ConnAckPacket):
        raise BadPacketError(f"it answers {type(packet).__name__} to CONNECT")
    return packet


def _first_packet(line: socket.socket, upstream: UpstreamSettings) -> bytes:
    data = b""
    while (end := packet_end(data, 0, PACKET_BYTES_MAX)) is None:
        try:
            more = line.recv(4096)
        except ConnectionError:
            more = b""
        if not more and data:
            raise BadPacketError(no_connack_but(data))
        if not more:
            raise _EndError
        data += more
        if data.startswith(_TLS_ALERT) and not upstream.tls:
            raise ssl.SSLError(1, "plain to a TLS port")
    if end < 0:
        raise BadPacketError(f"it answers CONNECT with {-end} bytes")
    return data[:end]


def _diagnosed(error: Exception, upstream: UpstreamSettings) -> tuple[BrokerFailure, str]:
    host, port, tls = upstream.host, upstream.port, upstream.tls
    if isinstance(error, _EndError):
        return diagnose_end(None, host, port, tls=tls, answered=False)
    if isinstance(error, ssl.SSLError) and not tls:
        return BrokerFailure.TLS, tls_expected(host, port)
    if isinstance(error, _UnpinnedError):
        return BrokerFailure.TLS, str(error)
    return diagnose(error, host, port, tls, _name(upstream))


def _add_answer(subject: Examined, section: Section, url: str, answer: mqtt5.ConnAckPacket) -> None:
    code = int(answer.reason_code)
    section.facts["connack"] = code
    if code == OK:
        section.lines.append(("broker", f"{url}, accepts us"))
        return
    section.lines.append(("broker", f"{url}, CONNACK {code:#04x}"))
    text = spoken("CONNACK", code, answer.reason_str, answer.server_reference)
    advice, command = "", subject.edit("upstream.url")
    path = subject.configuration.settings.upstream.password_file
    if code in _CREDENTIALS and path is None:
        advice = "set upstream.username and upstream.password_file"
        command = subject.edit("upstream.username")
    elif code in _CREDENTIALS and path is not None:
        advice = "type the right password, Enter and Ctrl-D; then: "
        command = f"sudo tee {shlex.quote(str(stored_at(path)))} >/dev/null"
        # A reload does not read a credential again.
        advice += how_to("reload" if credential_of(path) is None else "restart")
    elif code == 0x85:
        command = subject.edit("upstream.client_id")
    section.findings.append(Finding(Level.FAILURE, text, advice, command))


def _other_broker(upstream: UpstreamSettings) -> str | None:
    """What listens on this machine where a broker usually does: "mosquitto (process 412) listens on
    port 1883".
    """
    for port in _USUAL_PORTS:
        owner = port_owner(port, "tcp") if port != upstream.port else None
        if owner is not None:
            return f"{owner} listens on port {port}"
    return None


def _advice(failure: BrokerFailure, upstream: UpstreamSettings, other: str | None) -> str:
    if other is not None:
        return other
    if failure is BrokerFailure.REFUSED and upstream.host not in _LOOPBACK:
        return (
            "mosquitto 2 listens to its own machine alone until it is told otherwise; there: "
            "printf 'listener 1883\\nallow_anonymous true\\n' | sudo tee "
            "/etc/mosquitto/conf.d/listener.conf && sudo systemctl restart mosquitto"
        )
    return ""


def _command(
    failure: BrokerFailure, subject: Examined, upstream: UpstreamSettings, other: str | None
) -> str:
    host, port = shlex.quote(upstream.host), upstream.port
    match failure:
        case BrokerFailure.REFUSED if upstream.host in _LOOPBACK:
            return subject.edit("upstream.url") if other else _start_command()
        case BrokerFailure.REFUSED:  # without a program that has to be installed for it
            return f"timeout 5 bash -c '</dev/tcp/{upstream.host}/{port}' && echo open"
        case BrokerFailure.TIMEOUT | BrokerFailure.UNREACHABLE:
            return f"""ip route get "$(getent ahosts {host} | awk 'NR==1 {{print $1}}')\""""
        case BrokerFailure.TLS:
            return (
                f"openssl s_client -connect {host}:{port} -servername {host} </dev/null | "
                "openssl x509 -noout -subject -issuer -dates -ext subjectAltName"
            )
        case BrokerFailure.NAME:
            return subject.edit("upstream.url")
        case BrokerFailure.CLOSED if not upstream.tls:
            return subject.edit("upstream.url")
        case _:
            on = "" if upstream.host in _LOOPBACK else f"ssh {host} "  # its log is where it runs
            return f"{on}sudo journalctl -u mosquitto -n 50"


def _start_command() -> str:
    places = ("/usr/sbin", "/usr/local/sbin")
    found = next((Path(place) for place in places if Path(place, "mosquitto").exists()), None)
    if found is None:
        return "sudo apt-get install -y mosquitto"
    if SYSTEMD.exists():
        return "sudo systemctl enable --now mosquitto"
    return f"{found}/mosquitto -d"  # a container, or a machine with another init


def _about_certificate(certificate: object) -> Iterator[Finding]:
    if not isinstance(certificate, dict) or "notAfter" not in certificate:
        return
    days = _days_until(str(certificate["notAfter"]))
    if days < EXPIRES_SOON_DAYS:
        yield Finding(
            Level.WARNING,
            f"the certificate of the broker expires in {days:.0f} days",
            "renew it on the broker; the gateway notices by itself",
            "sudo certbot renew",
        )


def _about_own_certificate(upstream: UpstreamSettings) -> Iterator[Finding]:
    if upstream.cert_file is None:
        return
    path = str(upstream.cert_file)
    try:
        # Not for the public, but the only reader of certificates in the standard library.
        certificate = ssl._ssl._test_decode_cert(path)  # type: ignore[attr-defined]
        days = _days_until(str(certificate["notAfter"]))
    except (OSError, ValueError, KeyError):
        return  # read_credentials has said what is wrong with it
    if days < EXPIRES_SOON_DAYS:
        has = "has expired" if days < 0 else f"expires in {days:.0f} days"
        yield Finding(
            Level.FAILURE if days < 0 else Level.WARNING,
            f"upstream.cert_file {path}, by which the broker knows this gateway, {has}",
            f"put a new one there, then: {how_to('reload')}",
            f"sudo install -m 0644 NEW_FILE {shlex.quote(path)}",
        )


def _days_until(text: str) -> float:
    return (ssl.cert_time_to_seconds(text) - time.time()) / 86_400


def _where(upstream: UpstreamSettings) -> str:
    host, port = upstream.host, upstream.port
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
