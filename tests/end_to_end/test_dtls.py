"""A gateway with DTLS listeners, as its user runs it, and clients that were not written here."""

import asyncio
import os
import shutil
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.request import urlopen

import pytest

pytest.importorskip("OpenSSL", reason="pyOpenSSL is missing: make setup")

from cryptography import x509
from cryptography.hazmat.primitives import serialization

from gateway.app.service.reloading import FILES_EVERY_S
from hil.faults.lossy_proxy import Impairment, LossyProxy
from hil.rig.gateway import GatewayProcess
from hil.rig.mosquitto import Mosquitto
from hil.rig.ports import free_port, free_udp_port
from hil.rig.scripted_client import BlockingClient, framed
from tests.support.dtls_client import DtlsClient, DtlsSocket
from tests.transports.certificates import Certificates

KEY = bytes(range(16))
OPENSSL = shutil.which("openssl")
needs_openssl = pytest.mark.skipif(
    OPENSSL is None, reason="openssl is missing: apt install openssl"
)


@pytest.fixture
def gateway(broker: Mosquitto, tmp_path: Path) -> Iterator[GatewayProcess]:
    hook = tmp_path / "hook"
    hook.write_text(f'#!/bin/sh\ncase "$1" in\nsensor-*) echo {KEY.hex()};;\nesac\n')
    hook.chmod(0o755)
    config = (
        f'[[udp]]\nlisten = "127.0.0.1:{free_udp_port()}"\nsecurity = "dtls-psk"\n'
        f'[dtls]\nkey_hook = "{hook}"\n[log]\nlevel = "debug"\n[mqtt_sn]\nretry_after_s = 0.5\n'
    )
    with GatewayProcess(tmp_path, broker.url, config) as running:
        running.wait_until_connected()
        yield running


def client(
    port: int, name: str, suites: str = "PSK-AES128-CCM8", key: bytes = KEY
) -> BlockingClient:
    found = BlockingClient(port, name, retry_s=0.5, timeout_s=60)
    found.socket = DtlsSocket(  # type: ignore[assignment]
        DtlsClient(name, key, suites=suites), found.socket
    )
    found.socket.settimeout(0.5)
    return found


def all_features(port: int, name: str) -> None:
    """CONNECT, every QoS each way, sleep and waking up."""
    with client(port, name) as sensor:
        sensor.does(sensor.connecting())
        topic = sensor.does(sensor.registering(f"{name}/up"))
        for qos in (0, 1, 2):
            sensor.does(sensor.publishing(topic, b"%d" % qos, qos=qos))
        sensor.does(sensor.subscribing(f"{name}/up".encode(), qos=1))
        sensor.does(sensor.leaving(60))
        sensor.ask(0x16, name.encode(), 0x17)
        sensor.does(sensor.connecting(clean=False))
        sensor.does(sensor.publishing(topic, b"back", qos=1))
        sensor.does(sensor.leaving())


def test_all_features_over_a_network_that_loses_and_copies(
    gateway: GatewayProcess, broker: Mosquitto
) -> None:
    gateway_port = gateway.port

    async def story() -> None:
        proxy = LossyProxy(gateway_port, 46, Impairment(loss=0.1, copies=0.1, delayed=0.0))
        await proxy.open()
        try:
            names = [f"sensor-{number}" for number in range(3)]
            async with asyncio.TaskGroup() as group:
                for name in names:
                    group.create_task(asyncio.to_thread(all_features, proxy.port, name))
        finally:
            proxy.close()
        assert proxy.fault_counts["lost"]

    asyncio.run(story())
    assert KEY.hex() not in gateway.log
    assert str(KEY) not in gateway.log


class SClient:
    """`openssl s_client`: what it is told goes out as one record, what comes in is told."""

    timeout_s = 20.0

    def __init__(self, port: int, *options: object) -> None:
        assert OPENSSL is not None
        command = (OPENSSL, "s_client", "-dtls1_2", "-quiet", "-connect", f"127.0.0.1:{port}")
        self._process = subprocess.Popen(
            [*command, *map(str, options)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        self.said = b""
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        while said := os.read(self._process.stdout.fileno(), 4096):
            self.said += said

    def ask(self, message: bytes, answer: bytes) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(message)
        self._process.stdin.flush()
        until = time.monotonic() + self.timeout_s
        while answer not in self.said:
            assert time.monotonic() < until, self.said
            time.sleep(0.01)
        self.said = b""

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.terminate()
        self._process.wait()
        self._reader.join()


def conversation(peer: SClient) -> None:
    peer.ask(framed(0x04, b"\x04\x01\x00\x3cs-client"), b"\x03\x05\x00")
    peer.ask(framed(0x0A, b"\x00\x00\x00\x01a/b"), b"\x07\x0b\x00\x01\x00\x01\x00")
    peer.ask(framed(0x0C, b"\x20\x00\x01\x00\x02one"), b"\x07\x0d\x00\x01\x00\x02\x00")
    peer.ask(framed(0x0C, b"\x40\x00\x01\x00\x03two"), b"\x04\x0f\x00\x03")
    peer.ask(framed(0x10, b"\x00\x03"), b"\x04\x0e\x00\x03")
    peer.ask(framed(0x12, b"\x20\x00\x04a/b"), b"\x13")
    peer.ask(framed(0x18, b"\x00\x3c"), b"\x02\x18")
    peer.ask(framed(0x16, b"s-client"), b"\x02\x17")


def certified(
    port: int, name: str, made: Certificates, own: Path
) -> tuple[BlockingClient, DtlsSocket]:
    """Connected, by a certificate."""
    key = serialization.load_pem_private_key(made.key(own).read_bytes(), None)
    shown = x509.load_pem_x509_certificate(own.read_bytes()), key
    found = BlockingClient(port, name, retry_s=0.5, timeout_s=30)
    secure = DtlsSocket(DtlsClient(certificate=shown), found.socket)  # type: ignore[arg-type]
    found.socket = secure  # type: ignore[assignment]
    found.does(found.connecting())
    return found, secure


@needs_openssl
@pytest.mark.parametrize(
    "suite",
    ["PSK-AES128-GCM-SHA256", "PSK-AES128-CCM8:@SECLEVEL=0", "ECDHE-PSK-CHACHA20-POLY1305"],
)
def test_openssl_s_client_with_a_key(gateway: GatewayProcess, suite: str) -> None:
    peer = SClient(gateway.port, "-psk_identity", "sensor-s", "-psk", KEY.hex(), "-cipher", suite)
    try:
        conversation(peer)
    finally:
        peer.close()
    assert "psk:sensor-s at 127.0.0.1" in gateway.log


def by_certificates(port: int, made: Certificates, shown: Path, more: str) -> str:
    """A listener, with what follows in the table [dtls]. `shown`: the gateway's certificate."""
    return (
        f'[[udp]]\nlisten = "127.0.0.1:{port}"\nsecurity = "dtls-cert"\n'
        f'[dtls]\ncertificate = "{shown}"\nkey = "{made.key(shown)}"\nca = "{made.authority}"\n'
        f"{more}"
    )


@needs_openssl
def test_openssl_s_client_with_a_certificate(broker: Mosquitto, tmp_path: Path) -> None:
    made = Certificates(tmp_path)
    port = free_udp_port()
    config = by_certificates(port, made, made.server, 'allow = ["cli*"]\n[log]\nlevel = "debug"\n')
    with GatewayProcess(tmp_path, broker.url, config) as running:
        running.wait_until_connected()
        shown = ("-cert", made.client, "-key", made.key(made.client), "-CAfile", made.authority)
        peer = SClient(port, *shown, "-verify_return_error")
        try:
            conversation(peer)
        finally:
            peer.close()
        assert "cert:client at 127.0.0.1" in running.log
        other = SClient(port, "-cert", made.untrusted, "-key", made.key(made.untrusted))
        other.timeout_s = 2.0
        with pytest.raises((AssertionError, BrokenPipeError)):
            other.ask(framed(0x04, b"\x04\x01\x00\x3cother"), b"\x03\x05\x00")
        other.close()


def test_files_that_change_are_taken_without_a_signal_and_sessions_go_on(
    broker: Mosquitto, tmp_path: Path
) -> None:
    """A new certificate is for new handshakes; a broken one is not used, and an alarm says so."""
    made = Certificates(tmp_path)
    port, page = free_udp_port(), free_port(socket.SOCK_STREAM)
    shown = tmp_path / "shown.pem"
    shown.write_bytes(made.server.read_bytes())
    made.key(shown).write_bytes(made.key(made.server).read_bytes())
    config = by_certificates(port, made, shown, f'[admin]\nlisten = "127.0.0.1:{page}"\n')

    def connected(name: str) -> tuple[BlockingClient, str]:
        """With the subject of the certificate that the gateway shows."""
        found, secure = certified(port, name, made, made.client)
        subject = secure.client.connection.get_peer_certificate()
        assert subject is not None
        return found, str(subject.get_subject().CN)

    def alarms() -> str:
        with urlopen(f"http://127.0.0.1:{page}/healthz", timeout=10) as answer:
            return str(answer.read())

    with GatewayProcess(tmp_path, broker.url, config) as running:
        running.wait_until_connected()
        sensor, subject = connected("before")
        assert subject == "server"
        topic = sensor.does(sensor.registering("a"))
        time.sleep(FILES_EVERY_S)  # what is there is looked at before it is another one
        made.key(shown).write_bytes(made.key(made.name_only).read_bytes())
        shown.write_bytes(made.name_only.read_bytes())
        running.wait_for_log("a password or a certificate is another one", timeout_s=30)
        sensor.does(sensor.publishing(topic, b"same session", qos=1))
        shown.write_bytes(b"-----BEGIN")
        running.wait_for_log("dtls.certificate holds no certificate", timeout_s=30)
        assert "dtls.certificate holds no certificate" in alarms()
        sensor.does(sensor.publishing(topic, b"still", qos=1))
        sensor.socket.close()
        other, subject = connected("after")
        assert subject == "name_only"
        other.socket.close()
        shown.write_bytes(made.name_only.read_bytes())
        until = time.monotonic() + 30
        while "dtls.certificate" in alarms():
            assert time.monotonic() < until
            time.sleep(0.5)


def test_who_is_listed_no_more_loses_the_session_by_the_file_and_by_a_reload(
    broker: Mosquitto, tmp_path: Path
) -> None:
    made = Certificates(tmp_path)
    port, listed = free_udp_port(), tmp_path / "sensors.txt"
    listed.write_text("# in the garden\nclient\nwell\nuntil-the-reload\n")
    allowed = f'allow = ["no-other"]\nallow_file = "{listed}"\n'
    config = by_certificates(port, made, made.server, allowed)
    with GatewayProcess(tmp_path, broker.url, config) as running:
        running.wait_until_connected()
        goes_on, _ = certified(port, "a", made, made.client)
        topic = goes_on.does(goes_on.registering("a"))
        first, second = (
            certified(port, name, made, made.signed(name, f"subjectAltName=DNS:{name}"))
            for name in ("well", "until-the-reload")
        )
        time.sleep(FILES_EVERY_S)  # what is there is looked at before it is another one
        listed.write_text("client\nuntil-the-reload\n")
        must_end(first[1])
        listed.write_text("")
        running.wait_for_log("dtls.allow_file holds no subject", timeout_s=30)
        goes_on.does(goes_on.publishing(topic, b"same session", qos=1))
        second[0].does(second[0].registering("b"))
        listed.write_text("client\n")
        os.kill(running.pid, signal.SIGHUP)
        must_end(second[1])
        goes_on.does(goes_on.publishing(topic, b"still", qos=1))
        for each in (goes_on, first[0], second[0]):
            each.socket.close()


def must_end(secure: DtlsSocket) -> None:
    secure.settimeout(30.0)
    with pytest.raises(ConnectionResetError):
        secure.recv(1)
